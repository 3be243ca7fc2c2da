package spawn_test

import (
	"errors"
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/sandboxd/sandboxd/sandbox/agent/spawn"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// run starts argv with its output in a pipe and returns that and the status.
func run(t *testing.T, change func(*spawn.Spec)) (string, unix.WaitStatus, error) {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	require.NoError(t, err)
	defer null.Close()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	dir, err := os.Open(t.TempDir())
	require.NoError(t, err)
	defer dir.Close()
	spec := &spawn.Spec{
		Paths: []string{"/bin/sh"}, Argv: []string{"sh", "-c", "echo out; exit 3"}, Env: []string{"PATH=/usr/bin:/bin"},
		Files: [3]int{int(null.Fd()), int(w.Fd()), int(w.Fd())}, Dir: int(dir.Fd()), Cgroup: -1, Umask: 0o022,
	}
	change(spec)
	pid, err := spawn.Start(spec)
	w.Close()
	if err != nil {
		return "", 0, err
	}
	out, err := io.ReadAll(r)
	require.NoError(t, err)
	var status unix.WaitStatus
	_, err = unix.Wait4(pid, &status, 0, nil)
	require.NoError(t, err)
	return string(out), status, nil
}

func TestAProgramRunsWithItsOutputAndStatus(t *testing.T) {
	out, status, err := run(t, func(*spawn.Spec) {})
	require.NoError(t, err)
	require.Equal(t, "out\n", out)
	require.Equal(t, 3, status.ExitStatus())
}

func TestThePathIsSearchedAndARefusalRemembered(t *testing.T) {
	dir := t.TempDir()
	plain := dir + "/plain"
	require.NoError(t, os.WriteFile(plain, []byte("x"), 0o644))
	cases := map[string]struct {
		paths []string
		want  syscall.Errno
	}{
		"second place":     {[]string{"/nowhere/sh", "/bin/sh"}, 0},
		"nowhere":          {[]string{"/nowhere/sh", dir + "/none"}, syscall.ENOENT},
		"not executable":   {[]string{plain, "/nowhere/sh"}, syscall.EACCES},
		"not a program":    {[]string{mustExec(t, dir)}, syscall.ENOEXEC},
		"refused, then ok": {[]string{plain, "/bin/sh"}, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, _, err := run(t, func(s *spawn.Spec) { s.Paths = c.paths })
			if c.want == 0 {
				require.NoError(t, err)
				return
			}
			var failed *spawn.Error
			require.True(t, errors.As(err, &failed), "%v", err)
			require.Equal(t, spawn.StepExec, failed.Step)
			require.Equal(t, c.want, failed.Errno)
		})
	}
}

func mustExec(t *testing.T, dir string) string {
	t.Helper()
	path := dir + "/empty"
	require.NoError(t, os.WriteFile(path, []byte("no magic"), 0o755))
	return path
}

func TestTheChildHasARaisedScoreAndTheParentKeepsItsOwn(t *testing.T) {
	before, err := os.ReadFile("/proc/self/oom_score_adj")
	require.NoError(t, err)
	out, _, err := run(t, func(s *spawn.Spec) {
		s.OOMScore = "500"
		s.Argv = []string{"sh", "-c", "cat /proc/self/oom_score_adj"}
	})
	require.NoError(t, err)
	require.Equal(t, "500\n", out)
	after, err := os.ReadFile("/proc/self/oom_score_adj")
	require.NoError(t, err)
	require.Equal(t, before, after)
}

func TestNoPrivilegeAndNoDescriptorIsInherited(t *testing.T) {
	leak, err := os.Open("/")
	require.NoError(t, err)
	defer leak.Close()
	fd, err := unix.Dup(int(leak.Fd())) // without close-on-exec
	require.NoError(t, err)
	defer unix.Close(fd)
	out, _, err := run(t, func(s *spawn.Spec) {
		if os.Geteuid() == 0 {
			s.Credential = &spawn.Credential{UID: 12345, GID: 12345}
			s.Paths, s.Argv = []string{"/bin/sh"}, []string{"sh", "-c", "cd /; grep -E '^(NoNewPrivs|CapEff|CapPrm|Uid|Groups):' /proc/self/status; ls /proc/self/fd"}
			root, err := os.Open("/")
			require.NoError(t, err)
			t.Cleanup(func() { root.Close() })
			s.Dir = int(root.Fd())
			return
		}
		s.Argv = []string{"sh", "-c", "grep -E '^(NoNewPrivs|CapEff):' /proc/self/status; ls /proc/self/fd"}
	})
	require.NoError(t, err)
	require.Contains(t, out, "NoNewPrivs:\t1")
	require.Contains(t, out, "0\n1\n2\n3\n", "0, 1, 2 and ls's own")
	require.NotContains(t, out, "\n4\n")
	if os.Geteuid() == 0 {
		require.Contains(t, out, "CapEff:\t0000000000000000")
		require.Contains(t, out, "CapPrm:\t0000000000000000")
		require.Contains(t, out, "Uid:\t12345\t12345\t12345\t12345")
		require.Contains(t, out, "Groups:\t \n")
	}
}
