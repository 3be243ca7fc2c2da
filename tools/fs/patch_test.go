package fs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/runtime/runtimetest"
	"github.com/sandboxd/sandboxd/tools/fs"
	"github.com/sandboxd/sandboxd/tools/fs/patch"
)

const abc = "a\nb\nc\n"

func onB(path string) string {
	return "--- a/" + path + "\n+++ b/" + path + "\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
}

func TestAPatchIsAppliedWithItsHash(t *testing.T) {
	b := bench(t)
	b.Write("dir/f", abc)
	out := good[fs.PatchOutput](t, b, "file.patch", args{"patch": onB("dir/f"), "baseHash": hashOf(abc)})
	require.Equal(t, "a\nB\nc\n", b.Read("dir/f"))
	require.Equal(t, 2, out.ChangedLines)
	f := out.Files[0]
	require.Equal(t, "dir/f", f.Path)
	require.Equal(t, hashOf("a\nB\nc\n"), f.Hash)
	require.Equal(t, hashOf(abc), f.OldHash)
	require.Equal(t, []patch.Placed{{Line: 1}}, f.Hunks)
	require.Equal(t, patch.OpModify, f.Op)
}

func TestStalePatchIsRefusedAndFileUntouched(t *testing.T) {
	b := bench(t)
	b.Write("f", abc)
	r := bad(t, b, runtime.CodeBaseHashMismatch, "file.patch", args{"patch": onB("f"), "baseHash": hashOf("older")})
	require.Equal(t, map[string]any{"path": "f", "currentHash": hashOf(abc), "patchFits": true}, runtimetest.Output[map[string]any](t, r))
	require.Equal(t, runtime.ClassInvalidArgs, r.ErrorClass)
	require.Contains(t, r.SafeMessage, "would fit")
	bad(t, b, runtime.CodeBaseHashRequired, "file.patch", args{"patch": onB("f")})
	good[fs.PatchOutput](t, b, "file.patch", args{"patch": onB("f"), "baseHash": hashOf(abc)})
}

func TestAPatchThatDoesNotFitNamesTheNearestLines(t *testing.T) {
	b := bench(t)
	b.Write("f", "a\nchanged\nc\n")
	r := bad(t, b, runtime.CodePatchMismatch, "file.patch", args{"patch": onB("f"), "baseHash": hashOf("a\nchanged\nc\n")})
	m := runtimetest.Output[patch.MismatchError](t, r)
	require.Equal(t, 2, m.Nearest.DiffersAt)
	require.Equal(t, "b", m.Nearest.Expected)
	require.Equal(t, "changed", m.Nearest.Found)
	require.Contains(t, r.SafeMessage, "no file was changed")
}

func TestAllFilesArePatchedOrNone(t *testing.T) {
	b := bench(t)
	b.Write("f", abc)
	b.Write("g", abc)
	b.Write("run.sh", abc)
	hashes := args{"f": hashOf(abc), "./g": hashOf(abc), "run.sh": hashOf(abc)}
	all := onB("f") + "diff --git a/g b/moved/g\nrename from g\nrename to moved/g\n--- a/g\n+++ b/moved/g\n@@ -3 +3 @@\n-c\n+C\n" +
		"diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n" +
		"--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+x\n"
	bad(t, b, runtime.CodePatchMismatch, "file.patch", args{"patch": strings.Replace(all, "-c\n", "-d\n", 1), "baseHashes": hashes})
	bad(t, b, runtime.CodeBaseHashRequired, "file.patch", args{"patch": all, "baseHashes": args{"f": hashOf(abc)}})
	bad(t, b, runtime.CodePatchInvalid, "file.patch", args{"patch": all, "baseHash": hashOf(abc)})

	b.Write("moved/g", "in the way")
	bad(t, b, runtime.CodeFileExists, "file.patch", args{"patch": all, "baseHashes": hashes})
	require.NoError(t, os.RemoveAll(filepath.Join(b.Dir, "moved")))

	out := good[fs.PatchOutput](t, b, "file.patch", args{"patch": all, "baseHashes": hashes})
	require.Equal(t, "a\nB\nc\n", b.Read("f"))
	require.Equal(t, "a\nb\nC\n", b.Read("moved/g"))
	require.Equal(t, "x\n", b.Read("new"))
	require.NoFileExists(t, filepath.Join(b.Dir, "g"))
	info, err := os.Stat(filepath.Join(b.Dir, "run.sh"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), info.Mode().Perm())
	require.Equal(t, "g", out.Files[1].MovedFrom)
	require.Equal(t, hashOf("a\nb\nC\n"), out.Files[1].Hash)
	require.True(t, out.Files[3].Created)
}

