package text

import (
	"bytes"
	"unicode/utf8"
)

// A Window keeps some lines of a file that is written to it in parts: those of
// a range, as many as fit whole into a number of bytes, and at least a part of
// the first.
type Window struct {
	from, to  int64
	max       int
	line      int64 // the line that the next byte belongs to
	buf       []byte
	lineStart int // where the current line begins in buf
	last      int64
	full, cut bool
}

// NewWindow keeps lines from to to, both included and counted from 1, in at
// most limit bytes.
func NewWindow(from, to int64, limit int) *Window {
	return &Window{from: from, to: to, max: limit, line: 1, last: from - 1}
}

// Write takes the next part; it never fails.
func (w *Window) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 && !w.Done() {
		segment, complete := p, false
		if at := bytes.IndexByte(p, '\n'); at >= 0 {
			segment, complete = p[:at+1], true
		}
		if w.line >= w.from {
			w.keep(segment, complete)
		}
		if complete {
			w.line++
		}
		p = p[len(segment):]
	}
	return n, nil
}

func (w *Window) keep(segment []byte, complete bool) {
	room := w.max - len(w.buf)
	switch {
	case len(segment) <= room:
		w.buf = append(w.buf, segment...)
		w.last = w.line
		if complete {
			w.lineStart = len(w.buf)
		}
	case w.lineStart == 0:
		w.buf = append(w.buf, segment[:room]...)
		w.last, w.full, w.cut = w.line, true, true
	default:
		w.buf = w.buf[:w.lineStart]
		w.last, w.full = w.line-1, true
	}
}

// Done is true once no further byte can be kept.
func (w *Window) Done() bool { return w.full || w.line > w.to }

// Content is what was kept. Where it ends within a line, it does not end
// within a UTF-8 character.
func (w *Window) Content() []byte {
	if !w.cut {
		return w.buf
	}
	for back := 1; back < utf8.UTFMax && back <= len(w.buf); back++ {
		tail := w.buf[len(w.buf)-back:]
		if utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return w.buf[:len(w.buf)-back]
			}
			break
		}
	}
	return w.buf
}

// Last is the number of the last line that was kept, from-1 if none was.
func (w *Window) Last() int64 { return w.last }

// Full is true where lines of the range were left out for their size, Cut
// where the only line that was kept is not whole.
func (w *Window) Full() bool { return w.full }

// Cut tells of a part of a line; see Full.
func (w *Window) Cut() bool { return w.cut }
