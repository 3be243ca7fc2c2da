package workspace_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/sandbox"
)

// dirFiles is sandbox.Files over a directory of the host, as far as this
// package uses it.
type dirFiles struct {
	dir  string
	root *os.Root
	// full makes Fill fail after so many entries, like a disk that is full.
	full int
}

func newBox(t testing.TB) *dirFiles {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, root.Close()) })
	return &dirFiles{dir: dir, root: root, full: -1}
}

func (d *dirFiles) write(t testing.TB, path, content string) {
	t.Helper()
	full := filepath.Join(d.dir, path)
	require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
	require.NoError(t, os.WriteFile(full, []byte(content), 0o644))
}

func (d *dirFiles) list(t testing.TB) []string {
	t.Helper()
	out := []string{}
	require.NoError(t, d.Walk(t.Context(), sandbox.WalkRequest{}, func(e sandbox.Entry, _ io.Reader) error {
		out = append(out, e.Path)
		return nil
	}))
	return out
}

func (d *dirFiles) info(path string) (sandbox.FileInfo, error) {
	fi, err := os.Lstat(filepath.Join(d.dir, path))
	if err != nil {
		return sandbox.FileInfo{}, boxError(err, path)
	}
	info := sandbox.FileInfo{Type: sandbox.TypeFile, Bytes: fi.Size(), Mode: fi.Mode().Perm(), ModTime: fi.ModTime()}
	switch fi.Mode().Type() {
	case fs.ModeDir:
		info.Type, info.Bytes = sandbox.TypeDir, 0
	case fs.ModeSymlink:
		info.Type = sandbox.TypeSymlink
		info.Target, err = os.Readlink(filepath.Join(d.dir, path))
	case fs.ModeNamedPipe:
		info.Type = sandbox.TypeFIFO
	}
	return info, err
}

func boxError(err error, path string) error {
	kind := sandbox.KindInternal
	switch {
	case errors.Is(err, fs.ErrNotExist):
		kind = sandbox.KindNotFound
	case errors.Is(err, fs.ErrPermission):
		kind = sandbox.KindPermission
	case strings.Contains(err.Error(), "escapes"):
		kind = sandbox.KindPathEscapes
	}
	return &sandbox.Error{Kind: kind, Path: path, Cause: err}
}

func (d *dirFiles) Stat(_ context.Context, path string) (sandbox.FileInfo, error) {
	return d.info(path)
}

func (d *dirFiles) Read(_ context.Context, req sandbox.ReadRequest) (sandbox.ReadResult, error) {
	info, err := d.info(req.Path)
	if err != nil {
		return sandbox.ReadResult{}, err
	}
	data, err := d.root.ReadFile(req.Path)
	if err != nil {
		return sandbox.ReadResult{}, boxError(err, req.Path)
	}
	return sandbox.ReadResult{Info: info, Data: data[:min(int64(len(data)), req.Limit)]}, nil
}

func (d *dirFiles) Walk(_ context.Context, req sandbox.WalkRequest, visit func(sandbox.Entry, io.Reader) error) error {
	return d.walk("", req, visit)
}

func (d *dirFiles) walk(below string, req sandbox.WalkRequest, visit func(sandbox.Entry, io.Reader) error) error {
	list, err := os.ReadDir(filepath.Join(d.dir, below))
	if err != nil {
		return err
	}
	for _, x := range list {
		path := strings.TrimPrefix(below+"/"+x.Name(), "/")
		e := sandbox.Entry{Path: path}
		if e.Info, err = d.info(path); err != nil {
			return err
		}
		content, err := d.content(&e, req)
		if err != nil {
			return err
		}
		if err := visit(e, content); err != nil {
			return err
		}
		if e.Info.Type != sandbox.TypeDir || contains(req.Prune, x.Name()) {
			continue
		}
		if err := d.walk(path, req, visit); err != nil {
			return err
		}
	}
	return nil
}

func (d *dirFiles) content(e *sandbox.Entry, req sandbox.WalkRequest) (io.Reader, error) {
	if e.Info.Type != sandbox.TypeFile {
		return nil, nil
	}
	data, err := os.ReadFile(filepath.Join(d.dir, e.Path))
	if err != nil {
		return nil, err
	}
	if req.Hash {
		sum := sha256.Sum256(data)
		e.Hash = "sha256:" + hex.EncodeToString(sum[:])
	}
	if req.ContentMax < 0 || (req.ContentMax > 0 && int64(len(data)) <= req.ContentMax) {
		return bytes.NewReader(data), nil
	}
	return nil, nil
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

func (d *dirFiles) Apply(context.Context, []sandbox.Change) ([]sandbox.Applied, error) {
	return nil, errors.New("not used here")
}

func (d *dirFiles) Fill(_ context.Context, next func() (sandbox.Entry, io.Reader, error)) (int, error) {
	for n := 0; ; n++ {
		e, content, err := next()
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err == nil && n == d.full {
			err = &sandbox.Error{Kind: sandbox.KindDiskFull, Path: e.Path}
		}
		if err == nil {
			err = d.make(e, content)
		}
		if err != nil {
			return n, err
		}
	}
}

func (d *dirFiles) make(e sandbox.Entry, content io.Reader) error {
	if err := d.root.MkdirAll(filepath.Dir(e.Path), 0o755); err != nil {
		return boxError(err, e.Path)
	}
	switch e.Info.Type {
	case sandbox.TypeDir:
		if err := d.root.MkdirAll(e.Path, 0o755); err != nil {
			return boxError(err, e.Path)
		}
		return d.root.Chmod(e.Path, e.Info.Mode)
	case sandbox.TypeSymlink:
		return d.root.Symlink(e.Info.Target, e.Path)
	}
	_ = d.root.Remove(e.Path)
	f, err := d.root.OpenFile(e.Path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return boxError(err, e.Path)
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Chmod(e.Info.Mode), f.Close())
}
