package redact

import "bytes"

// A format is a well-known kind of secret: a keyword that tells it apart, and
// what must follow.
type format struct {
	kind     string
	keywords []string
	// before, unless nil, says whether the keyword counts behind this text (its
	// last bytes; empty at the beginning).
	before func(text []byte) bool
	// keep leaves the keyword in the text and takes out what match names.
	keep bool
	// match looks at the text behind the keyword. What it answers must not
	// depend on how much more text there is, unless it is undecided; at the end
	// of the text it must decide.
	match func(text []byte, end bool) match
}

// A match says whether text[from:to] is a secret, and which bytes behind it
// belong to it too.
type match struct {
	verdict  verdict
	from, to int
	rest     *byteClass
}

type verdict int

const (
	harmless verdict = iota
	secret
	undecided
)

// A byteClass is a set of bytes.
type byteClass [256]bool

// classOf builds a class from ranges like "a-z" (written "az"), and single
// bytes after a space.
func classOf(ranges, singles string) byteClass {
	var c byteClass
	for i := 0; i+1 < len(ranges); i += 2 {
		for b := int(ranges[i]); b <= int(ranges[i+1]); b++ {
			c[b] = true
		}
	}
	for i := range len(singles) {
		c[singles[i]] = true
	}
	return c
}

// The classes of bytes that secrets are made of. They are constant.
var (
	classWord   = classOf("azAZ09", "_")
	classAlnum  = classOf("azAZ09", "")
	classHex    = classOf("afAF09", "")
	classUpper2 = classOf("AZ27", "")
	classURL64  = classOf("azAZ09", "_-")
	classDotted = classOf("azAZ09", "_-.")
	classStd64  = classOf("azAZ09", "+/=")
	classToken  = classOf("azAZ09", "._~+/=-")
	classDashed = classOf("azAZ09", "-/")
	// classPEM is the body of a key block, also where its line ends are
	// escaped or its lines indented.
	classPEM = classOf("azAZ09", "+/= \t\r\n\\")
)

// alone demands that no letter, digit or underscore comes before, unless it
// ends an escape.
func alone(text []byte) bool {
	return len(text) == 0 || !classWord[text[len(text)-1]] || endsEscape(text)
}

// outermost is alone, and not within what another keyword of its kind has
// begun just before: a text made of them would be looked at again for each.
func outermost(text []byte) bool {
	if !alone(text) {
		return false
	}
	from := len(text)
	for from > 0 && classURL64[text[from-1]] {
		from--
	}
	return !bytes.Contains(text[from:], []byte("eyJ"))
}

// endsEscape tells whether text ends in the escape of a character, as in JSON,
// in C or in a URL, or in a terminal's colour.
func endsEscape(text []byte) bool {
	hexEnd := func(digits int, lead string) bool {
		at := len(text) - digits - len(lead)
		return at >= 0 && string(text[at:at+len(lead)]) == lead && run(text[at+len(lead):], &classHex, digits) == digits
	}
	last := len(text) - 1
	switch text[last] {
	case 'n', 'r', 't':
		return last > 0 && text[last-1] == '\\'
	case 'm':
		i := last - 1
		for i >= 0 && (text[i] == ';' || text[i] >= '0' && text[i] <= '9') {
			i--
		}
		return i > 0 && text[i] == '[' && text[i-1] == 0x1b
	}
	return hexEnd(2, "%") || hexEnd(2, `\x`) || hexEnd(4, `\u`)
}

// run counts bytes of a class, up to limit.
func run(text []byte, class *byteClass, limit int) int {
	n := 0
	for n < len(text) && n < limit && class[text[n]] {
		n++
	}
	return n
}

// atLeast wants min bytes of a class, and takes all that follow of it.
func atLeast(min int, class *byteClass) func([]byte, bool) match {
	return func(text []byte, end bool) match {
		n := run(text, class, min)
		switch {
		case n == min:
			return match{verdict: secret, to: n, rest: class}
		case n == len(text) && !end:
			return match{verdict: undecided}
		}
		return match{}
	}
}

// exactly wants n bytes of a class and then none of it.
func exactly(n int, class *byteClass) func([]byte, bool) match {
	return func(text []byte, end bool) match {
		got := run(text, class, n+1)
		switch {
		case got == len(text) && got <= n && !end:
			return match{verdict: undecided}
		case got == n:
			return match{verdict: secret, to: n}
		}
		return match{}
	}
}

// mixed is atLeast, where the first min bytes must hold a digit or letters of
// both cases: words do not.
func mixed(min int, class *byteClass) func([]byte, bool) match {
	inner := atLeast(min, class)
	return func(text []byte, end bool) match {
		m := inner(text, end)
		if m.verdict != secret {
			return m
		}
		var lower, upper, digit bool
		for _, b := range text[:min] {
			lower = lower || b >= 'a' && b <= 'z'
			upper = upper || b >= 'A' && b <= 'Z'
			digit = digit || b >= '0' && b <= '9'
		}
		if digit || lower && upper {
			return m
		}
		return match{}
	}
}

// maxSeparator bounds what stands between a name and its value.
const maxSeparator = 8

// assigned lets a separator such as `": "` or `=` come first, at least one
// byte of it.
func assigned(inner func([]byte, bool) match) func([]byte, bool) match {
	separator := classOf("", " \t\"'\\:=>")
	return func(text []byte, end bool) match {
		n := run(text, &separator, maxSeparator)
		if n == len(text) && n < maxSeparator && !end {
			return match{verdict: undecided}
		}
		if n == 0 {
			return match{}
		}
		m := inner(text[n:], end)
		m.from, m.to = n, m.to+n
		return m
	}
}

// pathEnd ends a host path: what follows must not be a longer name.
func pathEnd(text []byte, end bool) match {
	switch {
	case len(text) == 0 && !end:
		return match{verdict: undecided}
	case len(text) > 0 && (classWord[text[0]] || text[0] == '-'):
		return match{}
	}
	return match{verdict: secret}
}

// maxJWTHeader bounds the first part of a token.
const maxJWTHeader = 1024

// jsonWebToken (RFC 7519) is a part in base64, a dot, and more of them. The
// keyword is the first part's beginning.
func jsonWebToken(text []byte, end bool) match {
	const payload = 10
	n := run(text, &classURL64, maxJWTHeader)
	switch {
	case n == len(text) && n < maxJWTHeader && !end:
		return match{verdict: undecided}
	case n < payload || n >= len(text) || text[n] != '.':
		return match{}
	}
	m := atLeast(payload, &classDotted)(text[n+1:], end)
	m.to += n + 1
	return m
}

// maxUserinfo bounds user and password of a URL, each.
const maxUserinfo = 256

// urlPassword is "user:password@" behind "://" (RFC 3986 section 3.2.1); only
// the password is secret. A shell or template variable is none.
func urlPassword(text []byte, end bool) match {
	allowed := func(stop byte) int {
		for i, b := range text {
			if b == stop {
				return i
			}
			if b <= ' ' || b == '/' || b == '@' || b == '"' || b == '\'' || b == '<' || b == '>' || b == 0x7f || i > 2*maxUserinfo {
				return -1
			}
		}
		return len(text)
	}
	colon := allowed(':')
	at := allowed('@')
	switch {
	case colon < 0 || at < 0 || colon > maxUserinfo:
		return match{}
	case at == len(text):
		if end {
			return match{}
		}
		return match{verdict: undecided}
	case colon > at || at == colon+1 || text[colon+1] == '$' || text[colon+1] == '{':
		return match{}
	}
	return match{verdict: secret, from: colon + 1, to: at}
}
