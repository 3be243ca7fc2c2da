package workspace

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/sandbox"
)

// Summary counts what a diff told.
type Summary struct {
	Added, Deleted, Modified int
	// Binary counts files that were only named: binary, too large, not kept,
	// not readable, or beyond the diff's own bound.
	Binary                int
	Insertions, Deletions int
}

// change is one path that differs; old or now is nil where it was not there.
type change struct {
	path     string
	old, now *state
}

// compare finds what differs between base and workspace, in byte order.
func compare(ctx context.Context, files sandbox.Files, b *base, limits Limits) ([]change, error) {
	var changes []change
	seen := make(map[string]bool, len(b.states))
	err := walkStates(ctx, files, 0, limits, func(now state, _ io.Reader) error {
		path := string(now.Path)
		seen[path] = true
		old, ok := b.states[path]
		switch {
		case !ok:
			changes = append(changes, change{path: path, now: &now})
		case !same(old, now):
			changes = append(changes, change{path: path, old: &old, now: &now})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for path, old := range b.states {
		if !seen[path] {
			changes = append(changes, change{path: path, old: &old})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return strings.Compare(a.path, b.path) })
	return changes, nil
}

// same tells whether nothing that git would see differs. Two files that could
// not be read are the same if their size is.
func same(a, b state) bool {
	return a.Type == b.Type && a.Exec == b.Exec && a.Hash == b.Hash && bytes.Equal(a.Target, b.Target) &&
		(a.Hash != "" || a.Bytes == b.Bytes)
}

// diff writes a unified diff in the form of git, so that git apply takes it.
// A file that cannot be shown is named with git's line for binary files; git
// apply refuses such a patch as a whole, as it does with git's own.
func diff(ctx context.Context, files sandbox.Files, b *base, w io.Writer, limits Limits) (Summary, error) {
	changes, err := compare(ctx, files, b, limits)
	if err != nil {
		return Summary{}, err
	}
	d := &differ{ctx: ctx, files: files, base: b, limits: limits, out: bufio.NewWriter(w)}
	for _, c := range changes {
		if err := d.change(c); err != nil {
			return d.sum, err
		}
	}
	return d.sum, d.out.Flush()
}

type differ struct {
	ctx    context.Context
	files  sandbox.Files
	base   *base
	limits Limits
	out    *bufio.Writer
	shown  int64 // bytes of hunks so far
	sum    Summary
}

func (d *differ) change(c change) error {
	old, hasOld, err := d.oldText(c.old)
	if err != nil {
		return err
	}
	now, hasNow, err := d.nowText(c.now)
	if err != nil {
		return err
	}
	switch {
	case c.old == nil:
		d.sum.Added++
	case c.now == nil:
		d.sum.Deleted++
	default:
		d.sum.Modified++
		if c.old.Type != c.now.Type { // git has no other form for it
			if err := d.file(change{path: c.path, old: c.old}, old, nil, hasOld); err != nil {
				return err
			}
			return d.file(change{path: c.path, now: c.now}, nil, now, hasNow)
		}
	}
	return d.file(c, old, now, hasOld && hasNow)
}

// oldText is what the base kept of a path. Without a path there is none, and
// that can be shown.
func (d *differ) oldText(s *state) (text []byte, ok bool, err error) {
	switch {
	case s == nil:
		return nil, true, nil
	case s.Type == sandbox.TypeSymlink:
		return s.Target, true, nil
	case !s.Kept:
		return nil, false, nil
	}
	text, err = d.base.content(*s)
	return text, err == nil, err
}

// nowText reads a file of the workspace. One that went away since the walk, or
// that cannot be read, is not shown.
func (d *differ) nowText(s *state) (text []byte, ok bool, err error) {
	switch {
	case s == nil:
		return nil, true, nil
	case s.Type == sandbox.TypeSymlink:
		return s.Target, true, nil
	case s.Bytes > d.limits.BaseFileBytes:
		return nil, false, nil
	}
	got, err := d.files.Read(d.ctx, sandbox.ReadRequest{
		Path: string(s.Path), Limit: d.limits.BaseFileBytes + 1, NoHash: true,
	})
	if boxErr, isBox := errors.AsType[*sandbox.Error](err); isBox {
		switch boxErr.Kind {
		case sandbox.KindNotFound, sandbox.KindNotRegular, sandbox.KindIsDirectory,
			sandbox.KindNotDirectory, sandbox.KindPermission, sandbox.KindPathEscapes:
			return nil, false, nil
		}
	}
	if err != nil {
		return nil, false, err
	}
	fits := int64(len(got.Data)) <= d.limits.BaseFileBytes && !isBinary(got.Data)
	return got.Data, fits, nil
}

// file writes one file's part. shown is false where it is only to be named.
func (d *differ) file(c change, old, now []byte, shown bool) error {
	a, b := gitName("a/", c.path), gitName("b/", c.path)
	d.line("diff --git %s %s\n", a, b)
	switch {
	case c.old == nil:
		d.line("new file mode %s\n", c.now.mode())
		a = "/dev/null"
	case c.now == nil:
		d.line("deleted file mode %s\n", c.old.mode())
		b = "/dev/null"
	case c.old.mode() != c.now.mode():
		d.line("old mode %s\nnew mode %s\n", c.old.mode(), c.now.mode())
		if c.old.Hash == c.now.Hash {
			return d.flushed()
		}
	}
	if !shown || d.shown > d.limits.DiffBytes {
		d.sum.Binary++
		d.line("Binary files %s and %s differ\n", a, b)
		return d.flushed()
	}
	hunks := hunksOf(old, now)
	if len(hunks) == 0 {
		return d.flushed() // an empty file came or went
	}
	d.line("--- %s\n+++ %s\n", fieldEnd(a), fieldEnd(b))
	for _, h := range hunks {
		n, err := h.write(d.out)
		if err != nil {
			return err
		}
		d.shown += n
		d.sum.Insertions += h.insertions
		d.sum.Deletions += h.deletions
	}
	return nil
}

// line writes without looking: the bufio.Writer keeps its first failure, and
// flushed tells of it.
func (d *differ) line(format string, args ...any) { _, _ = fmt.Fprintf(d.out, format, args...) }

func (d *differ) flushed() error {
	_, err := d.out.Write(nil)
	return err
}

// gitName writes a name as git does: with a prefix, and in quotes with C's
// escapes where it holds a control character, a quote, a backslash or a byte
// above ASCII.
func gitName(prefix, path string) string {
	plain := true
	for i := range len(path) {
		if c := path[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			plain = false
			break
		}
	}
	if plain {
		return prefix + path
	}
	var s strings.Builder
	s.WriteString(`"` + prefix)
	for i := range len(path) {
		c := path[i]
		switch {
		case c == '"' || c == '\\':
			s.WriteByte('\\')
			s.WriteByte(c)
		case c >= 0x07 && c <= 0x0d:
			s.WriteByte('\\')
			s.WriteByte("abtnvfr"[c-0x07])
		case c < 0x20 || c >= 0x7f:
			fmt.Fprintf(&s, `\%03o`, c)
		default:
			s.WriteByte(c)
		}
	}
	return s.String() + `"`
}

// fieldEnd ends a name with a TAB where it holds a space, as git does, so that
// what follows cannot be taken for a part of it.
func fieldEnd(name string) string {
	if strings.Contains(name, " ") && !strings.HasPrefix(name, `"`) {
		return name + "\t"
	}
	return name
}
