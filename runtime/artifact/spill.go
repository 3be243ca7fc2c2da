package artifact

import "io"

// A Spill holds a stream in memory as long as it is short, and opens a writer
// for all of it once it is not: output that fits its result needs no artifact.
// It is for one goroutine.
type Spill struct {
	limit int
	open  func() (io.Writer, error)
	held  []byte
	w     io.Writer
	err   error
}

// NewSpill returns a spill that holds up to limit bytes.
func NewSpill(limit int, open func() (io.Writer, error)) *Spill {
	return &Spill{limit: limit, open: open}
}

// Write implements io.Writer. An error is that of open or of the writer, and
// is final.
func (s *Spill) Write(p []byte) (int, error) {
	switch {
	case s.err != nil:
		return 0, s.err
	case s.w == nil && len(s.held)+len(p) <= s.limit:
		s.held = append(s.held, p...)
		return len(p), nil
	case s.w == nil:
		if s.err = s.begin(); s.err != nil {
			return 0, s.err
		}
	}
	n, err := s.w.Write(p)
	s.err = err
	return n, err
}

func (s *Spill) begin() error {
	w, err := s.open()
	if err != nil {
		return err
	}
	s.w = w
	_, err = w.Write(s.held)
	s.held = nil
	return err
}

// Spilled tells whether the writer was opened.
func (s *Spill) Spilled() bool { return s.w != nil }
