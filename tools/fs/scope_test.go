package fs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/runtime/runtimetest"
	"github.com/sandboxd/sandboxd/tools/fs"
)

func link(t testing.TB, b *runtimetest.Bench, target, name string) {
	t.Helper()
	require.NoError(t, os.Symlink(target, filepath.Join(b.Dir, name)))
}

func newFile(path string) string {
	return "--- /dev/null\n+++ b/" + path + "\n@@ -0,0 +1 @@\n+x\n"
}

// A symlink is another name of what is denied, and is judged as that.
func TestNoSymlinkLeadsAroundTheScopeOfARun(t *testing.T) {
	b := runtimetest.NewRun(t, runtime.RunSpec{Permissions: runtime.Permissions{
		Paths: runtime.AllowDeny{Deny: []string{"secret/**"}},
	}}, fs.Tools()...)
	b.Write("secret/f", "s\n")
	b.Write("open/f", "s\n")
	for name, target := range map[string]string{
		"dir": "secret", "file": "secret/f", "open/up": "../secret", "self": ".", "twice": "open/up",
		"long": "./open/../open/up/../secret", "good": "open", "ring": "ring",
	} {
		link(t, b, target, name)
	}
	for _, path := range []string{"dir/f", "file", "open/up/f", "self/secret/f", "twice/f", "long/f", "self/self/dir/f"} {
		bad(t, b, runtime.CodeReadScopeDenied, "file.read", args{"path": path})
		bad(t, b, runtime.CodeWriteScopeDenied, "file.delete", args{"path": path, "baseHash": hashOf("s\n")})
		bad(t, b, runtime.CodeWriteScopeDenied, "file.move", args{"from": path, "to": "open/g", "baseHash": hashOf("s\n")})
		bad(t, b, runtime.CodeReadScopeDenied, "file.patch", args{
			"patch": "diff --git a/" + path + " b/open/c\nsimilarity index 100%\ncopy from " + path + "\ncopy to open/c\n",
		})
	}
	for _, dir := range []string{"dir", "open/up", "twice"} {
		bad(t, b, runtime.CodeReadScopeDenied, "file.list", args{"path": dir})
		bad(t, b, runtime.CodeWriteScopeDenied, "file.write", args{"path": dir + "/new", "content": "x"})
		bad(t, b, runtime.CodeWriteScopeDenied, "file.write", args{"path": dir + "/deep/new", "content": "x"})
		bad(t, b, runtime.CodeWriteScopeDenied, "file.patch", args{"patch": newFile("open/ok") + newFile(dir+"/new")})
		bad(t, b, runtime.CodeWriteScopeDenied, "file.move", args{"from": "open/f", "to": dir + "/new", "baseHash": hashOf("s\n")})
	}
	for _, e := range good[fs.ListOutput](t, b, "file.list", args{"path": "self", "depth": 5}).Entries {
		require.NotContains(t, e.Path, "self/secret")
	}
	require.Equal(t, runtime.CodeNotRegularFile, b.Call("file.read", args{"path": "ring"}).ErrorCode)

	require.Equal(t, "s\n", good[fs.ReadOutput](t, b, "file.read", args{"path": "good/f"}).Content, "the control: links inside the scope are followed")
	good[fs.WriteOutput](t, b, "file.write", args{"path": "good/new", "content": "x"})
	require.Equal(t, "x", b.Read("open/new"))
}

// Nor does one lead into a repository's internals, and a refusal says so in the
// ledger.
func TestNoSymlinkLeadsIntoGit(t *testing.T) {
	b := bench(t)
	b.Write(".git/config", "[core]\n")
	b.Write("a", "a\n")
	link(t, b, ".git", "g")
	link(t, b, ".git/hooks", "hooks")
	link(t, b, "g", "gg")
	base := args{"a": hashOf("a\n"), "g/config": hashOf("[core]\n")}
	for _, path := range []string{"g/hooks/pre-commit", "gg/config.worktree", "hooks/pre-commit"} {
		bad(t, b, runtime.CodeProtectedPath, "file.write", args{"path": path, "content": "x"})
		bad(t, b, runtime.CodeProtectedPath, "file.patch", args{"patch": newFile(path)})
		bad(t, b, runtime.CodeProtectedPath, "file.move", args{"from": "a", "to": path, "baseHash": base["a"]})
	}
	bad(t, b, runtime.CodeProtectedPath, "file.edit", args{"path": "g/config", "oldText": "[core]", "newText": "[x]"})
	bad(t, b, runtime.CodeProtectedPath, "file.move", args{"from": "g/config", "to": "b", "baseHash": base["g/config"]})
	r := bad(t, b, runtime.CodeProtectedPath, "file.delete", args{"path": "g/config", "baseHash": base["g/config"]})
	require.Equal(t, runtime.Denied, r.Status)
	require.Nil(t, r.StartedAt)
	require.Contains(t, b.Kinds(r.ToolCallID), runtime.CallDenied)
	require.NotContains(t, b.Kinds(r.ToolCallID), runtime.CallStarted)
	good[fs.WriteOutput](t, b, "file.write", args{"path": "b", "content": "x"})
}
