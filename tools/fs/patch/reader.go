package patch

import "strings"

// reader walks over the lines of a patch.
type reader struct {
	lines []string // without LF
	at    int
	// stripCR is set where the patch as a whole came with CRLF, headers too:
	// its CRs then say nothing of the file.
	stripCR bool
	notes   []string
}

func newReader(text string) *reader {
	r := &reader{}
	text = r.unfence(text)
	r.lines = strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	r.stripCR = r.headersHaveCR()
	return r
}

func (r *reader) note(n string) {
	for _, have := range r.notes {
		if have == n {
			return
		}
	}
	r.notes = append(r.notes, n)
}

// unfence takes off a Markdown fence that encloses the whole patch.
func (r *reader) unfence(text string) string {
	body := strings.TrimLeft(text, " \t\r\n")
	if !strings.HasPrefix(body, "```") {
		return text
	}
	first, rest, ok := strings.Cut(body, "\n")
	if !ok || strings.Contains(strings.TrimPrefix(first, "```"), "`") {
		return text
	}
	end := strings.TrimRight(rest, " \t\r\n")
	if !strings.HasSuffix(end, "\n```") {
		return text
	}
	r.note("a Markdown fence around the patch was taken off")
	return strings.TrimSuffix(end, "```")
}

// headersHaveCR is true where every header line ends with a CR.
func (r *reader) headersHaveCR() bool {
	with, without := 0, 0
	for _, l := range r.lines {
		if !strings.HasPrefix(l, "@@") && !strings.HasPrefix(l, "diff --git ") && !strings.HasPrefix(l, "*** ") {
			continue
		}
		if strings.HasSuffix(l, "\r") {
			with++
		} else {
			without++
		}
	}
	return with > 0 && without == 0
}

func (r *reader) done() bool { return r.at >= len(r.lines) }

// number is the 1-based number of the current line.
func (r *reader) number() int { return r.at + 1 }

// raw is a body line, its CR kept unless the patch came with CRLF as a whole.
func (r *reader) raw(at int) string {
	if at >= len(r.lines) {
		return ""
	}
	if r.stripCR {
		return strings.TrimSuffix(r.lines[at], "\r")
	}
	return r.lines[at]
}

// header is a line as a header: without a CR at its end.
func (r *reader) header(at int) string {
	if at >= len(r.lines) {
		return ""
	}
	return strings.TrimSuffix(r.lines[at], "\r")
}
