package fs_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/runtime/runtimetest"
	"github.com/sandboxd/sandboxd/tools/fs"
	"github.com/sandboxd/sandboxd/tools/fs/patch"
)

func TestAnEditReplacesTheOnlyPlace(t *testing.T) {
	b := bench(t)
	b.Write("f", "a\r\nb\r\nc\r\n")
	out := good[fs.EditOutput](t, b, "file.edit", args{"path": "f", "oldText": "a\nb", "newText": "A\nx\nb"})
	require.Equal(t, "A\r\nx\r\nb\r\nc\r\n", b.Read("f"))
	require.Equal(t, hashOf("A\r\nx\r\nb\r\nc\r\n"), out.Hash)
	require.Equal(t, []int{1}, out.Lines)
}

func TestAnEditThatDoesNotFitNamesLines(t *testing.T) {
	b := bench(t)
	b.Write("f", "x := 1\ny := 2\nx := 1\n")
	r := bad(t, b, runtime.CodePatchMismatch, "file.edit", args{"path": "f", "oldText": "x := 1", "newText": "z"})
	require.Equal(t, []int{1, 3}, runtimetest.Output[patch.MismatchError](t, r).Candidates)
	r = bad(t, b, runtime.CodePatchMismatch, "file.edit", args{"path": "f", "oldText": "x := 1\ny := 3", "newText": "z"})
	near := runtimetest.Output[patch.MismatchError](t, r).Nearest
	require.Equal(t, []any{2, "y := 3", "y := 2"}, []any{near.DiffersAt, near.Expected, near.Found})
	r = bad(t, b, runtime.CodePatchMismatch, "file.edit", args{"path": "f", "oldText": "  y := 2  ", "newText": "z"})
	require.Equal(t, 2, runtimetest.Output[patch.MismatchError](t, r).Nearest.DiffersAt)
	bad(t, b, runtime.CodeSchemaViolation, "file.edit", args{"path": "f", "oldText": "y", "newText": "y"})
	bad(t, b, runtime.CodeSchemaViolation, "file.edit", args{"path": "f", "oldText": "", "newText": "y"})
	bad(t, b, runtime.CodeBaseHashMismatch, "file.edit", args{"path": "f", "oldText": "y", "newText": "z", "baseHash": hashOf("")})
	bad(t, b, runtime.CodeFileNotFound, "file.edit", args{"path": "missing", "oldText": "y", "newText": "z"})

	all := good[fs.EditOutput](t, b, "file.edit", args{"path": "f", "oldText": "x := 1", "newText": "z", "replaceAll": true})
	require.Equal(t, 2, all.Replacements)
	require.Equal(t, "z\ny := 2\nz\n", b.Read("f"))
}

func TestAFileIsDeletedOnlyWithItsHash(t *testing.T) {
	b := bench(t)
	b.Write("d/f", "x")
	bad(t, b, runtime.CodeBaseHashRequired, "file.delete", args{"path": "d/f"})
	bad(t, b, runtime.CodeBaseHashMismatch, "file.delete", args{"path": "d/f", "baseHash": hashOf("y")})
	bad(t, b, runtime.CodeFileNotFound, "file.delete", args{"path": "missing"})
	bad(t, b, runtime.CodeFileNotFound, "file.delete", args{"path": "missing", "baseHash": hashOf("y")})
	bad(t, b, runtime.CodeIsDirectory, "file.delete", args{"path": "d"})
	bad(t, b, runtime.CodeIsDirectory, "file.delete", args{"path": "d", "baseHash": hashOf("y")})
	out := good[fs.DeleteOutput](t, b, "file.delete", args{"path": "d/f", "baseHash": hashOf("x")})
	require.Equal(t, hashOf("x"), out.OldHash)
	require.NoFileExists(t, filepath.Join(b.Dir, "d/f"))
}

func TestAFileIsMovedOnlyWithItsHashAndOverNothing(t *testing.T) {
	b := bench(t)
	b.Write("f", "x")
	b.Write("there", "y")
	bad(t, b, runtime.CodeBaseHashRequired, "file.move", args{"from": "f", "to": "g"})
	bad(t, b, runtime.CodeBaseHashMismatch, "file.move", args{"from": "f", "to": "g", "baseHash": hashOf("y")})
	bad(t, b, runtime.CodeFileExists, "file.move", args{"from": "f", "to": "there", "baseHash": hashOf("x")})
	bad(t, b, runtime.CodePathTraversal, "file.move", args{"from": "f", "to": "../g", "baseHash": hashOf("x")})
	bad(t, b, runtime.CodeSchemaViolation, "file.move", args{"from": "f", "to": "./f", "baseHash": hashOf("x")})
	bad(t, b, runtime.CodeSchemaViolation, "file.move", args{"from": "f"})
	out := good[fs.MoveOutput](t, b, "file.move", args{"from": "f", "to": "new/g", "baseHash": hashOf("x")})
	require.Equal(t, hashOf("x"), out.Hash)
	require.Equal(t, "f", out.MovedFrom)
	require.Equal(t, "x", b.Read("new/g"))
	require.NoFileExists(t, filepath.Join(b.Dir, "f"))
}
