package patch

import "strings"

// The lines of the apply_patch format, which some models write.
const (
	beginPatch = "*** Begin Patch"
	endPatch   = "*** End Patch"
	addFile    = "*** Add File: "
	deleteFile = "*** Delete File: "
	updateFile = "*** Update File: "
	moveTo     = "*** Move to: "
	endOfFile  = "*** End of File"
)

// isEnvelope is true for the apply_patch format, be its first line lost.
func (p *parser) isEnvelope() bool {
	for at := range p.lines {
		line := p.header(at)
		switch {
		case strings.TrimSpace(line) == "":
			continue
		case line == beginPatch, isFileLine(line):
			p.inEnvelope = true
		}
		return p.inEnvelope
	}
	return false
}

func isFileLine(line string) bool {
	return strings.HasPrefix(line, addFile) || strings.HasPrefix(line, deleteFile) || strings.HasPrefix(line, updateFile)
}

// envelope reads the sections between the begin and end lines.
func (p *parser) envelope() ([]File, error) {
	var files []File
	for !p.done() {
		line := p.header(p.at)
		switch {
		case line == endPatch:
			return files, p.nothingAfter()
		case line == beginPatch || strings.TrimSpace(line) == "":
			p.at++
			continue
		case !isFileLine(line):
			return nil, syntaxf(p.number(), "%s is neither a file line (*** Update File: path) nor part of a change: a line of a change begins with a space, + or -", quoted(line))
		}
		f, err := p.envelopeFile(line)
		if err != nil {
			return nil, err
		}
		if files = append(files, f); len(files) > MaxFiles {
			return nil, syntaxf(p.number(), "the patch has more than %d files; send it in parts", MaxFiles)
		}
	}
	p.note("the patch had no " + endPatch + " line")
	return files, nil
}

func (p *parser) nothingAfter() error {
	for p.at++; !p.done(); p.at++ {
		if strings.TrimSpace(p.header(p.at)) != "" {
			return syntaxf(p.number(), "there is text after %s", endPatch)
		}
	}
	return nil
}

func (p *parser) envelopeFile(line string) (File, error) {
	f := File{Line: p.number()}
	p.at++
	switch {
	case strings.HasPrefix(line, addFile):
		f.Op, f.New = OpCreate, strings.TrimSpace(line[len(addFile):])
		return f, p.added(&f)
	case strings.HasPrefix(line, deleteFile):
		f.Op, f.Old = OpDelete, strings.TrimSpace(line[len(deleteFile):])
		f.Whole = true
		return f, f.named()
	}
	f.Op, f.Old = OpModify, strings.TrimSpace(line[len(updateFile):])
	f.New = f.Old
	if to, ok := strings.CutPrefix(p.header(p.at), moveTo); ok {
		f.Op, f.New = OpRename, strings.TrimSpace(to)
		p.at++
	}
	if err := f.named(); err != nil {
		return f, err
	}
	var err error
	if f.Hunks, err = p.envelopeHunks(); err != nil {
		return f, err
	}
	if f.Op == OpModify && len(f.Hunks) == 0 {
		return f, syntaxf(f.Line, "the section for %q has no change", f.Old)
	}
	return f, nil
}

func (f File) named() error {
	if f.Path() == "" || f.Op == OpRename && f.Old == "" {
		return syntaxf(f.Line, "the section names no file")
	}
	return nil
}

// envelopeHunks reads the changes of a section; the first may lack its @@.
func (p *parser) envelopeHunks() ([]Hunk, error) {
	if _, kind := p.bodyLine(p.at); kind == isOther || p.header(p.at) == "" {
		return p.readHunks()
	}
	first := Hunk{OldStart: -1, Line: p.number()}
	lines, end, err := p.counting()
	if err != nil {
		return nil, err
	}
	first.Lines, p.at = lines, end
	if p.header(p.at) == endOfFile {
		first.AtEnd = true
		p.at++
	}
	rest, err := p.readHunks()
	return append([]Hunk{first}, rest...), err
}

// added reads the lines of a new file.
func (p *parser) added(f *File) error {
	if err := f.named(); err != nil {
		return err
	}
	h := Hunk{OldStart: 1, Line: f.Line}
	for ; !p.done() && !strings.HasPrefix(p.header(p.at), "*** "); p.at++ {
		l, kind := p.bodyLine(p.at)
		switch {
		case kind == isBody && l.Kind == Add:
			h.Lines = append(h.Lines, l)
		case strings.TrimSpace(p.header(p.at)) != "":
			return syntaxf(p.number(), "%s: every line of a new file begins with +", quoted(p.header(p.at)))
		}
	}
	if len(h.Lines) > 0 {
		f.Hunks = []Hunk{h}
	}
	return nil
}
