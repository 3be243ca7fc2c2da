package oci_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/oci"
)

// pidOf returns the first process of a box, as the runtime knows it.
func pidOf(t *testing.T, cfg oci.Config, run string) int {
	t.Helper()
	out, err := runtimeDo(cfg, "state", run).Output()
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(out), `"pid": `)
	require.True(t, ok, "%s", out)
	number, _, _ := strings.Cut(rest, ",")
	pid, err := strconv.Atoi(number)
	require.NoError(t, err)
	return pid
}

// journal is a log that may be read while it is written.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func TestDeathOfTheAgentIsHeardAtOnceAndNothingStays(t *testing.T) {
	cfg := newConfig(t, "runc")
	var log journal
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	d, err := oci.New(t.Context(), cfg)
	require.NoError(t, err)
	box, err := d.Create(t.Context(), sandbox.Spec{RunID: "run-1"})
	require.NoError(t, err)
	require.Empty(t, log.String(), "the control: a box that is well is not worth a line")

	began := time.Now()
	require.NoError(t, syscall.Kill(pidOf(t, cfg, "run-1"), syscall.SIGKILL))
	select {
	case <-box.Done():
	case <-time.After(5 * time.Second):
		require.FailNow(t, "nobody noticed")
	}
	require.Less(t, time.Since(began), time.Second)
	require.Contains(t, log.String(), "run=run-1")
	require.NotEmpty(t, remains(cfg)(t, "run-1"), "the control: what is left waits for Remove")
	require.NoError(t, box.Remove(t.Context()))
	require.Empty(t, remains(cfg)(t, "run-1"))
}

func TestPausedBoxCanBeRemoved(t *testing.T) {
	cfg := newConfig(t, "runc")
	d, err := oci.New(t.Context(), cfg)
	require.NoError(t, err)
	box, err := d.Create(t.Context(), sandbox.Spec{RunID: "run-1"})
	require.NoError(t, err)
	out, err := runtimeDo(cfg, "pause", "run-1").CombinedOutput()
	require.NoError(t, err, "%s", out)

	began := time.Now()
	require.NoError(t, box.Remove(t.Context()))
	require.Less(t, time.Since(began), 5*time.Second)
	require.Empty(t, remains(cfg)(t, "run-1"))
}

