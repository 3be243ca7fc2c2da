package runtime

import "io"

// Capture takes a stream of output. Write never fails for the stream's size;
// it fails when the artifact cannot be stored.
type Capture struct {
	w      io.Writer
	finish func() error
	text   func() string
	stats  func() (total int64, omitted int64)
}

// Write implements io.Writer.
func (c *Capture) Write(p []byte) (int, error) { return c.w.Write(p) }

// Close ends the stream and settles its artifact; it is idempotent.
func (c *Capture) Close() error { return c.finish() }

// Text is the head and tail for the answer: valid UTF-8, redacted, without
// control sequences, with a line that says what was left out and where it is.
// It closes the stream.
func (c *Capture) Text() string { return c.text() }

// Bytes is how much was written in all, and how much Text leaves out.
func (c *Capture) Bytes() (total, omitted int64) { return c.stats() }
