package fs

import (
	"bytes"
	"context"
	"strings"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tools/fs/ignore"
)

// ripgrep searches with the box's own rg. done is false where the box has
// none, or it failed in a way that says nothing of the files; the other engine
// then looks.
//
// rg is a reader here, no authority: what it reports is held against globs,
// hidden names and the run's scope again.
func ripgrep(ctx context.Context, g *runtime.Grant, q *query, c *collector) (done bool, err error) {
	if q.pattern.rust == "" {
		return false, nil
	}
	argv, nothing, err := q.rgArgs(ctx, g)
	if err != nil || nothing {
		return nothing, err
	}
	out := &rgOutput{collector: c, find: q.pattern.find, inPath: true}
	var stderr limited
	exit, err := sandbox.Run(ctx, g.Box(), sandbox.Command{
		Argv: argv, Stdout: out, Stderr: &stderr,
		// A program of that name in the workspace is not the one that is meant.
		Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"},
	}, sandbox.After(0))
	switch kind := sandbox.KindOf(err); {
	case kind == sandbox.KindUnavailable:
		return false, err
	case kind != "":
		return false, nil // not there, not allowed to start, no room for it
	case ctx.Err() != nil:
		return true, nil //nolint:nilerr // the caller tells why
	}
	complained := false
	for line := range strings.SplitSeq(stderr.String(), "\n") {
		complained = c.complaint(line) || complained
	}
	// 0 is a match, 1 is none, and 2 an error: of single files, which it names,
	// or of the search as such.
	return exit.Code == 0 || exit.Code == 1 || exit.Code == 2 && complained, nil
}

// rgArgs is the command. nothing is true where the globs name only directories
// that are not there.
func (q *query) rgArgs(ctx context.Context, g *runtime.Grant) (argv []string, nothing bool, err error) {
	argv = []string{
		"rg", "--no-config", "--heading", "--null", "--line-number", "--color=never", "--crlf", "--text", "--no-mmap", "--no-require-git",
		"--no-ignore-global", "--no-ignore-exclude", "--no-ignore-dot", "--no-ignore-parent", "--no-follow",
		"--glob=!" + gitDir, "--regexp=" + q.pattern.rust,
	}
	if q.context > 0 {
		argv = append(argv, "--context="+itoa(q.context))
	}
	if q.hidden || q.globs.namesHidden() {
		argv = append(argv, "--hidden")
	}
	if q.ignored {
		argv = append(argv, "--no-ignore")
	}
	argv = append(argv, q.narrow()...)
	heads := q.heads()
	if heads == nil {
		return append(argv, "--", "./"), false, nil
	}
	dirs, err := existingDirs(ctx, g, heads)
	if err != nil || len(dirs) == 0 {
		return nil, err == nil, err
	}
	if !q.ignored {
		info, err := g.Box().Files().Stat(ctx, ignore.FileName)
		if err == nil && info.Type == sandbox.TypeFile {
			argv = append(argv, "--ignore-file="+ignore.FileName)
		}
	}
	argv = append(argv, "--")
	for _, d := range dirs {
		argv = append(argv, "./"+d)
	}
	return argv, false, nil
}

// narrow tells rg what it need not look into. It may leave in too much, never
// out: what is reported is chosen by the globs themselves.
func (q *query) narrow() []string {
	var argv []string
	for _, g := range q.globs.out {
		if plainGlob(g.pattern) {
			argv = append(argv, "--glob=!/"+g.pattern)
		}
	}
	var names []string
	for _, g := range q.globs.in {
		if !plainGlob(g.pattern) || !g.files {
			return argv
		}
		names = append(names, "--type-add=chosen:"+g.pattern[strings.LastIndexByte(g.pattern, '/')+1:])
	}
	if len(names) > 0 {
		argv = append(append(argv, names...), "--type=chosen")
	}
	return argv
}