func TestFilesAreDeletedRenamedAndEmptied(t *testing.T) {
	b := bench(t)
	b.Write("gone", "x\n")
	b.Write("old", "\x00binary")
	b.Write("emptied", "x\n")
	out := good[fs.PatchOutput](t, b, "file.patch", args{
		"patch": "diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n" +
			"diff --git a/old b/new\nsimilarity index 100%\nrename from old\nrename to new\n" +
			"--- a/emptied\n+++ b/emptied\n@@ -1 +0,0 @@\n-x\n",
		"baseHashes": args{"gone": hashOf("x\n"), "old": hashOf("\x00binary"), "emptied": hashOf("x\n")},
	})
	require.NoFileExists(t, filepath.Join(b.Dir, "gone"))
	require.NoFileExists(t, filepath.Join(b.Dir, "old"))
	require.Equal(t, "\x00binary", b.Read("new"))
	require.Empty(t, b.Read("emptied"))
	require.Equal(t, []string{"", hashOf("\x00binary"), hashOf("")}, []string{out.Files[0].Hash, out.Files[1].Hash, out.Files[2].Hash})
	require.Equal(t, []string{hashOf("x\n"), hashOf("\x00binary"), hashOf("x\n")}, []string{out.Files[0].OldHash, out.Files[1].OldHash, out.Files[2].OldHash})
}

func TestANewFileIsMadeByAPatchAndNotOverAnother(t *testing.T) {
	b := bench(t)
	const create = "diff --git a/exists b/exists\nnew file mode 100755\n--- /dev/null\n+++ b/exists\n@@ -0,0 +1 @@\n+x\n"
	good[fs.PatchOutput](t, b, "file.patch", args{"patch": create})
	info, err := os.Stat(filepath.Join(b.Dir, "exists"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), info.Mode().Perm())
	good[fs.PatchOutput](t, b, "file.patch", args{"patch": "diff --git a/empty b/empty\nnew file mode 100644\nindex 0000000..e69de29\n"})
	require.Empty(t, b.Read("empty"))
	bad(t, b, runtime.CodeFileExists, "file.patch", args{"patch": create})
	bad(t, b, runtime.CodePatchInvalid, "file.patch", args{"patch": create, "baseHash": hashOf("x\n")})
}

// Every name in every header goes the same way, whatever stands in path.
func TestNoHeaderLeadsOutOfTheWorkspace(t *testing.T) {
	b := bench(t)
	b.Write("a.txt", abc)
	require.NoError(t, os.Symlink("/tmp", filepath.Join(b.Dir, "outdir")))
	require.NoError(t, os.Symlink("a.txt", filepath.Join(b.Dir, "link")))
	hashes := args{"a.txt": hashOf(abc), "link": hashOf(abc)}
	for name, c := range map[string]struct {
		patch string
		code  runtime.Code
	}{
		"rename":          {"diff --git a/a.txt b/../../etc/x\nrename from a.txt\nrename to ../../etc/x\n", runtime.CodePathTraversal},
		"absolute":        {"--- /dev/null\n+++ b//etc/passwd\n@@ -0,0 +1 @@\n+x\n", runtime.CodePathTraversal},
		"copy":            {"diff --git a/../x b/y\ncopy from ../x\ncopy to y\n", runtime.CodePathTraversal},
		"disagreement":    {"diff --git a/x b/x\n--- a/a.txt\n+++ b/a.txt\n@@ -1,1 +1,1 @@\n-a\n+A\n", runtime.CodePatchInvalid},
		"through a link":  {"--- /dev/null\n+++ b/outdir/x\n@@ -0,0 +1 @@\n+x\n", runtime.CodePathTraversal},
		"a link itself":   {onB("link"), runtime.CodeNotRegularFile},
		"git's own files": {"--- /dev/null\n+++ b/.git/hooks/x\n@@ -0,0 +1 @@\n+x\n", runtime.CodeProtectedPath},
		"symlink":         {"diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc/passwd\n\\ No newline at end of file\n", runtime.CodePatchInvalid},
		"workspace":       {"--- a/.\n+++ b/.\n@@ -1 +1 @@\n-a\n+b\n", runtime.CodePatchInvalid},
		"twice":           {onB("a.txt") + onB("./a.txt"), runtime.CodePatchInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			bad(t, b, c.code, "file.patch", args{"patch": c.patch, "baseHashes": hashes})
		})
	}
	bad(t, b, runtime.CodePatchInvalid, "file.patch", args{"patch": onB("a.txt"), "path": "b.txt", "baseHash": hashOf(abc)})
	good[fs.PatchOutput](t, b, "file.patch", args{"patch": onB("a.txt"), "path": "./a.txt", "baseHash": hashOf(abc)})
}

