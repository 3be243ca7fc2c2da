package artifact

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/gabriel-vasile/mimetype"
)

// Cleaned is text for a model or a person: valid UTF-8 without control
// sequences.
type Cleaned struct {
	Text string
	// InvalidUTF8 is set where bytes were replaced by U+FFFD.
	InvalidUTF8 bool
	// Rewritten is set where lines were left out that a carriage return had
	// overwritten, as progress bars do.
	Rewritten bool
}

// Clean makes text out of what a program wrote for a terminal. Control
// sequences, control characters but tab and newline, and characters that
// reorder or hide text are left out; of a line that carriage returns wrote
// several times the last state is kept; a backspace takes one character back.
//
// A sequence that is never finished hides nothing: only its beginning is left
// out. What is removed here may have stood between the parts of a secret, so
// redaction comes after (again).
func Clean(text []byte) Cleaned {
	c := cleaner{}
	c.out.Grow(len(text))
	for len(text) > 0 {
		text = text[c.step(text):]
	}
	return Cleaned{Text: c.out.String(), InvalidUTF8: c.invalid, Rewritten: c.rewritten}
}

type cleaner struct {
	out                bytes.Buffer
	lineStart          int
	returned           bool // a carriage return came, and nothing after it yet
	invalid, rewritten bool
}

// step handles what text begins with and returns its length.
func (c *cleaner) step(text []byte) int {
	if n := plain(text); n > 0 {
		c.put(text[:n])
		return n
	}
	switch text[0] {
	case escape:
		return hidden(text)
	case '\n':
		c.returned = false
		c.out.WriteByte('\n')
		c.lineStart = c.out.Len()
		return 1
	case '\r':
		c.returned = true
		return 1
	case '\b':
		line := c.out.Bytes()[c.lineStart:]
		_, n := utf8.DecodeLastRune(line)
		if len(line) > 0 {
			c.out.Truncate(c.out.Len() - n)
		}
		return 1
	}
	r, n := utf8.DecodeRune(text)
	switch {
	case r == utf8.RuneError && n == 1:
		c.invalid = true
		c.put([]byte(string(utf8.RuneError)))
	case !concealed(r):
		c.put(text[:n])
	}
	return n
}

func (c *cleaner) put(p []byte) {
	if c.returned {
		c.returned = false
		if c.out.Len() > c.lineStart {
			c.out.Truncate(c.lineStart)
			c.rewritten = true
		}
	}
	c.out.Write(p)
}

// plain is how many printable ASCII characters and tabs text begins with.
func plain(text []byte) int {
	n := 0
	for n < len(text) && (text[n] >= ' ' && text[n] < 0x7f || text[n] == '\t') {
		n++
	}
	return n
}

// maxString bounds a string sequence (title, hyperlink, clipboard).
const maxString = 4096

// hidden is the length of the sequence that text begins with. One that is not
// finished, or goes over lines, is not one: a program could else hide what it
// does behind it.
func hidden(text []byte) int {
	n := sequence(text[:min(len(text), maxString)])
	isString := len(text) > 1 && bytes.IndexByte([]byte("]PX^_"), text[1]) >= 0
	switch {
	case n == 0 && !isString && len(text) < maxString:
		return len(text) // cut off at the end of the text
	case n == 0 || isString && bytes.IndexByte(text[:n], '\n') >= 0:
		return min(2, len(text))
	}
	return n
}

// concealed are runes that no reader sees as they are: controls, marks that
// change the direction of text, and invisible tag characters.
func concealed(r rune) bool {
	return r < ' ' || r >= 0x7f && r <= 0x9f ||
		r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 ||
		r >= 0xe0000 && r <= 0xe007f
}

// Description tells what kind of content some bytes are.
type Description struct {
	// Type is a media type, "text/plain; charset=utf-8" where nothing closer is
	// known of a text.
	Type   string
	Binary bool
}

// isPlain tells whether a short sample is printable ASCII alone: most output is,
// and wants no look at a hundred signatures. A text that begins like a document
// of some kind is looked at.
func isPlain(sample []byte) bool {
	if len(sample) > 3072 {
		sample = sample[:3072]
	}
	for _, b := range sample {
		if b < ' ' && b != '\n' && b != '\t' && b != '\r' || b >= 0x7f {
			return false
		}
	}
	return !strings.ContainsRune("<%{[#P", rune(sample[0]))
}

// isTerminalText tells whether what has no other type is text for a terminal:
// its only control characters are those that move a cursor, ring or colour.
func isTerminalText(sample []byte) bool {
	if len(sample) > 3072 {
		sample = sample[:3072]
	}
	for _, b := range sample {
		if (b < ' ' || b == 0x7f) && !strings.ContainsRune("\a\b\t\n\v\f\r\x1b\x0e\x0f", rune(b)) {
			return false
		}
	}
	// A cut rune at the end is no sign of binary.
	return utf8.Valid(sample) || len(sample) > utf8.UTFMax && utf8.Valid(sample[:len(sample)-utf8.UTFMax+1]) ||
		bytes.Count(sample, []byte{escape}) > 0
}

// Describe looks at the beginning of some content (3 KiB are looked at).
func Describe(sample []byte) Description {
	if len(sample) > 0 && isPlain(sample) {
		return Description{Type: "text/plain; charset=utf-8"}
	}
	kind := mimetype.Detect(sample)
	if kind.Is("application/octet-stream") && isTerminalText(sample) {
		return Description{Type: "text/plain"}
	}
	d := Description{Type: kind.String(), Binary: true}
	for k := kind; k != nil; k = k.Parent() {
		if k.Is("text/plain") {
			d.Binary = strings.Contains(string(sample), "\x00")
		}
	}
	return d
}
