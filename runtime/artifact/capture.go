package artifact

import (
	"bytes"
	"unicode/utf8"
)

// A Capture keeps the head and the tail of a stream of any length, in memory
// bounded by its two limits. It is for one goroutine.
type Capture struct {
	head      []byte
	headLimit int
	// tail holds the last bytes: a ring that begins at next once it is full.
	tail      []byte
	tailLimit int
	next      int
	total     int64
}

// slack is how far behind the cut a Capture looks for the beginning of a rune
// or of a control sequence that the cut would break.
const slack = 256

// NewCapture returns a capture that keeps at least the given numbers of bytes
// of the stream's beginning and end, if it has as many.
func NewCapture(headLimit, tailLimit int) *Capture {
	return &Capture{headLimit: max(headLimit, 0), tailLimit: max(tailLimit, 0) + slack}
}

// Write implements io.Writer; it never fails.
func (c *Capture) Write(p []byte) (int, error) {
	n := len(p)
	c.total += int64(n)
	if room := c.headLimit - len(c.head); room > 0 {
		take := min(room, len(p))
		c.head = append(c.head, p[:take]...)
		p = p[take:]
	}
	c.keep(p)
	return n, nil
}

// keep adds to the ring.
func (c *Capture) keep(p []byte) {
	if len(p) >= c.tailLimit {
		c.tail = append(c.tail[:0], p[len(p)-c.tailLimit:]...)
		c.next = 0
		return
	}
	if room := c.tailLimit - len(c.tail); room > 0 {
		take := min(room, len(p))
		c.tail = append(c.tail, p[:take]...)
		p = p[take:]
	}
	for len(p) > 0 {
		n := copy(c.tail[c.next:], p)
		p = p[n:]
		c.next = (c.next + n) % c.tailLimit
	}
}

// Total is how many bytes were written.
func (c *Capture) Total() int64 { return c.total }

// An Excerpt is what a Capture kept. Between Head and Tail Omitted bytes are
// missing; when none are, Head is the whole and Tail is empty.
type Excerpt struct {
	Head, Tail []byte
	Omitted    int64
}

// Excerpt cuts head and tail so that neither breaks a rune or a control
// sequence. The result does not share memory with the capture.
func (c *Capture) Excerpt() Excerpt {
	tail := append(bytes.Clone(c.tail[c.next:]), c.tail[:c.next]...)
	if int64(len(c.head)+len(tail)) == c.total {
		return Excerpt{Head: append(bytes.Clone(c.head), tail...)}
	}
	head := bytes.Clone(c.head[:endOf(c.head)])
	cut := len(tail) - (c.tailLimit - slack)
	tail = tail[startOf(tail, cut):]
	return Excerpt{Head: head, Tail: tail, Omitted: c.total - int64(len(head)) - int64(len(tail))}
}

// endOf is where a head can end: before an unfinished rune or sequence.
func endOf(head []byte) int {
	end := len(head)
	for back := 1; back <= min(utf8.UTFMax-1, end); back++ {
		if b := head[end-back]; utf8.RuneStart(b) {
			if b >= utf8.RuneSelf && !utf8.FullRune(head[end-back:]) {
				end -= back
			}
			break
		}
	}
	from := max(0, end-slack)
	for {
		// What ends a string sequence begins like one itself, so once more.
		esc := bytes.LastIndexByte(head[from:end], escape)
		if esc < 0 || sequence(head[from+esc:end]) != 0 {
			return end
		}
		end = from + esc
	}
}

// startOf is the first place from cut on where a tail can begin: behind a rune
// or a sequence that began before.
func startOf(tail []byte, cut int) int {
	at := cut
	if esc := bytes.LastIndexByte(tail[:cut], escape); esc >= 0 {
		if n := sequence(tail[esc:]); n > 0 && esc+n > cut {
			at = esc + n
		}
	}
	for i := 0; i < utf8.UTFMax-1 && at < len(tail) && !utf8.RuneStart(tail[at]); i++ {
		at++
	}
	return at
}

const escape = 0x1b

// sequence is the length of the control sequence that text begins with (ECMA-48
// section 5.4, and strings such as OSC), or 0 when it is not finished.
func sequence(text []byte) int {
	if len(text) < 2 {
		return 0
	}
	switch text[1] {
	case '[':
		for i := 2; i < len(text); i++ {
			if text[i] >= 0x40 && text[i] <= 0x7e {
				return i + 1
			}
			if text[i] < 0x20 || text[i] > 0x7e {
				return i // broken off by something else
			}
		}
		return 0
	case ']', 'P', 'X', '^', '_':
		for i := 2; i < len(text); i++ {
			if text[i] == '\a' {
				return i + 1
			}
			if text[i] == escape {
				if i+1 == len(text) {
					return 0
				}
				return i + 2
			}
		}
		return 0
	}
	return 2
}