func TestManyBoxesComeAndGoWithoutLeaks(t *testing.T) {
	cfg := newConfig(t, "runc")
	d, err := oci.New(t.Context(), cfg)
	require.NoError(t, err)
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	round := func() {
		var group sync.WaitGroup
		for i := range 4 {
			group.Go(func() {
				box, err := d.Create(t.Context(), sandbox.Spec{RunID: "run-" + strconv.Itoa(i)})
				if err != nil {
					t.Errorf("create: %v", err)
					return
				}
				if err := box.Remove(t.Context()); err != nil {
					t.Errorf("remove: %v", err)
				}
			})
		}
		group.Wait()
	}
	round()
	before := descriptors(t)
	for range 3 {
		round()
	}
	require.LessOrEqual(t, descriptors(t), before, "descriptors leak")
	for _, dir := range []string{"boxes", "oci/state/runc"} {
		left, err := os.ReadDir(filepath.Join(cfg.DataDir, dir))
		require.NoError(t, err)
		require.Empty(t, left, dir)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(open)
}

func TestAgentThatDiesAtOnceIsToldWithItsLastWords(t *testing.T) {
	cfg := newConfig(t, "runc")
	// A program that speaks and ends.
	cfg.AgentPath = filepath.Join(t.TempDir(), "agent")
	require.NoError(t, os.WriteFile(cfg.AgentPath, []byte("#!/bin/sh\necho I am no agent >&2; exit 3\n"), 0o755))
	d, err := oci.New(t.Context(), cfg)
	require.NoError(t, err)
	began := time.Now()
	_, err = d.Create(t.Context(), sandbox.Spec{RunID: "run-1"})
	require.Equal(t, sandbox.KindUnavailable, sandbox.KindOf(err))
	var told *sandbox.Error
	require.ErrorAs(t, err, &told)
	require.ErrorContains(t, told.Cause, "I am no agent")
	require.NotContains(t, told.Message, cfg.DataDir)
	require.Less(t, time.Since(began), 10*time.Second, "the death ends the wait, not its time limit")
	require.Empty(t, remains(cfg)(t, "run-1"))
}

func TestReconcileFindsWhatACrashLeftInAnyStage(t *testing.T) {
	cfg := newConfig(t, "runc")
	d, err := oci.New(t.Context(), cfg)
	require.NoError(t, err)
	// Only directories, only a record that the runtime cannot read, only cgroups.
	require.NoError(t, os.MkdirAll(filepath.Join(cfg.DataDir, "boxes", "run-dirs", "run"), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(cfg.DataDir, "oci", "state", "runc", "run-record"), 0o700))
	group := "/sys/fs/cgroup/pids/sandboxd-" + cfg.OwnerID + "/run-cgroup/box/cmds/0"
	if _, err := os.Stat("/sys/fs/cgroup/pids"); err != nil {
		group = strings.Replace(group, "/pids", "", 1)
	}
	require.NoError(t, os.MkdirAll(group, 0o755))
	whole, err := d.Create(t.Context(), sandbox.Spec{RunID: "run-whole"})
	require.NoError(t, err)
	other := newConfig(t, "runc")
	stranger := newBox(t, other, nil)

	gone, err := d.Reconcile(t.Context(), map[string]bool{"run-dirs": true})
	require.NoError(t, err)
	require.Equal(t, []string{"run-cgroup", "run-record", "run-whole"}, gone)
	for _, run := range gone {
		require.Empty(t, remains(cfg)(t, run))
	}
	require.NotEmpty(t, remains(cfg)(t, "run-dirs"), "what is to be kept is kept")
	require.Equal(t, "alive", sh(t, stranger, "echo alive"), "another service's box lives on")
	require.NoError(t, whole.Remove(t.Context()), "its own removal finds nothing to do")

	gone, err = d.Reconcile(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, []string{"run-dirs"}, gone)
}

func TestServiceThatCannotMakeBoxesIsToldWhatToDo(t *testing.T) {
	agent := filepath.Join(t.TempDir(), "agent")
	require.NoError(t, os.WriteFile(agent, nil, 0o755))
	good := oci.Config{DataDir: t.TempDir(), AgentPath: agent, OwnerID: "owner"}

	for name, change := range map[string]func(c *oci.Config){
		"no owner":              func(c *oci.Config) { c.OwnerID = "" },
		"an owner with a slash": func(c *oci.Config) { c.OwnerID = "../x" },
		"relative data":         func(c *oci.Config) { c.DataDir = "data" },
		"data in /run":          func(c *oci.Config) { c.DataDir = "/run/sandboxd-data" },
		"data at the root":      func(c *oci.Config) { c.DataDir = "/" },
		"no agent":              func(c *oci.Config) { c.AgentPath = "/nonexistent/agent" },
		"a relative agent":      func(c *oci.Config) { c.AgentPath = "agent" },
	} {
		cfg := good
		change(&cfg)
		_, err := oci.New(t.Context(), cfg)
		require.Error(t, err, name)
	}
	if os.Geteuid() != 0 {
		_, err := oci.New(t.Context(), good)
		var unusable *oci.UnusableError
		require.ErrorAs(t, err, &unusable)
		require.ErrorContains(t, err, "run the service as root")
		return
	}
	t.Setenv("PATH", t.TempDir())
	for _, runtime := range []string{"nothing", "kata"} {
		cfg := good
		cfg.Runtime = runtime
		_, err := oci.New(t.Context(), cfg)
		var unusable *oci.UnusableError
		require.ErrorAs(t, err, &unusable, runtime)
		require.ErrorContains(t, err, "choose runc, crun or runsc")
	}
}

// TestOthersThanRootAreToldWhatToDo runs this very test again as another user.
func TestOthersThanRootAreToldWhatToDo(t *testing.T) {
	if os.Geteuid() != 0 {
		TestServiceThatCannotMakeBoxesIsToldWhatToDo(t)
		return
	}
	// Others must reach it, and a test's own directory lies below root's.
	dir, err := os.MkdirTemp("/tmp", "oci-test-") //nolint:usetesting // see above
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	self, err := os.Open("/proc/self/exe")
	require.NoError(t, err)
	defer func() { require.NoError(t, self.Close()) }()
	program, err := os.OpenFile(filepath.Join(dir, "test"), os.O_CREATE|os.O_WRONLY, 0o755)
	require.NoError(t, err)
	_, err = io.Copy(program, self)
	require.NoError(t, err)
	require.NoError(t, program.Close())

	cmd := exec.CommandContext(t.Context(), program.Name(), "-test.v", "-test.run=^TestOthersThanRootAreToldWhatToDo$")
	cmd.Dir, cmd.Env = "/", []string{"TMPDIR=/tmp", "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: TestOthersThanRootAreToldWhatToDo")
}

func TestHostDirectoriesThatShowTheServicesDataAreRefused(t *testing.T) {
	cfg := newConfig(t, "runc")
	d, err := oci.New(t.Context(), cfg)
	require.NoError(t, err)
	given := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(given, link))
	for source, want := range map[string]sandbox.Kind{
		given: "", link: sandbox.KindInvalid, cfg.DataDir: sandbox.KindInvalid, filepath.Join(cfg.DataDir, "boxes"): sandbox.KindInvalid,
		filepath.Dir(cfg.DataDir): sandbox.KindInvalid, "/etc": sandbox.KindInvalid, "/": sandbox.KindInvalid, "/proc": sandbox.KindInvalid,
	} {
		spec := sandbox.Spec{RunID: "run-1", Mounts: []sandbox.Mount{{Source: source, Target: "/given", ReadOnly: true}}}
		box, err := d.Create(context.Background(), spec)
		require.Equal(t, want, sandbox.KindOf(err), "%s: %v", source, err)
		if err == nil {
			require.NoError(t, box.Remove(t.Context()))
		}
	}
}
