package redact

import (
	"errors"
	"io"
	"slices"
	"strings"
)

// A Writer redacts what is written to it and passes it on. It is for one
// goroutine. Close lets go of what was held back.
type Writer struct {
	w      io.Writer
	s      stream
	err    error
	closed bool
}

// Writer returns a redacting writer in front of w.
func (r *Redactor) Writer(w io.Writer) *Writer {
	return &Writer{w: w, s: stream{r: r}}
}

var errClosed = errors.New("redact: write after close")

// Write implements io.Writer. An error is that of the writer behind, and is
// final.
func (w *Writer) Write(p []byte) (int, error) {
	if w.closed {
		return 0, errClosed
	}
	if w.err == nil {
		w.err = w.s.feed(w.w, p, false)
	}
	if w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

// Close ends the stream: what was held back is decided and passed on. It does
// not close the writer behind, and is idempotent.
func (w *Writer) Close() error {
	if w.closed {
		return w.err
	}
	w.closed = true
	if w.err == nil {
		w.err = w.s.feed(w.w, nil, true)
	}
	return w.err
}

// Changed tells whether anything was taken out so far. It is true before the
// first mark is passed on.
func (w *Writer) Changed() bool { return len(w.s.counts) > 0 }

// Found says what was taken out so far, by kind in order of name.
func (w *Writer) Found() []Found { return w.s.found() }

// A stream is the state of one text on its way through a redactor. Positions
// are relative to text, which begins with the first byte not yet let go.
type stream struct {
	r    *Redactor
	text []byte
	held []byte // owns what text holds between two feeds
	// before is the end of what was let go.
	before         []byte
	exact, wrapped cursor
	regions        []region // in order, not touching each other
	waiting        []candidate
	open           []openRun
	counts         map[int]int
}

// A candidate is a keyword whose format cannot be decided yet.
type candidate struct {
	start, body int
	target      target
	// looked is how much text behind the keyword was looked at last time.
	looked int
}

// manyWaiting is how many candidates are looked at again whenever text comes.
// Where a hostile text makes more wait, each waits for twice as much text, so
// that the work stays in proportion.
const manyWaiting = 8

// An openRun is a match that goes on for as long as its class of bytes does.
type openRun struct {
	pos, left int
	class     *byteClass
	kind      int
}

// maxOpenRun bounds how far a match goes on; no key is longer.
const maxOpenRun = 64 << 10

// feed takes the next part of the text and lets go of what is decided; at the
// end of the text that is all.
func (s *stream) feed(w io.Writer, p []byte, end bool) error {
	from := len(s.held)
	s.text = p
	if from > 0 {
		s.held = append(s.held, p...)
		s.text = s.held
	}
	s.extend()
	waiting := s.waiting
	s.waiting = nil
	for _, c := range waiting {
		if len(waiting) > manyWaiting && len(s.text)-c.body < 2*c.looked && !end {
			s.waiting = append(s.waiting, c)
			continue
		}
		s.try(c, end)
	}
	s.scan(from, end)
	return s.release(w, s.decided(end))
}

func (s *stream) scan(from int, end bool) {
	if a := s.r.exact; a != nil {
		a.scan(&s.exact, s.text, from, func(at, lit int) {
			t := s.r.exactTargets[lit]
			if t.format == nil {
				s.add(region{start: at - t.length, end: at, kind: t.kind})
				return
			}
			s.try(candidate{start: at - t.length, body: at, target: t}, end)
		})
	}
	if a := s.r.wrapped; a != nil {
		a.scan(&s.wrapped, s.text, from, func(at, lit int) {
			t := s.r.wrapsTargets[lit]
			s.add(region{start: at - a.span(s.text, at, t.length), end: at, kind: t.kind})
		})
	}
}

// lookBehind is how much text before a keyword a format may ask for.
const lookBehind = 64

// behind returns the last bytes before place i, those let go included.
func (s *stream) behind(i int) []byte {
	if i >= lookBehind {
		return s.text[i-lookBehind : i]
	}
	all := append(slices.Clone(s.before), s.text[:i]...)
	return all[max(0, len(all)-lookBehind):]
}

// try asks the format whether a keyword starts a secret.
func (s *stream) try(c candidate, end bool) {
	if before := c.target.format.before; before != nil && !before(s.behind(c.start)) {
		return
	}
	m := c.target.format.match(s.text[c.body:], end)
	switch m.verdict {
	case undecided:
		c.looked = len(s.text) - c.body
		s.waiting = append(s.waiting, c)
	case secret:
		start := c.start
		if c.target.format.keep {
			start = c.body + m.from
		}
		stop := c.body + m.to
		s.add(region{start: start, end: stop, kind: c.target.kind})
		if m.rest != nil {
			s.open = append(s.open, openRun{pos: stop, left: maxOpenRun, class: m.rest, kind: c.target.kind})
			s.extend()
		}
	}
}

// extend carries open runs on through the text that is there.
func (s *stream) extend() {
	kept := s.open[:0]
	for _, o := range s.open {
		i := o.pos
		for i < len(s.text) && o.left > 0 && o.class[s.text[i]] {
			i++
			o.left--
		}
		if i > o.pos {
			s.add(region{start: o.pos, end: i, kind: o.kind})
		}
		if o.pos = i; i == len(s.text) && o.left > 0 {
			kept = append(kept, o)
		}
	}
	s.open = kept
}

// decided is how far no further region can begin.
func (s *stream) decided(end bool) int {
	n := len(s.text)
	if end {
		return n
	}
	if a := s.r.exact; a != nil {
		n = min(n, len(s.text)-a.held(&s.exact, s.text))
	}
	if a := s.r.wrapped; a != nil {
		n = min(n, len(s.text)-a.held(&s.wrapped, s.text))
	}
	for _, c := range s.waiting {
		n = min(n, c.start)
	}
	return n
}

// release passes on text[:n] with marks for its regions, and keeps the rest.
func (s *stream) release(w io.Writer, n int) error {
	pos := 0
	for i := range s.regions {
		g := &s.regions[i]
		if g.start >= n {
			break
		}
		if err := write(w, s.text[pos:max(pos, g.start)]); err != nil {
			return err
		}
		if !g.announced {
			g.announced = true
			s.count(g.kind)
			if err := write(w, []byte("[REDACTED:"+s.r.kinds[g.kind]+"]")); err != nil {
				return err
			}
		}
		pos = max(pos, min(g.end, n))
	}
	if err := write(w, s.text[pos:n]); err != nil {
		return err
	}
	s.drop(n)
	return nil
}

// drop forgets text[:n]. A region that reaches that far is kept, so that what
// touches it later is joined to it.
func (s *stream) drop(n int) {
	s.before = append(s.before[:0], s.behind(n)...)
	kept := s.regions[:0]
	for _, g := range s.regions {
		if g.end >= n {
			kept = append(kept, region{max(0, g.start-n), g.end - n, g.kind, g.announced})
		}
	}
	s.regions = kept
	for i := range s.waiting {
		s.waiting[i].start -= n
		s.waiting[i].body -= n
	}
	for i := range s.open {
		s.open[i].pos -= n
	}
	s.held = append(s.held[:0], s.text[n:]...)
	s.text = nil
}

func (s *stream) count(kind int) {
	if s.counts == nil {
		s.counts = map[int]int{}
	}
	s.counts[kind]++
}

func (s *stream) found() []Found {
	if len(s.counts) == 0 {
		return nil
	}
	out := make([]Found, 0, len(s.counts))
	for kind, n := range s.counts {
		out = append(out, Found{Kind: s.r.kinds[kind], Count: n})
	}
	slices.SortFunc(out, func(a, b Found) int { return strings.Compare(a.Kind, b.Kind) })
	return out
}

func write(w io.Writer, p []byte) error {
	if len(p) == 0 {
		return nil
	}
	_, err := w.Write(p)
	return err
}
