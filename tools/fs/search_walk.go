package fs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tools/fs/text"
)

func itoa(n int) string { return strconv.Itoa(n) }

// walkSearch searches where the box has no rg: the agent hands out the content
// of the files in one walk, and the lines are matched here. The answer is the
// same, slower.
func walkSearch(ctx context.Context, g *runtime.Grant, q *query, c *collector) (done bool, err error) {
	names, entered := map[string]bool{}, map[string]bool{}
	for _, h := range q.heads() {
		entered[h] = true
	}
	t, err := loadTree(ctx, g, entered)
	if err != nil {
		return false, err
	}
	for i, e := range t.entries {
		head, _, _ := strings.Cut(e.Path, "/")
		switch {
		case t.ignored[i] && !q.ignored, len(entered) > 0 && !entered[head]:
		case e.Err != nil:
			if q.wants(e.Path) {
				c.skip(e.Path, reasonOf(e.Err))
			}
		case e.Info.Type == sandbox.TypeFile && q.wants(e.Path):
			names[e.Path] = true
		}
	}
	if len(names) == 0 {
		return true, nil
	}
	req := sandbox.WalkRequest{Prune: []string{gitDir}, ContentMax: -1, Names: names}
	return true, g.Box().Files().Walk(ctx, req, func(e sandbox.Entry, content io.Reader) error {
		switch {
		case !names[e.Path]:
			return nil
		case e.Err != nil:
			c.skip(e.Path, reasonOf(e.Err))
			return nil //nolint:nilerr // one bad entry loses nothing else
		case content == nil:
			return nil
		}
		return q.scan(ctx, e.Path, content, c)
	})
}

func reasonOf(e *sandbox.Error) string {
	if e.Kind == sandbox.KindPermission {
		return skipPermission
	}
	return skipUnreadable
}

// scan searches one file.
func (q *query) scan(ctx context.Context, path string, content io.Reader, c *collector) error {
	r := bufio.NewReaderSize(content, 64<<10)
	head, err := r.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch mark := text.ByMark(head); {
	case mark.IsUTF16():
		if r, err = decoded(r, mark); err != nil || r == nil {
			return err
		}
	case mark == text.UTF8BOM:
		if _, err := r.Discard(len(text.BOM)); err != nil {
			return err
		}
	}
	c.begin(path)
	defer c.end()
	return q.lines(ctx, r, c)
}

// decoded returns a UTF-16 file as UTF-8, as far as that can be held.
func decoded(r *bufio.Reader, mark text.Encoding) (*bufio.Reader, error) {
	all, err := io.ReadAll(io.LimitReader(r, maxUTF16Bytes))
	if err != nil {
		return nil, err
	}
	plain, ok := text.DecodeUTF16(all, mark)
	if !ok {
		return nil, nil
	}
	return bufio.NewReader(bytes.NewReader(plain)), nil
}

// lines goes over the lines of a file. Only as many lines before a match are
// held as are shown.
func (q *query) lines(ctx context.Context, r *bufio.Reader, c *collector) error {
	type held struct {
		line int64
		raw  []byte
	}
	var before []held
	after := 0
	var long []byte
	for line := int64(1); ; line++ {
		raw, more, err := nextLine(r, &long)
		if err != nil {
			return err
		}
		if raw == nil {
			return nil
		}
		if line%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		at := q.pattern.find(raw)
		switch {
		case at >= 0:
			for _, h := range before {
				c.other(h.line, h.raw)
			}
			before = before[:0]
			c.match(line, raw, at)
			after = q.context
		case after > 0:
			c.other(line, raw)
			after--
		case q.context > 0:
			if len(before) == q.context {
				before = append(before[:0], before[1:]...)
			}
			before = append(before, held{line, bytes.Clone(raw[:min(len(raw), 4*previewBytes)])})
		}
		if !more {
			return nil
		}
	}
}

// nextLine returns a line without its ending; nil at the end of the file. A
// line that is too long to be looked into is returned cut, one byte too long,
// so that it is known as such. more is false where the file ends.
func nextLine(r *bufio.Reader, long *[]byte) (raw []byte, more bool, err error) {
	raw, err = r.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return ended(raw, err)
	}
	*long = append((*long)[:0], raw...)
	for errors.Is(err, bufio.ErrBufferFull) {
		raw, err = r.ReadSlice('\n')
		if room := maxSearchLine + 1 - len(*long); room > 0 {
			*long = append(*long, raw[:min(room, len(raw))]...)
		}
	}
	return ended(*long, err)
}

func ended(raw []byte, err error) ([]byte, bool, error) {
	switch {
	case err == nil:
		return trimEnding(raw), true, nil
	case !errors.Is(err, io.EOF):
		return nil, false, err
	case len(raw) == 0:
		return nil, false, nil
	}
	return trimEnding(raw), false, nil
}
