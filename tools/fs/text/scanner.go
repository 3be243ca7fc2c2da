package text

import (
	"bytes"
	"unicode/utf8"
)

// A Scanner learns encoding, endings and the number of lines of a file that is
// written to it in parts. It holds a few bytes between parts.
type Scanner struct {
	head           []byte // the first bytes, for the mark
	bytes          int64
	lf, crlf, cr   int64
	last           byte
	nul            bool
	invalid, multi bool // bytes that are not UTF-8; valid characters beyond ASCII
	carry          []byte
	mark16         Encoding
}

// NewScanner returns a scanner of an empty file.
func NewScanner() *Scanner { return &Scanner{} }

// Write takes the next part; it never fails.
func (s *Scanner) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if need := 4 - len(s.head); need > 0 {
		s.head = append(s.head, p[:min(need, len(p))]...)
	}
	s.endings(p)
	s.nul = s.nul || bytes.IndexByte(p, 0) >= 0
	s.utf8(p)
	s.bytes += int64(len(p))
	s.last = p[len(p)-1]
	return len(p), nil
}

func (s *Scanner) endings(p []byte) {
	lf := int64(bytes.Count(p, []byte(LF)))
	cr := int64(bytes.Count(p, []byte("\r")))
	crlf := int64(bytes.Count(p, []byte(CRLF)))
	if s.last == '\r' && p[0] == '\n' {
		crlf++
		s.cr--
	}
	s.lf += lf - crlf
	s.crlf += crlf
	s.cr += cr - int64(bytes.Count(p, []byte(CRLF)))
}

// utf8 checks the encoding across parts: at most three bytes are carried.
func (s *Scanner) utf8(p []byte) {
	if s.invalid && s.multi {
		return
	}
	end := s.bytes + int64(len(p))
	if len(s.carry) > 0 {
		p = append(s.carry, p...)
		s.carry = nil
	}
	for len(p) > 0 {
		if p[0] < utf8.RuneSelf {
			p = p[asciiRun(p):]
			continue
		}
		if !utf8.FullRune(p) {
			s.carry = bytes.Clone(p)
			return
		}
		r, size := utf8.DecodeRune(p)
		if r == utf8.RuneError && size == 1 {
			s.invalid = true
		} else {
			s.multi = s.multi || r != '\uFEFF' || int64(len(p)) < end
		}
		p = p[size:]
	}
}

func asciiRun(p []byte) int {
	for i, b := range p {
		if b >= utf8.RuneSelf {
			return i
		}
	}
	return len(p)
}

// Bytes is how many bytes were written.
func (s *Scanner) Bytes() int64 { return s.bytes }

// Mark16 states that what was written is the text of a UTF-16 file, decoded.
func (s *Scanner) Mark16(e Encoding) { s.mark16 = e }

// Mark is the encoding that a byte order mark states, or "".
func (s *Scanner) Mark() Encoding {
	if s.mark16 != "" {
		return s.mark16
	}
	return ByMark(s.head)
}

// FinalNewline is true where the last line has its ending.
func (s *Scanner) FinalNewline() bool { return s.bytes > 0 && s.last == '\n' }

// Encoding is what the bytes written so far are.
func (s *Scanner) Encoding() Encoding {
	mark := s.Mark()
	switch {
	case mark.IsUTF16() || mark == Binary:
		return mark
	case s.nul:
		return Binary
	case !s.invalid && len(s.carry) == 0 && mark == UTF8BOM:
		return UTF8BOM
	case !s.invalid && len(s.carry) == 0:
		return UTF8
	case s.multi:
		return Unknown8Bit
	}
	return Latin1
}

// Lines is the number of lines; a last line without an ending counts.
func (s *Scanner) Lines() int64 {
	n := s.lf + s.crlf
	if s.bytes > 0 && s.last != '\n' {
		n++
	}
	return n
}

// Endings names the line endings: "lf", "crlf", "cr" (lone CRs and nothing
// else), "mixed", or "none".
func (s *Scanner) Endings() string {
	switch {
	case s.lf > 0 && s.crlf > 0:
		return "mixed"
	case s.crlf > 0:
		return "crlf"
	case s.lf > 0:
		return "lf"
	case s.cr > 0:
		return "cr"
	}
	return "none"
}