// plainGlob is true for a pattern that means the same in every dialect.
func plainGlob(pattern string) bool {
	for part := range strings.SplitSeq(pattern, "/") {
		if part == "" || part != "**" && strings.Contains(part, "**") {
			return false
		}
		for _, r := range part {
			if r >= 0x80 || !isWord(r) && !strings.ContainsRune("-.*", r) {
				return false
			}
		}
	}
	return true
}

// limited keeps the first bytes of a stream.
type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	const most = 64 << 10
	if room := most - l.Len(); room > 0 {
		l.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// complaint reads a line of rg's standard error: what it could not read. It
// tells whether the line is such a one.
func (c *collector) complaint(line string) bool {
	rest := strings.TrimPrefix(line, "rg: ") // from version 14 on
	at := strings.LastIndex(rest, ": ")
	if at < 0 || !strings.Contains(rest[at:], "(os error ") {
		return false
	}
	path, _, _ := strings.Cut(rest[:at], ": IO error for operation on ")
	path = strings.TrimPrefix(path, "./")
	if !c.wanted(path) {
		return true
	}
	reason := skipUnreadable
	if strings.Contains(rest[at:], "(os error 13)") {
		reason = skipPermission
	}
	c.skip(path, reason)
	return true
}

// maxRgLine bounds a line of rg's output: numbers, and a line of a file.
const maxRgLine = maxSearchLine + 64

// rgOutput reads rg's output as it comes. A file is its path and a NUL, then
// its lines, and an empty line before the next path. A line is LINE:text where
// it matches and LINE-text around that, so neither a path with line
// breaks in it nor a line of a file can pass for another part.
type rgOutput struct {
	*collector
	find    func(line []byte) int
	inPath  bool
	partial []byte
	tooLong bool // the current line is passed over
}

func (o *rgOutput) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		end := byte('\n')
		if o.inPath {
			end = 0
		}
		at := bytes.IndexByte(p, end)
		if at < 0 {
			o.append(p)
			break
		}
		part := p[:at]
		if len(o.partial) > 0 || o.tooLong {
			o.append(part)
			part = o.partial
		}
		o.part(part)
		o.partial, o.tooLong = o.partial[:0], false
		p = p[at+1:]
	}
	return n, nil
}

func (o *rgOutput) append(p []byte) {
	if room := maxRgLine - len(o.partial); len(p) > room {
		p, o.tooLong = p[:max(room, 0)], true
	}
	o.partial = append(o.partial, p...)
}

// part takes a path or a line.
func (o *rgOutput) part(part []byte) {
	switch {
	case o.inPath:
		o.begin(strings.TrimPrefix(string(part), "./"))
		o.inPath = false
	case len(part) == 0 || len(part) == 1 && part[0] == '\r':
		o.end()
		o.inPath = true
	case !o.take:
	default:
		o.line(part)
	}
}

// line takes a line of a file. Most matches of a search that finds too much
// are only counted.
func (o *rgOutput) line(part []byte) {
	line, rest := number(part)
	if len(rest) == 0 || line == 0 {
		return // the separator between groups
	}
	isMatch := rest[0] == ':'
	raw := rest[1:]
	switch {
	case isMatch && o.tooLong:
		o.skip(o.path, skipLongLine)
	case isMatch && o.keeping():
		raw = trimEnding(raw)
		if at := o.find(raw); at >= 0 { // where empty matches begin is each engine's own idea
			o.match(line, raw, at)
		} else {
			o.other(line, raw)
		}
	case isMatch && !o.unfit(raw):
		o.count()
	case !isMatch && o.keeping():
		o.other(line, trimEnding(raw))
	}
}

// number reads the decimal number that b begins with; 0 is none.
func number(b []byte) (n int64, rest []byte) {
	for len(b) > 0 && b[0] >= '0' && b[0] <= '9' && n < 1<<50 {
		n, b = n*10+int64(b[0]-'0'), b[1:]
	}
	return n, b
}

func trimEnding(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
}
