package fs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/runtime/runtimetest"
	"github.com/sandboxd/sandboxd/tools/fs"
)

// One directory that cannot be read is named, and hides nothing else. root can
// read all, so the test runs itself again as nobody.
func TestAnUnreadableDirectoryHidesNothingElse(t *testing.T) {
	if os.Geteuid() == 0 {
		asNobody(t, "^TestAnUnreadableDirectoryHidesNothingElse$")
		return
	}
	engines(t, func(t *testing.T, b *runtimetest.Bench) {
		b.Write("ok/n", "answer\n")
		b.Write("ok/secret", "answer\n")
		b.Write("locked/n", "answer\n")
		require.NoError(t, os.Chmod(filepath.Join(b.Dir, "ok/secret"), 0))
		require.NoError(t, os.Chmod(filepath.Join(b.Dir, "locked"), 0))
		t.Cleanup(func() { _ = os.Chmod(filepath.Join(b.Dir, "locked"), 0o755) }) // so that it can be removed
		out := good[fs.SearchOutput](t, b, "repo.search", args{"query": "answer"})
		require.Equal(t, []string{"ok/n:1:1:answer"}, lines(out))
		skipped := map[string]string{}
		for _, s := range out.Skipped {
			skipped[s.Path] = s.Reason
		}
		require.Equal(t, map[string]string{"locked": "permission", "ok/secret": "permission"}, skipped)
	})
	b := bench(t)
	b.Write("secret", "x")
	require.NoError(t, os.Chmod(filepath.Join(b.Dir, "secret"), 0))
	require.Equal(t, runtime.CodePermissionDenied, b.Call("file.read", args{"path": "secret"}).ErrorCode)
	require.Empty(t, good[fs.StatOutput](t, b, "file.stat", args{"path": "secret"}).Hash)
	require.Len(t, good[fs.ListOutput](t, b, "file.list", args{}).Entries, 1)
}

// asNobody runs one test of this binary with an unprivileged user.
func asNobody(t *testing.T, name string) {
	t.Helper()
	//nolint:usetesting // t.TempDir lies below a directory that nobody may not enter
	dir, err := os.MkdirTemp("", "nobody")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o777))
	self, err := os.ReadFile(os.Args[0])
	require.NoError(t, err)
	binary := filepath.Join(dir, "test")
	require.NoError(t, os.WriteFile(binary, self, 0o755))
	cmd := exec.CommandContext(t.Context(), binary, "-test.run="+name, "-test.v")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "TMPDIR="+dir, "HOME="+dir)
	const nobody = 65534
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+name[1:len(name)-1])
}