func TestBinaryAndHugeFilesAreNotPatchedAsText(t *testing.T) {
	b := bench(t)
	b.Write("f", "a\x00\nb\n")
	bad(t, b, runtime.CodeBinaryFile, "file.patch", args{"patch": onB("f"), "baseHash": hashOf("a\x00\nb\n")})
	huge := strings.Repeat("a\n", 6<<20)
	b.Write("huge", huge)
	bad(t, b, runtime.CodeFileTooLarge, "file.patch", args{"patch": onB("huge"), "baseHash": hashOf(huge)})
	bad(t, b, runtime.CodeFileNotFound, "file.patch", args{"patch": onB("missing"), "baseHash": hashOf(abc)})
}

// Two writers with one base: one wins, the other is told, and no edit is lost.
func TestOfTwoConcurrentPatchesOneIsStale(t *testing.T) {
	b := bench(t)
	var lines strings.Builder
	for i := range 100 {
		fmt.Fprintf(&lines, "%d\n", i+1)
	}
	for round := range 20 {
		name := fmt.Sprintf("f%d", round)
		b.Write(name, lines.String())
		diffs := []string{"@@ -50 +50 @@\n-50\n+FIFTY\n", "@@ -75 +75 @@\n-75\n+SEVENTY\n"}
		results := make([]runtime.Result, 2)
		var wg sync.WaitGroup
		for i, d := range diffs {
			path := []string{name, "./" + name}[i]
			wg.Go(func() {
				results[i] = b.Call("file.patch", args{"patch": d, "path": path, "baseHash": hashOf(lines.String())})
			})
		}
		wg.Wait()
		won, lost := results[0], results[1]
		if won.Status != runtime.Succeeded {
			won, lost = lost, won
		}
		require.Equal(t, runtime.Succeeded, won.Status)
		require.Equal(t, runtime.CodeBaseHashMismatch, lost.ErrorCode)
		got := b.Read(name)
		require.Equal(t, 100, strings.Count(got, "\n"))
		require.NotEqual(t, strings.Contains(got, "FIFTY"), strings.Contains(got, "SEVENTY"))
	}
}

func TestACopyKeepsItsSourceAndMode(t *testing.T) {
	b := bench(t)
	b.Write("f", abc)
	require.NoError(t, os.Chmod(filepath.Join(b.Dir, "f"), 0o755))
	good[fs.PatchOutput](t, b, "file.patch", args{"patch": "diff --git a/f b/g\ncopy from f\ncopy to g\n--- a/f\n+++ b/g\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n"})
	require.Equal(t, abc, b.Read("f"))
	require.Equal(t, "a\nB\nc\n", b.Read("g"))
	info, err := os.Stat(filepath.Join(b.Dir, "g"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), info.Mode().Perm())
}

func TestAHardLinkIsParted(t *testing.T) {
	b := bench(t)
	b.Write("f", abc)
	require.NoError(t, os.Link(filepath.Join(b.Dir, "f"), filepath.Join(b.Dir, "other")))
	good[fs.PatchOutput](t, b, "file.patch", args{"patch": onB("f"), "baseHash": hashOf(abc)})
	require.Equal(t, abc, b.Read("other"), "a replaced file is a new one; file.stat tells of its links before")
}

func TestTheOtherPatchFormatIsAppliedToo(t *testing.T) {
	b := bench(t)
	b.Write("f", abc)
	b.Write("gone", "x\n")
	const envelope = "*** Begin Patch\n*** Update File: f\n*** Move to: g\n@@\n a\n-b\n+B\n*** Add File: new\n+n\n*** Delete File: gone\n*** End Patch\n"
	bad(t, b, runtime.CodeBaseHashRequired, "file.patch", args{"patch": envelope, "baseHashes": args{"f": hashOf(abc)}})
	out := good[fs.PatchOutput](t, b, "file.patch", args{"patch": envelope, "baseHashes": args{"f": hashOf(abc), "gone": hashOf("x\n")}})
	require.Equal(t, "a\nB\nc\n", b.Read("g"))
	require.Equal(t, "n\n", b.Read("new"))
	require.NoFileExists(t, filepath.Join(b.Dir, "gone"))
	require.Equal(t, 1, out.Files[2].RemovedLines)
	bad(t, b, runtime.CodePathTraversal, "file.patch", args{"patch": "*** Begin Patch\n*** Add File: ../x\n+n\n*** End Patch\n"})
}
