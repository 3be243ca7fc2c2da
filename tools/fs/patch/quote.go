package patch

import (
	"strconv"
	"strings"
)

// unquoteName reads a name as git writes it: plain, or in double quotes with
// C escapes and octal bytes.
func unquoteName(s string) (string, bool) {
	if !strings.HasPrefix(s, `"`) {
		return s, true
	}
	if closingQuote(s) != len(s)-1 {
		return "", false
	}
	var b strings.Builder
	for body := s[1 : len(s)-1]; body != ""; {
		if body[0] != '\\' {
			b.WriteByte(body[0])
			body = body[1:]
			continue
		}
		c, size, ok := escape(body)
		if !ok {
			return "", false
		}
		b.WriteByte(c)
		body = body[size:]
	}
	return b.String(), true
}

// closingQuote is where the quoted string that s begins with ends, or -1.
func closingQuote(s string) int {
	for at := 1; at < len(s); at++ {
		switch s[at] {
		case '\\':
			at++
		case '"':
			return at
		}
	}
	return -1
}

// escape reads a backslash and what it stands for.
func escape(s string) (c byte, size int, ok bool) {
	if len(s) < 2 {
		return 0, 0, false
	}
	const names, bytes = `abtnvfr"\\`, "\a\b\t\n\v\f\r\"\\"
	if at := strings.IndexByte(names, s[1]); at >= 0 {
		return bytes[at], 2, true
	}
	if len(s) < 4 {
		return 0, 0, false
	}
	n, err := strconv.ParseUint(s[1:4], 8, 8)
	return byte(n), 4, err == nil
}

func plainName(s string) string { return s }

// quoteName writes a name as git does with core.quotePath.
func quoteName(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\t':
			b.WriteString(`\t`)
		case c == '\n':
			b.WriteString(`\n`)
		case c < 0x20 || c >= 0x7f:
			b.WriteString(`\` + octal(c))
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func octal(c byte) string {
	return string([]byte{'0' + c>>6, '0' + c>>3&7, '0' + c&7})
}

// quoted shortens and quotes text of a patch for a message.
func quoted(s string) string { return strconv.Quote(shorten(s)) }

// shorten cuts text for a message at a rune's boundary.
func shorten(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
