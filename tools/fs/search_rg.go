package fs

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
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
	argv, nothing, err := q.rgArgs(ctx, g)
	if err != nil || nothing {
		return nothing, err
	}
	out := &rgOutput{collector: c}
	var stderr limited
	exit, err := sandbox.Run(ctx, g.Box(), sandbox.Command{
		Argv: argv, Stdout: out, Stderr: &stderr,
		// A program of that name in the workspace is not the one that is meant.
		Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"},
	}, 0)
	switch kind := sandbox.KindOf(err); {
	case kind == sandbox.KindUnavailable:
		return false, err
	case kind != "":
		return false, nil // not there, not allowed to start, no room for it
	case ctx.Err() != nil:
		return true, nil // the caller tells why
	case !out.complete || exit.Signal != "":
		return false, nil
	}
	for line := range strings.SplitSeq(stderr.String(), "\n") {
		c.complaint(line)
	}
	return true, nil
}

// rgArgs is the command. nothing is true where the globs name only directories
// that are not there.
func (q *query) rgArgs(ctx context.Context, g *runtime.Grant) (argv []string, nothing bool, err error) {
	argv = []string{
		"rg", "--no-config", "--json", "--crlf", "--text", "--no-mmap", "--no-require-git",
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

// complaint reads a line of rg's standard error: what it could not read.
func (c *collector) complaint(line string) {
	rest, ok := strings.CutPrefix(line, "rg: ")
	if !ok {
		return
	}
	at := strings.LastIndex(rest, ": ")
	if at < 0 || !strings.Contains(rest, "(os error ") {
		return
	}
	path := strings.TrimPrefix(rest[:at], "./")
	if !c.wanted(path) {
		return
	}
	reason := skipUnreadable
	if strings.Contains(rest, "(os error 13)") {
		reason = skipPermission
	}
	c.skip(path, reason)
}

// maxRgMessage bounds one message of rg: a line as JSON.
const maxRgMessage = 7 * maxSearchLine

// rgOutput reads rg's JSON lines as they come.
type rgOutput struct {
	*collector
	partial  []byte
	tooLong  bool // the current message is passed over
	complete bool // the last message has come
}

func (o *rgOutput) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		at := bytes.IndexByte(p, '\n')
		if at < 0 {
			o.append(p)
			break
		}
		if len(o.partial) == 0 && !o.tooLong {
			o.message(p[:at])
		} else {
			o.append(p[:at])
			o.flush()
		}
		p = p[at+1:]
	}
	return n, nil
}

func (o *rgOutput) append(p []byte) {
	if o.tooLong || len(o.partial)+len(p) > maxRgMessage {
		o.tooLong, o.partial = true, nil
		return
	}
	o.partial = append(o.partial, p...)
}

func (o *rgOutput) flush() {
	if o.tooLong {
		if o.take {
			o.skip(o.path, skipLongLine)
		}
	} else {
		o.message(o.partial)
	}
	o.partial, o.tooLong = o.partial[:0], false
}

// rgText is text in rg's JSON: as it is, or base64 where it is not UTF-8.
type rgText struct {
	Text  *string `json:"text"`
	Bytes string  `json:"bytes"`
}

func (t rgText) raw() []byte {
	if t.Text != nil {
		return []byte(*t.Text)
	}
	raw, err := base64.StdEncoding.DecodeString(t.Bytes)
	if err != nil {
		return nil
	}
	return raw
}

// rgMessage is a line of rg --json.
type rgMessage struct {
	Data struct {
		Path       rgText `json:"path"`
		Lines      rgText `json:"lines"`
		LineNumber int64  `json:"line_number"`
		Submatches []struct {
			Start int `json:"start"`
		} `json:"submatches"`
	} `json:"data"`
}

// message takes one message. Most matches of a search that finds too much are
// only counted, without being decoded.
func (o *rgOutput) message(m []byte) {
	kind, ok := bytes.CutPrefix(m, []byte(`{"type":"`))
	if !ok { // the summary has its keys in another order
		if bytes.HasSuffix(m, []byte(`"type":"summary"}`)) {
			o.complete = true
		}
		return
	}
	isMatch := bytes.HasPrefix(kind, []byte("match"))
	isContext := bytes.HasPrefix(kind, []byte("context"))
	switch {
	case (isMatch || isContext) && !o.take, isContext && !o.keeping():
		return
	case isMatch && !o.keeping() && len(m) < maxSearchLine && !bytes.Contains(m, []byte(`\u0000`)) && !bytes.Contains(m, []byte(`"bytes":`)):
		o.count()
		return
	}
	var msg rgMessage
	if err := json.Unmarshal(m, &msg); err != nil {
		return // the end then is not complete, or the count would show it
	}
	d := msg.Data
	switch {
	case isMatch && len(d.Submatches) > 0:
		o.match(d.LineNumber, trimEnding(d.Lines.raw()), d.Submatches[0].Start)
	case isContext:
		o.other(d.LineNumber, trimEnding(d.Lines.raw()))
	case bytes.HasPrefix(kind, []byte("begin")):
		o.begin(strings.TrimPrefix(string(d.Path.raw()), "./"))
	case bytes.HasPrefix(kind, []byte("end")):
		o.end()
	case bytes.HasPrefix(kind, []byte("summary")):
		o.complete = true
	}
}

func trimEnding(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
}
