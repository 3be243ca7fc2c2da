package text

import "bytes"

// The endings of a line. None is the last line of a file without a final
// newline.
const (
	LF   = "\n"
	CRLF = "\r\n"
	None = ""
)

// A Line is one line of a file: its bytes without the ending, and the ending.
type Line struct {
	Raw []byte
	End string
}

// Split cuts data into lines at LF and CRLF. A lone CR is an ordinary byte.
// Join gives data again.
func Split(data []byte) []Line {
	lines := make([]Line, 0, bytes.Count(data, []byte(LF))+1)
	for len(data) > 0 {
		at := bytes.IndexByte(data, '\n')
		if at < 0 {
			return append(lines, Line{Raw: data})
		}
		line := Line{Raw: data[:at], End: LF}
		if at > 0 && data[at-1] == '\r' {
			line = Line{Raw: data[:at-1], End: CRLF}
		}
		lines = append(lines, line)
		data = data[at+1:]
	}
	return lines
}

// Join is the inverse of Split.
func Join(lines []Line) []byte {
	size := 0
	for _, l := range lines {
		size += len(l.Raw) + len(l.End)
	}
	out := make([]byte, 0, size)
	for _, l := range lines {
		out = append(append(out, l.Raw...), l.End...)
	}
	return out
}

// Dominant is the ending that most lines have, LF where none has one.
func Dominant(lines []Line) string {
	crlf, lf := 0, 0
	for _, l := range lines {
		switch l.End {
		case CRLF:
			crlf++
		case LF:
			lf++
		}
	}
	if crlf > lf {
		return CRLF
	}
	return LF
}
