package oci_test

import (
	"context"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/oci"
	"github.com/sandboxd/sandboxd/sandbox/sandboxtest"
)

// required tells whether a missing need fails a test instead of skipping it.
func required() bool {
	return os.Getenv("CI") == "true" || os.Getenv("SANDBOXD_TEST_REQUIRE") == "1"
}

// need returns the agent's binary; a machine that cannot make boxes ends the
// test.
func need(t testing.TB, runtime string) string {
	t.Helper()
	missing := ""
	if _, err := exec.LookPath(runtime); err != nil {
		missing = runtime + " is not installed: scripts/provision.sh"
	}
	if os.Geteuid() != 0 {
		missing = "only root can make boxes with an OCI runtime"
	}
	switch {
	case missing != "" && required():
		t.Fatal(missing)
	case missing != "":
		t.Skip("SKIPPED: " + missing)
	}
	return agent(t)
}

// agent builds the agent, or takes the one in SANDBOXD_TEST_AGENT.
func agent(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("SANDBOXD_TEST_AGENT"); path != "" {
		return path
	}
	path := filepath.Join(t.TempDir(), "sandboxd-agent")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, "github.com/sandboxd/sandboxd/cmd/sandboxd-agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

// newConfig is a service of its own in a new data directory.
func newConfig(t testing.TB, runtime string) oci.Config {
	t.Helper()
	agent := need(t, runtime)
	return oci.Config{DataDir: ownFileSystem(t), AgentPath: agent, Runtime: runtime, OwnerID: "test-" + randomID()}
}

// ownFileSystem returns a directory with a file system of its own, so that a
// command in a box can tell its root from what is bound into it (find -xdev).
func ownFileSystem(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, unix.Mount("sandboxd-test", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=256m"))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0), "something of a box is still there") })
	return dir
}

func randomID() string { return strings.ToLower(rand.Text()[:12]) }

// remains lists what the machine holds of a run.
func remains(cfg oci.Config) func(t *testing.T, run string) []string {
	return func(t *testing.T, run string) []string {
		t.Helper()
		var found []string
		for _, pattern := range []string{
			filepath.Join(cfg.DataDir, "boxes", run), filepath.Join(cfg.DataDir, "oci", "state", "*", run),
			"/sys/fs/cgroup/*/sandboxd-" + cfg.OwnerID + "/" + run, "/sys/fs/cgroup/sandboxd-" + cfg.OwnerID + "/" + run,
		} {
			paths, err := filepath.Glob(pattern)
			require.NoError(t, err)
			found = append(found, paths...)
		}
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		require.NoError(t, err)
		if strings.Contains(string(mounts), run) {
			found = append(found, "a mount of "+run)
		}
		return found
	}
}

// runtimeDo lets the runtime itself do something to a box, as an operator would.
func runtimeDo(cfg oci.Config, args ...string) *exec.Cmd {
	return exec.Command(cfg.Runtime, append([]string{"--root", filepath.Join(cfg.DataDir, "oci", "state", cfg.Runtime)}, args...)...)
}

func TestBoxesOfRuncKeepTheContract(t *testing.T) {
	cfg := newConfig(t, "runc")
	sandboxtest.RunContract(t, func(t *testing.T) sandbox.Driver {
		d, err := oci.New(t.Context(), cfg)
		require.NoError(t, err)
		return d
	}, sandboxtest.Options{
		Missing: "no/such-image:1",
		Remains: remains(cfg),
		Destroy: func(t *testing.T, run string) {
			out, err := runtimeDo(cfg, "kill", run, "KILL").CombinedOutput()
			require.NoError(t, err, "%s", out)
		},
	})
}

// newBox makes a box that is removed with the test.
func newBox(t *testing.T, cfg oci.Config, change func(*sandbox.Spec)) sandbox.Box {
	t.Helper()
	d, err := oci.New(t.Context(), cfg)
	require.NoError(t, err)
	spec := sandbox.Spec{RunID: "run-" + randomID()}
	if change != nil {
		change(&spec)
	}
	box, err := d.Create(t.Context(), spec)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, box.Remove(context.Background())) })
	return box
}

// sh runs a script that must succeed and returns its output.
func sh(t *testing.T, box sandbox.Box, script string) string {
	t.Helper()
	var out, errs strings.Builder
	exit, err := sandbox.Run(t.Context(), box, sandbox.Command{Argv: []string{"sh", "-c", script}, Stdout: &out, Stderr: &errs}, sandbox.After(time.Second))
	require.NoError(t, err)
	require.Zero(t, exit.Code, "%s\n%s%s", script, out.String(), errs.String())
	return strings.TrimSpace(out.String())
}

func TestHostProgramsRunAndTheMachineStaysUnseen(t *testing.T) {
	secret := filepath.Join("/etc", "sandboxd-test-"+randomID())
	require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o644))
	t.Cleanup(func() { require.NoError(t, os.Remove(secret)) })
	box := newBox(t, newConfig(t, "runc"), nil)

	require.Equal(t, "sandbox", sh(t, box, "id -un"))
	require.Equal(t, "sandbox", sh(t, box, "hostname"))
	require.Equal(t, "127.0.0.1", sh(t, box, "getent hosts sandbox | cut -d' ' -f1"))
	require.Empty(t, sh(t, box, "ls -A /root /boot /srv /opt 2>/dev/null | grep -v : || true"))
	require.Equal(t, "sandbox", sh(t, box, "ls /home"))
	require.Equal(t, "tmp", sh(t, box, "ls -A /var"))
	require.Empty(t, sh(t, box, "ls /etc | grep sandboxd-test || true"), "the machine's /etc shows")
	require.Equal(t, "secret", sh(t, newBox(t, newConfig(t, "runc"), func(spec *sandbox.Spec) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("secret"), 0o644))
		spec.Mounts = []sandbox.Mount{{Source: dir, Target: "/given", ReadOnly: true}}
	}), "cat /given/file"), "the control: what is given is seen")
}

func TestSetUserIDProgramsOfTheMachineRaiseNobody(t *testing.T) {
	box := newBox(t, newConfig(t, "runc"), nil)
	require.NotEmpty(t, sh(t, box, "find /usr/bin -perm -4000"), "the control: the machine has such programs")
	for _, dir := range []string{"/usr", "/etc", "/workspace", "/tmp", "/home/sandbox", "/dev/shm"} {
		options := sh(t, box, "grep ' "+dir+" ' /proc/self/mountinfo | cut -d' ' -f6")
		require.Contains(t, strings.Split(options, ","), "nosuid", dir)
	}
	require.Equal(t, "1", sh(t, box, "grep NoNewPrivs /proc/self/status | cut -f2"))
}

func TestOnlyTheUsualDevicesAreThere(t *testing.T) {
	box := newBox(t, newConfig(t, "runc"), nil)
	require.Equal(t, "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero",
		sh(t, box, "ls /dev | grep -v '^core$' | xargs"))
	require.Equal(t, "1", sh(t, box, "head -c 1 /dev/zero | wc -c"))
}
