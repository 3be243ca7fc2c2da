package runtime

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/sandboxd/sandboxd/runtime/artifact"
	"github.com/sandboxd/sandboxd/runtime/redact"
)

// captureSet is every stream of one call.
type captureSet struct {
	store    *artifact.Store
	redactor *redact.Redactor
	meta     artifact.Meta
	budget   int // characters of inline text that each stream may take

	mu       sync.Mutex
	captures []*Capture
}

func newCaptureSet(store *artifact.Store, red *redact.Redactor, call Call, maxChars int) *captureSet {
	return &captureSet{
		store: store, redactor: red, budget: maxChars / 2,
		meta: artifact.Meta{RunID: call.RunID, CallID: call.ToolCallID, Type: "text/plain"},
	}
}

func (s *captureSet) open(name, description string) *Capture {
	meta := s.meta
	meta.Name, meta.Description = name, description
	c := &Capture{set: s, meta: meta, view: artifact.NewCapture(s.budget*2/3, s.budget/3)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.captures = append(s.captures, c)
	return c
}

// settle closes every stream and returns what was stored and taken out.
func (s *captureSet) settle() ([]ArtifactRef, []Redaction, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var refs []ArtifactRef
	var redactions []Redaction
	var errs []error
	for _, c := range s.captures {
		if err := c.Close(); err != nil {
			errs = append(errs, fmt.Errorf("store %s: %w", c.meta.Name, err))
		}
		if c.ref != nil {
			refs = append(refs, *c.ref)
		}
		redactions = append(redactions, noted(c.found, "/structuredOutput/"+c.meta.Name)...)
	}
	return refs, redactions, errors.Join(errs...)
}

// filter is the redactor in front of an artifact's redacted view, which the
// inline view shares.
func (s *captureSet) filter(c *Capture) func(io.Writer) artifact.Filter {
	return func(w io.Writer) artifact.Filter {
		c.redactor = s.redactor.Writer(io.MultiWriter(w, c.view))
		return c.redactor
	}
}

func refOf(info artifact.Info) *ArtifactRef {
	return &ArtifactRef{
		ID: info.ID, RunID: info.RunID, ToolCallID: info.CallID, Type: info.Type, Name: info.Name,
		Bytes: info.Bytes, SHA256: info.SHA256, Description: info.Description, CreatedAt: info.CreatedAt,
	}
}
