package fs_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/runtime/runtimetest"
	"github.com/sandboxd/sandboxd/tools/fs"
)

func TestANewFileIsWrittenWithItsParents(t *testing.T) {
	b := bench(t)
	out := good[fs.WriteOutput](t, b, "file.write", args{"path": "a/b/c.txt", "content": "x\n"})
	require.Equal(t, hashOf("x\n"), out.Hash)
	require.True(t, out.Created)
	require.Equal(t, int64(2), out.Bytes)
	require.Equal(t, "x\n", b.Read("a/b/c.txt"))
	info, err := os.Stat(filepath.Join(b.Dir, "a/b/c.txt"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o644), info.Mode().Perm())
}

func TestAnExistingFileIsReplacedOnlyWithItsHash(t *testing.T) {
	b := bench(t)
	b.Write("f", "old")
	bad(t, b, runtime.CodeBaseHashRequired, "file.write", args{"path": "f", "content": "new"})
	bad(t, b, runtime.CodeFileExists, "file.write", args{"path": "f", "content": "new", "mustNotExist": true})
	r := bad(t, b, runtime.CodeBaseHashMismatch, "file.write", args{"path": "f", "content": "new", "baseHash": hashOf("older")})
	require.Equal(t, hashOf("old"), runtimetest.Output[map[string]any](t, r)["currentHash"])
	bad(t, b, runtime.CodeBaseHashMismatch, "file.write", args{"path": "gone", "content": "new", "baseHash": hashOf("older")})

	out := good[fs.WriteOutput](t, b, "file.write", args{"path": "f", "content": "new", "baseHash": hashOf("old")})
	require.Equal(t, fs.WriteOutput{Hash: hashOf("new"), OldHash: hashOf("old"), Bytes: 3}, withoutName(out))
	require.Equal(t, "new", b.Read("f"))
}

func withoutName(o fs.WriteOutput) fs.WriteOutput {
	return fs.WriteOutput{Hash: o.Hash, OldHash: o.OldHash, Bytes: o.Bytes, Created: o.Created}
}

func TestModeIsKeptOrSet(t *testing.T) {
	b := bench(t)
	b.Write("run.sh", "old")
	require.NoError(t, os.Chmod(filepath.Join(b.Dir, "run.sh"), 0o755))
	good[fs.WriteOutput](t, b, "file.write", args{"path": "run.sh", "content": "new", "baseHash": hashOf("old")})
	good[fs.WriteOutput](t, b, "file.write", args{"path": "new.sh", "content": "x", "mode": "0750"})
	for name, want := range map[string]os.FileMode{"run.sh": 0o755, "new.sh": 0o750} {
		info, err := os.Stat(filepath.Join(b.Dir, name))
		require.NoError(t, err)
		require.Equal(t, want, info.Mode().Perm(), name)
	}
	bad(t, b, runtime.CodeSchemaViolation, "file.write", args{"path": "x", "content": "", "mode": "9999"})
}

func TestBytesAndOddNamesGoThroughBase64(t *testing.T) {
	b := bench(t)
	name := base64.StdEncoding.EncodeToString([]byte("n\xff"))
	good[fs.WriteOutput](t, b, "file.write", args{"pathBase64": name, "content": "AAH/", "encoding": "base64"})
	require.Equal(t, "\x00\x01\xff", b.Read("n\xff"))
	list := good[fs.ListOutput](t, b, "file.list", args{})
	require.Equal(t, name, list.Entries[0].PathBase64)
	read := good[fs.ReadOutput](t, b, "file.read", args{"pathBase64": name})
	require.True(t, read.Binary)
	require.Equal(t, hashOf("\x00\x01\xff"), read.Hash)
	bad(t, b, runtime.CodeSchemaViolation, "file.write", args{"path": "x", "content": "!", "encoding": "base64"})
	bad(t, b, runtime.CodeSchemaViolation, "file.write", args{"path": "x", "pathBase64": name, "content": ""})
	bad(t, b, runtime.CodeSchemaViolation, "file.write", args{"content": ""})
}

func TestPathsThatAreNoFilesOfTheWorkspaceAreRefused(t *testing.T) {
	b := bench(t)
	b.Write("dir/f", "x")
	require.NoError(t, os.Symlink("/etc", filepath.Join(b.Dir, "out")))
	require.NoError(t, os.Symlink("dir/f", filepath.Join(b.Dir, "link")))
	for path, code := range map[string]runtime.Code{
		"../x":          runtime.CodePathTraversal,
		"/etc/x":        runtime.CodePathTraversal,
		"a/../../x":     runtime.CodePathTraversal,
		"a\x00b":        runtime.CodePathInvalid,
		"out/x":         runtime.CodePathTraversal,
		"link":          runtime.CodeNotRegularFile,
		"dir":           runtime.CodeIsDirectory,
		"dir/":          runtime.CodeIsDirectory,
		".":             runtime.CodeIsDirectory,
		"dir/f/x":       runtime.CodeNotDirectory,
		".git/hooks/x":  runtime.CodeProtectedPath,
		"sub/.GIT/conf": runtime.CodeProtectedPath,
	} {
		bad(t, b, code, "file.write", args{"path": path, "content": "x"})
	}
}
