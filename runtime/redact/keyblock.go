package redact

// Bounds of what may come before the body of a key block.
const (
	maxKeyTitle   = 48
	maxKeyHeaders = 512
	minKeyBody    = 24
)

// keyBlock (RFC 7468) is "…PRIVATE KEY-----" and a body; the keyword is
// "-----BEGIN ". Only the body is taken out, up to the END line.
func keyBlock(text []byte, end bool) match {
	title := run(text, &classTitle, maxKeyTitle)
	if title == len(text) && !end {
		return match{verdict: undecided}
	}
	if !isPrivate(text[:title]) {
		return match{}
	}
	const dashes = "-----"
	rest := text[title:]
	if len(rest) < len(dashes) && !end {
		return match{verdict: undecided}
	}
	if len(rest) < len(dashes) || string(rest[:len(dashes)]) != dashes {
		return match{}
	}
	m := keyBody(rest[len(dashes):], end)
	m.from += title + len(dashes)
	m.to += title + len(dashes)
	return m
}

var classTitle = classOf("AZ09", " ")

func isPrivate(title []byte) bool {
	t := string(title)
	for _, suffix := range []string{"PRIVATE KEY", "PRIVATE KEY BLOCK"} {
		if len(t) >= len(suffix) && t[len(t)-len(suffix):] == suffix {
			return true
		}
	}
	return false
}

// keyBody looks for minKeyBody bytes of base64 in a row, behind white space,
// escapes and header lines.
func keyBody(text []byte, end bool) match {
	inRow := 0
	for i, b := range text {
		if i > maxKeyHeaders {
			return match{}
		}
		if !classStd64[b] {
			inRow = 0
			if b == '-' && i > 0 && text[i-1] == '-' {
				return match{} // the END line: there was no body
			}
			continue
		}
		if inRow++; inRow == minKeyBody {
			return match{verdict: secret, to: i + 1, rest: &classPEM}
		}
	}
	if end {
		return match{}
	}
	return match{verdict: undecided}
}
