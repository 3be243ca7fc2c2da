package patch

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/tools/fs/text"
)

// body is a file as its lines, each with its own ending.
type body struct {
	encoding text.Encoding
	mark     bool // a UTF-8 byte order mark stood before the first line
	lines    []text.Line
	dominant string
	searched int // places tried so far, of all hunks
}

// newBody takes a file apart. UTF-16 that would not come back the same is
// kept as bytes, where no line of a patch will match.
func newBody(src []byte) *body {
	b := &body{encoding: text.Detect(src)}
	if b.encoding.IsUTF16() {
		if decoded, ok := text.DecodeUTF16(src, b.encoding); ok {
			src = decoded
		} else {
			b.encoding = text.Binary
		}
	}
	if rest, ok := bytes.CutPrefix(src, []byte(text.BOM)); ok && !b.encoding.IsUTF16() {
		b.mark, src = true, rest
	}
	b.lines = text.Split(src)
	b.dominant = text.Dominant(b.lines)
	return b
}

// with puts other lines in place of the body's and makes bytes of them.
func (b *body) with(lines []text.Line) []byte {
	out := text.Join(lines)
	if b.encoding.IsUTF16() {
		return text.EncodeUTF16(out, b.encoding)
	}
	if b.mark {
		return append([]byte(text.BOM), out...)
	}
	return out
}

// takeMark makes the byte order mark part of the first line where a patch
// spells it out, as git's diffs do.
func (b *body) takeMark(hunks []Hunk) {
	if !b.mark {
		return
	}
	for _, h := range hunks {
		if old := h.old(); len(old) > 0 && h.OldStart <= 1 && strings.HasPrefix(old[0].Text, text.BOM) {
			if len(b.lines) == 0 {
				b.lines = []text.Line{{}}
			}
			b.lines[0].Raw = append([]byte(text.BOM), b.lines[0].Raw...)
			b.mark = false
			return
		}
	}
}

// matches tells whether the old lines are the file's at this index. In the
// strict sense the endings are the same too.
func (b *body) matches(old []Line, at int, strict bool) bool {
	if at < 0 || at+len(old) > len(b.lines) {
		return false
	}
	for i, l := range old {
		if !b.matchesLine(l, at+i, strict) {
			return false
		}
	}
	return true
}

func (b *body) matchesLine(l Line, at int, strict bool) bool {
	have := b.lines[at]
	if l.NoEnd && have.End != text.None {
		return false
	}
	if !sameText(have.Raw, l) {
		return false
	}
	if !strict {
		return true
	}
	if l.NoEnd {
		return l.CR == bytes.HasSuffix(have.Raw, []byte("\r"))
	}
	return have.End == l.end()
}

// end is the ending that the patch itself shows.
func (l Line) end() string {
	if l.CR {
		return text.CRLF
	}
	return text.LF
}

func sameText(raw []byte, l Line) bool {
	if string(raw) == l.Text || l.CR && string(raw) == l.Text+"\r" {
		return true
	}
	return !utf8.Valid(raw) && string(text.View(raw)) == l.Text
}

// encode turns an added line's text into bytes as the lines around it are
// stored.
func (b *body) encode(l Line, eightBit bool) ([]byte, bool) {
	if b.encoding == text.Latin1 || b.encoding == text.Unknown8Bit && eightBit {
		return text.ToLatin1([]byte(l.Text))
	}
	return []byte(l.Text), true
}

// touches8Bit is true where one of the file's lines is not UTF-8.
func (b *body) touches8Bit(at, n int) bool {
	for _, l := range b.lines[at : at+n] {
		if !utf8.Valid(l.Raw) {
			return true
		}
	}
	return false
}

// show is a line of the file for a message.
func (b *body) show(at int) string { return shorten(string(text.View(b.lines[at].Raw))) }
