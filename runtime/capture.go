package runtime

import (
	"fmt"
	"strings"
	"sync"

	"github.com/sandboxd/sandboxd/runtime/artifact"
	"github.com/sandboxd/sandboxd/runtime/redact"
)

// Capture takes a stream of output of any size in bounded memory. Small output
// stays in memory; what outgrows it goes to an artifact as it comes, redacted
// on its way into the view that others see. It is safe for concurrent use.
type Capture struct {
	set  *captureSet
	meta artifact.Meta

	mu       sync.Mutex
	small    []byte
	large    *artifact.Writer
	redactor *redact.Writer
	view     *artifact.Capture // head and tail of the redacted stream
	total    int64
	closed   bool
	err      error
	ref      *ArtifactRef
	found    []redact.Found
	text     string
	omitted  int64
}

// Write implements io.Writer. It fails when the artifact cannot be stored.
func (c *Capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	c.total += int64(len(p))
	if c.large == nil && len(c.small)+len(p) <= c.set.budget {
		c.small = append(c.small, p...)
		return len(p), nil
	}
	if c.large == nil {
		if c.err = c.spill(); c.err != nil {
			return 0, c.err
		}
	}
	if _, c.err = c.large.Write(p); c.err != nil {
		return 0, c.err
	}
	return len(p), nil
}

// spill begins the artifact with what was kept so far.
func (c *Capture) spill() error {
	kind := artifact.Describe(c.small)
	c.meta.Type = kind.Type
	w, err := c.set.store.Create(c.meta, c.set.filter(c))
	if err != nil {
		return err
	}
	c.large = w
	_, err = w.Write(c.small)
	c.small = nil
	return err
}

// Close ends the stream and settles its artifact; it is idempotent.
func (c *Capture) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.close()
}

func (c *Capture) close() error {
	if c.closed {
		return c.err
	}
	c.closed = true
	// Binary output is not shown, so even a little of it is stored.
	if c.large == nil && c.err == nil && artifact.Describe(c.small).Binary {
		c.err = c.spill()
	}
	if c.large == nil {
		clean, found := c.set.redactor.Bytes(c.small)
		c.found, c.small = found, nil
		c.text = artifact.Clean(clean).Text
		return c.err
	}
	info, err := c.large.Commit()
	if c.err == nil {
		c.err = err
	}
	if err == nil {
		c.ref, c.found = refOf(info), c.redactor.Found()
	}
	c.text, c.omitted = c.excerpt()
	return c.err
}

// excerpt is the head and the tail with a line between them that says what was
// left out and how to read it.
func (c *Capture) excerpt() (string, int64) {
	x := c.view.Excerpt()
	if kind := artifact.Describe(x.Head); kind.Binary {
		return fmt.Sprintf("[binary output: %s, %d bytes%s]\n", kind.Type, c.total, c.stored()), c.total
	}
	head := artifact.Clean(x.Head).Text
	if x.Omitted == 0 {
		return head, 0
	}
	if !strings.HasSuffix(head, "\n") {
		head += "\n"
	}
	return fmt.Sprintf("%s[… %d bytes left out%s …]\n%s", head, x.Omitted, c.stored(), artifact.Clean(x.Tail).Text), x.Omitted
}

func (c *Capture) stored() string {
	if c.ref == nil {
		return ""
	}
	return "; all of it is artifact " + c.ref.ID
}

// Text is the head and tail for the answer: valid UTF-8, redacted, without
// control sequences, with a line that says what was left out and where it is.
// It closes the stream; an error of that is told by the call's end.
func (c *Capture) Text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.close() // settle reads the same error
	return c.text
}

// Bytes is how much was written in all, and how much Text leaves out.
func (c *Capture) Bytes() (total, omitted int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total, c.omitted
}
