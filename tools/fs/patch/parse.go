package patch

import "strings"

// MaxFiles, MaxHunks and MaxLines bound a patch.
const (
	MaxFiles = 1000
	MaxHunks = 20_000
	MaxLines = 500_000
)

// Options help Parse where a patch leaves something open.
type Options struct {
	// Path names the one file that the patch is about: hunks need no file
	// header then, and a header that names another file is refused.
	Path string
}

// Parse reads a patch: a unified diff or an apply_patch envelope. The error is
// a *SyntaxError. What it returns is unchecked input still: paths in
// particular.
func Parse(text string, opts Options) (*Patch, error) {
	if strings.Count(text, "\n") > MaxLines {
		return nil, syntaxf(0, "the patch has more than %d lines; send it in parts", MaxLines)
	}
	r := newReader(text)
	p := &parser{reader: r, opts: opts}
	var files []File
	var err error
	if p.isEnvelope() {
		files, err = p.envelope()
	} else {
		files, err = p.unified()
	}
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, syntaxf(0, "no file header (--- a/path, +++ b/path) and no hunk (@@ -1,3 +1,3 @@) was found; a unified diff is required")
	}
	if err := p.checkWhole(files); err != nil {
		return nil, err
	}
	return &Patch{Files: files, Notes: r.notes}, nil
}

type parser struct {
	*reader
	opts       Options
	hunks      int
	inEnvelope bool
}

// checkWhole holds the sections against each other and the stated path.
func (p *parser) checkWhole(files []File) error {
	seen := map[string]bool{}
	for _, f := range files {
		paths := []string{f.Old, f.New}
		if f.Op == OpModify || f.Op == OpCopy {
			paths = []string{f.New}
		}
		for _, path := range paths {
			if path == "" {
				continue
			}
			if seen[path] {
				return syntaxf(f.Line, "%q is touched by two sections; put all of its hunks into one", path)
			}
			seen[path] = true
		}
		if p.opts.Path != "" && f.Old != p.opts.Path && f.New != p.opts.Path {
			return syntaxf(f.Line, "the header names %q, the path argument %q; leave the argument out or make them agree", f.Path(), p.opts.Path)
		}
	}
	if p.opts.Path != "" && len(files) > 1 {
		return syntaxf(files[1].Line, "the patch has %d files, but the path argument names one; leave the argument out", len(files))
	}
	return nil
}

// unified reads the sections of a unified diff. What stands before the first
// header (a mail, a commit message) is passed over.
func (p *parser) unified() ([]File, error) {
	var files []File
	prose := true // between sections, where free text may stand
	for !p.done() {
		line := p.header(p.at)
		switch {
		case strings.HasPrefix(line, "diff --git "), p.atNames(p.at):
			f, err := p.section()
			if err != nil {
				return nil, err
			}
			files, prose = append(files, f), false
		case strings.HasPrefix(line, "@@"):
			f, err := p.bareHunks(len(files) == 0)
			if err != nil {
				return nil, err
			}
			files, prose = append(files, f), false
		case strings.HasPrefix(line, "diff --cc "), strings.HasPrefix(line, "diff --combined "):
			return nil, syntaxf(p.number(), "this is a combined diff of a merge; a diff against one parent is required")
		case line == "-- ":
			prose = true
			p.at++
		case prose || line == "" || between(line):
			p.at++
		default:
			return nil, syntaxf(p.number(), "%s is neither a header nor part of a hunk: a line of a hunk begins with a space, + or -", quoted(line))
		}
		if len(files) > MaxFiles {
			return nil, syntaxf(p.number(), "the patch has more than %d files; send it in parts", MaxFiles)
		}
	}
	return files, nil
}

// between names lines that tools write between the sections.
func between(line string) bool {
	for _, prefix := range []string{"diff ", "Index: ", "Only in ", "====", "index "} {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}
	return false
}

// atNames is true where a pair of --- and +++ lines begins.
func (p *parser) atNames(at int) bool {
	return strings.HasPrefix(p.header(at), "--- ") && strings.HasPrefix(p.header(at+1), "+++ ")
}

// bareHunks reads hunks without a file header, which only the path argument
// makes clear.
func (p *parser) bareHunks(first bool) (File, error) {
	if p.opts.Path == "" || !first {
		return File{}, syntaxf(p.number(), "this hunk has no file header (--- a/path, +++ b/path) before it")
	}
	f := File{Op: OpModify, Old: p.opts.Path, New: p.opts.Path, Line: p.number()}
	var err error
	f.Hunks, err = p.readHunks()
	return f, err
}
