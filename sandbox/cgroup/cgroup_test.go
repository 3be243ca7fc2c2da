package cgroup_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/sandbox/cgroup"
)

// open returns a tree of this test's own, gone when the test ends. Cgroups can
// be changed by root alone.
func open(t *testing.T) *cgroup.Tree {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" || os.Getenv("SANDBOXD_TEST_REQUIRE") == "1" {
			t.Fatal("cgroups can be tested by root only; run the tests as root")
		}
		t.Skip("SKIPPED: cgroups can be tested by root only")
	}
	tree, err := cgroup.Open("test-" + strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36))
	require.NoError(t, err)
	t.Logf("layout %s", tree.Mode())
	t.Cleanup(func() {
		runs, err := tree.Runs()
		require.NoError(t, err)
		for _, run := range runs {
			require.NoError(t, tree.Destroy(deadline(t), run))
		}
	})
	return tree
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// everywhere lists the directories with the run's path in all hierarchies.
func everywhere(t *testing.T, tree *cgroup.Tree, run string) []string {
	t.Helper()
	found, err := filepath.Glob("/sys/fs/cgroup/*" + tree.Path(run))
	require.NoError(t, err)
	v2, err := filepath.Glob("/sys/fs/cgroup" + tree.Path(run))
	require.NoError(t, err)
	return append(found, v2...)
}

func TestCreatedRunIsInEveryHierarchyAndGoneAfterDestroy(t *testing.T) {
	tree := open(t)
	require.NoError(t, tree.Create("run-1"))
	require.NoError(t, tree.Create("run-1"), "an existing run's directories are well")

	found := everywhere(t, tree, "run-1")
	require.NotEmpty(t, found)
	if tree.Mode() != cgroup.V2 {
		hierarchies, err := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs")
		require.NoError(t, err)
		require.Len(t, found, len(hierarchies), "%v", found)
	}
	d := tree.Dirs("run-1")
	for _, dir := range []string{d.Unified, d.Pids, d.Memory} {
		if dir != "" {
			require.Contains(t, found, dir)
		}
	}
	runs, err := tree.Runs()
	require.NoError(t, err)
	require.Equal(t, []string{"run-1"}, runs)

	require.NoError(t, tree.Destroy(deadline(t), "run-1"))
	require.NoError(t, tree.Destroy(deadline(t), "run-1"), "destroying twice is well")
	require.Empty(t, everywhere(t, tree, "run-1"))
	require.Empty(t, everywhere(t, tree, ""), "the owner's directory goes with the last run")
}

func TestNewDirectoryTakesProcessesAtOnce(t *testing.T) {
	tree := open(t)
	require.NoError(t, tree.Create("run-1"))
	sleeper := start(t, "sleep", "60")
	for _, dir := range everywhere(t, tree, "run-1") {
		require.NoError(t, enter(dir, sleeper.Process.Pid), "cpuset needs cpus and mems: %s", dir)
	}
}

func TestDestroyEndsNestedProcessesInWhateverHierarchy(t *testing.T) {
	tree := open(t)
	for _, where := range []string{"unified", "v1"} {
		t.Run(where, func(t *testing.T) {
			require.NoError(t, tree.Create("run-1"))
			dir := tree.Dirs("run-1").Unified
			if where == "v1" {
				dir = tree.Dirs("run-1").Pids
			}
			if dir == "" {
				t.Skipf("SKIPPED: this machine (%s) has no %s hierarchy", tree.Mode(), where)
			}
			nested := filepath.Join(dir, "box", "cmd-1")
			require.NoError(t, os.MkdirAll(nested, 0o755))
			// It ignores what can be ignored, and has a child in a session of its own.
			victim := start(t, "sh", "-c", "trap '' TERM HUP INT; setsid sleep 61 & while :; do sleep 1; done")
			bystander := start(t, "sleep", "60")
			require.NoError(t, enter(nested, victim.Process.Pid))

			require.NoError(t, tree.Destroy(deadline(t), "run-1"))

			require.ErrorContains(t, victim.Wait(), "signal: killed")
			require.NoError(t, bystander.Process.Signal(syscall.Signal(0)), "others live on")
			require.Empty(t, everywhere(t, tree, "run-1"))
		})
	}
}

func TestDestroyEndsWhatIsFrozenFurtherDown(t *testing.T) {
	tree := open(t)
	require.NoError(t, tree.Create("run-1"))
	freezer := "/sys/fs/cgroup/freezer" + tree.Path("run-1")
	file, value := "freezer.state", "FROZEN"
	if tree.Mode() == cgroup.V2 {
		freezer, file, value = tree.Dirs("run-1").Unified, "cgroup.freeze", "1"
	}
	nested := filepath.Join(freezer, "box", "cmd")
	require.NoError(t, os.MkdirAll(nested, 0o755))
	victim := start(t, "sleep", "60")
	require.NoError(t, enter(nested, victim.Process.Pid))
	require.NoError(t, os.WriteFile(filepath.Join(nested, file), []byte(value), 0))

	require.NoError(t, tree.Destroy(deadline(t), "run-1"))
	require.ErrorContains(t, victim.Wait(), "signal: killed")
}

func TestStatTellsTheMemoryKill(t *testing.T) {
	tree := open(t)
	require.NoError(t, tree.Create("run-1"))
	d := tree.Dirs("run-1")
	memory, limit := d.Memory, "memory.limit_in_bytes"
	if memory == "" {
		memory, limit = d.Unified, "memory.max"
	}
	box := filepath.Join(memory, "box")
	require.NoError(t, os.Mkdir(box, 0o755))
	for _, dir := range []string{d.Pids, strings.Replace(memory, "memory", "cpuacct", 1)} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "box"), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(box, limit), []byte("8388608"), 0))

	before, err := tree.Stat("run-1", "box")
	require.NoError(t, err)
	require.Zero(t, before.OOMKills)

	// The shell enters the cgroup, then grows beyond it.
	hog := exec.Command("sh", "-c", fmt.Sprintf("echo $$ > %s/cgroup.procs; x=$(head -c 67108864 /dev/zero | tr '\\0' x)", box))
	require.ErrorContains(t, hog.Run(), "signal: killed")

	after, err := tree.Stat("run-1", "box")
	require.NoError(t, err)
	require.Positive(t, after.OOMKills)
	counter, err := os.ReadFile(filepath.Join(memory, tree.OOMFile("box")))
	require.NoError(t, err)
	require.Contains(t, string(counter), fmt.Sprintf("oom_kill %d\n", after.OOMKills))

	_, err = tree.Stat("run-1", "nobody")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestNamesThatLeaveTheOwnersDirectoryAreRefused(t *testing.T) {
	tree, err := cgroup.Open("test-names")
	require.NoError(t, err)
	for _, name := range []string{"", ".", "..", "a/b", "../docker", "/docker", "a\x00b", "cgroup.procs", "-x", strings.Repeat("a", 129)} {
		require.Error(t, tree.Create(name), "%q", name)
		require.Error(t, tree.Destroy(deadline(t), name), "%q", name)
		_, err := tree.Stat("run", "../"+name)
		require.Error(t, err, "%q", name)
		_, err = cgroup.Open(name)
		require.Error(t, err, "%q", name)
	}
}

func enter(dir string, pid int) error {
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
}

// start starts a command that is ended with the test.
func start(t *testing.T, argv ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		// It may have ended, and been waited for, already.
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}
