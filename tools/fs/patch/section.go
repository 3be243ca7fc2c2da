package patch

import (
	"strings"
)

// head collects what the header lines of a section say.
type head struct {
	line               int
	git                bool
	gitNames           string // what follows "diff --git "
	minus, plus        string // names of --- and +++, "" where absent
	minusNull          bool
	plusNull           bool
	from, to           string // rename or copy
	op                 Op
	oldMode, newMode   string
	createMode, delete string
}

// maxNames bounds the line of two names; telling them apart tries every space.
const maxNames = 4 * 4096

// section reads one file: its headers, then its hunks.
func (p *parser) section() (File, error) {
	h, err := p.head()
	if err != nil {
		return File{}, err
	}
	f, err := h.file(p.opts.Path)
	if err != nil {
		return File{}, err
	}
	if f.Hunks, err = p.readHunks(); err != nil {
		return File{}, err
	}
	return f, h.checkBody(f)
}

// head reads the header lines up to the first hunk.
func (p *parser) head() (*head, error) {
	h := &head{line: p.number()}
	if rest, ok := strings.CutPrefix(p.header(p.at), "diff --git "); ok {
		if len(rest) > maxNames {
			return nil, syntaxf(p.number(), "the names of the diff --git line are too long")
		}
		h.git, h.gitNames = true, rest
		p.at++
	}
	for !p.done() {
		line := p.header(p.at)
		if p.atNames(p.at) {
			if h.complete() && !p.namesBelong(h) {
				return h, nil // they begin a plain section
			}
			return h, p.names(h)
		}
		if !h.git {
			return h, nil
		}
		known, err := p.extended(h, line)
		if err != nil {
			return nil, err
		}
		if !known {
			return h, nil
		}
		p.at++
	}
	return h, nil
}

// complete is true where the extended headers alone say what happens.
func (h *head) complete() bool { return h.git && (h.op != "" || h.newMode != "") }

// namesBelong tells whether the --- and +++ lines here name the section's file.
func (p *parser) namesBelong(h *head) bool {
	ahead := parser{reader: &reader{lines: p.lines, at: p.at}, opts: p.opts}
	next := &head{line: h.line}
	if ahead.names(next) != nil {
		return true // to be refused with the section
	}
	m, plus := next.stripped(p.opts.Path)
	return h.namesAgree(m, plus)
}

// extended reads one of git's extended header lines.
func (p *parser) extended(h *head, line string) (known bool, err error) {
	for _, field := range []struct {
		prefix string
		to     *string
		op     Op
	}{
		{"old mode ", &h.oldMode, ""},
		{"new mode ", &h.newMode, ""},
		{"new file mode ", &h.createMode, OpCreate},
		{"deleted file mode ", &h.delete, OpDelete},
		{"rename from ", &h.from, OpRename},
		{"rename to ", &h.to, OpRename},
		{"copy from ", &h.from, OpCopy},
		{"copy to ", &h.to, OpCopy},
	} {
		rest, ok := strings.CutPrefix(line, field.prefix)
		if !ok {
			continue
		}
		if h.op != "" && field.op != "" && h.op != field.op {
			return false, syntaxf(p.number(), "the section is both a %s and a %s", h.op, field.op)
		}
		if field.op != "" {
			h.op = field.op
		}
		if *field.to, ok = unquoteName(rest); !ok {
			return false, syntaxf(p.number(), "the quoted name %s cannot be read", quoted(rest))
		}
		return true, nil
	}
	if line == "GIT binary patch" || strings.HasPrefix(line, "Binary files ") {
		return false, syntaxf(p.number(), "binary patches are not applied; write the file with file.write and encoding base64")
	}
	for _, prefix := range []string{"index ", "similarity index ", "dissimilarity index "} {
		if strings.HasPrefix(line, prefix) {
			return true, nil
		}
	}
	return false, nil
}

// names reads the --- and +++ lines.
func (p *parser) names(h *head) error {
	for _, n := range []struct {
		prefix string
		name   *string
		null   *bool
	}{{"--- ", &h.minus, &h.minusNull}, {"+++ ", &h.plus, &h.plusNull}} {
		rest := strings.TrimPrefix(p.header(p.at), n.prefix)
		name, stamp := cutStamp(rest)
		name, ok := unquoteName(name)
		if !ok || name == "" {
			return syntaxf(p.number(), "the name %s cannot be read", quoted(rest))
		}
		*n.name = name
		*n.null = name == "/dev/null" || epoch(stamp)
		p.at++
	}
	if h.minusNull && h.plusNull {
		return syntaxf(h.line, "both sides are /dev/null; name the file")
	}
	return nil
}

// epoch is true for the time stamp by which diff -N marks a missing file.
func epoch(stamp string) bool {
	return strings.HasPrefix(stamp, "1970-01-01 00:00:00") || strings.HasPrefix(stamp, "1969-12-31 ")
}

// cutStamp splits a name from the time that diff writes after a tab.
func cutStamp(s string) (name, stamp string) {
	if strings.HasPrefix(s, `"`) {
		if end := closingQuote(s); end > 0 && strings.TrimLeft(s[end+1:], "\t ") != s[end+1:] || end == len(s)-1 {
			return s[:end+1], strings.TrimSpace(s[end+1:])
		}
	}
	name, stamp, _ = strings.Cut(s, "\t")
	return name, strings.TrimSpace(stamp)
}

// checkBody refuses hunks where none belong, and their absence where they do.
func (h *head) checkBody(f File) error {
	switch {
	case f.Op == OpModify && len(f.Hunks) == 0 && f.Mode == 0:
		return syntaxf(h.line, "the section for %q has no hunk (@@ -1,3 +1,3 @@) and no other change", f.Path())
	case f.Op == OpCreate:
		for _, hunk := range f.Hunks {
			if len(hunk.old()) > 0 {
				return syntaxf(hunk.Line, "the section creates %q, but its hunk holds context or removed lines", f.Path())
			}
		}
	case f.Op == OpDelete:
		for _, hunk := range f.Hunks {
			for _, l := range hunk.Lines {
				if l.Kind != Remove {
					return syntaxf(l.Line, "the section deletes %q, but its hunk keeps or adds lines", f.Path())
				}
			}
		}
	}
	return nil
}
