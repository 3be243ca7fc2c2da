package agent_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/agent"
	"github.com/sandboxd/sandboxd/sandbox/agentproto"
	"github.com/stretchr/testify/require"
)

const (
	testUser = 1000
	token    = "0123456789abcdef"
)

// binary is the agent's, built once by TestMain.
var binary string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "agent-bin-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "agent")
		build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", binary, "../../cmd/sandboxd-agent")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build the agent: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// testBox is an agent with a session, and the directory it works in.
type testBox struct {
	*agentproto.Session
	dir string
	pid int // the agent's, 0 in this process
}

// kind is a way to run an agent in a test.
type kind struct {
	name          string
	container     bool // PID 1 of a pid namespace, with three capabilities
	cgroup2, pids bool
}

func kinds() []kind {
	return []kind{
		{name: "in process"},
		{name: "pid 1", container: true},
		{name: "pid 1 with v1 pids", container: true, pids: true},
		{name: "pid 1 with cgroup2 and v1 pids", container: true, cgroup2: true, pids: true},
	}
}

// strongest is what a good box has.
func strongest() kind { return kinds()[len(kinds())-1] }

// each runs a test with every kind of agent.
func each(t *testing.T, f func(t *testing.T, b *testBox)) {
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) { f(t, start(t, k, nil)) })
	}
}

// need skips where the machine lacks something, loudly, and fails where the
// tests are required to run in full.
func need(t testing.TB, ok bool, what string) {
	t.Helper()
	if ok {
		return
	}
	if os.Getenv("SANDBOXD_TEST_REQUIRE") == "1" || os.Getenv("CI") == "true" {
		t.Fatalf("this test needs %s", what)
	}
	t.Skipf("SKIPPED: this test needs %s", what)
}

// start runs an agent and opens a session; change may alter the config.
func start(t testing.TB, k kind, change func(*agentproto.Config)) *testBox {
	t.Helper()
	cfg := agentproto.Config{Token: token, Workspace: t.TempDir(), UID: os.Getuid(), GID: os.Getgid(), Commands: 4}
	b := &testBox{dir: cfg.Workspace}
	var conn net.Conn
	if k.container {
		need(t, os.Geteuid() == 0, "root")
		cfg.UID, cfg.GID = testUser, testUser
		require.NoError(t, os.Chown(cfg.Workspace, testUser, testUser))
		// The path to the workspace must be open to the user.
		for dir := cfg.Workspace; dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
			require.NoError(t, os.Chmod(dir, 0o755))
		}
		conn = startContainer(t, k, &cfg, b)
	} else {
		conn = startInProcess(t)
	}
	if change != nil {
		change(&cfg)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var err error
	b.Session, err = agentproto.Open(ctx, conn, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { b.Close() })
	return b
}

func startInProcess(t testing.TB) net.Conn {
	t.Helper()
	ours, theirs := net.Pipe()
	a := agent.New(agent.Options{Version: "test", TokenOptional: true, KeepUser: true})
	served := make(chan struct{})
	go func() { defer close(served); _ = a.Serve(theirs) }()
	t.Cleanup(func() {
		ours.Close()
		<-served
		require.NoError(t, a.Close())
	})
	return ours
}

// startContainer runs the binary as PID 1 with what the launch contract gives
// it, but for the mount namespace's root.
func startContainer(t testing.TB, k kind, cfg *agentproto.Config, b *testBox) net.Conn {
	t.Helper()
	run := t.TempDir()
	require.NoError(t, os.WriteFile(run+"/token", []byte(token), 0o600))
	name := fmt.Sprintf("sandboxd-agent-test-%d-%d", os.Getpid(), time.Now().UnixNano())
	if k.cgroup2 {
		cfg.Cgroup2Dir = makeCgroup(t, cgroup2Root(t), name)
	}
	if k.pids {
		cfg.PidsCgroupDir = makeCgroup(t, "/sys/fs/cgroup/pids", name)
		cfg.BoxPids = 160
	}
	join := ""
	for _, dir := range []string{cfg.Cgroup2Dir, cfg.PidsCgroupDir} {
		if dir != "" {
			join += "echo $$ > " + dir + "/cgroup.procs; "
		}
	}
	cmd := exec.Command("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
		join+`exec setpriv --bounding-set=-all,+setuid,+setgid,+kill --inh-caps=-all --no-new-privs "$@"`, "sh",
		binary, "--socket", run+"/agent.sock", "--token-file", run+"/token")
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // takes PID 1 of the namespace along
		_ = cmd.Wait()
	})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := agentproto.WaitSocket(ctx, run+"/agent.sock")
	require.NoError(t, err)
	b.pid = childOf(t, cmd.Process.Pid)
	return conn
}

func childOf(t testing.TB, pid int) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	require.NoError(t, err)
	var child int
	_, err = fmt.Sscan(string(data), &child)
	require.NoError(t, err)
	return child
}

func cgroup2Root(t testing.TB) string {
	for _, dir := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		if _, err := os.Stat(dir + "/cgroup.controllers"); err == nil {
			return dir
		}
	}
	need(t, false, "a cgroup2 tree")
	return ""
}

func makeCgroup(t testing.TB, root, name string) string {
	t.Helper()
	dir := root + "/" + name
	need(t, os.Mkdir(dir, 0o755) == nil, "to create a cgroup in "+root)
	t.Cleanup(func() { removeCgroup(t, dir) })
	return dir
}

// removeCgroup kills what is left and removes the tree, children first.
func removeCgroup(t testing.TB, dir string) {
	var remove func(dir string)
	remove = func(dir string) {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if e.IsDir() {
				remove(dir + "/" + e.Name())
			}
		}
		_ = os.WriteFile(dir+"/cgroup.kill", []byte("1"), 0)
		for range 200 {
			if os.Remove(dir) == nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
		t.Errorf("cgroup %s cannot be removed", dir)
	}
	remove(dir)
}

// sh is a command that runs a script.
func sh(script string) sandbox.Command {
	return sandbox.Command{Argv: []string{"/bin/sh", "-c", script}}
}

func itoa(n int) string { return strconv.Itoa(n) }

// hostProcesses lists the machine's processes with exactly this command line.
func hostProcesses(t testing.TB, line string) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	require.NoError(t, err)
	want := strings.ReplaceAll(line, " ", "\x00") + "\x00"
	var found []string
	for _, e := range entries {
		if data, err := os.ReadFile("/proc/" + e.Name() + "/cmdline"); err == nil && string(data) == want {
			found = append(found, e.Name())
		}
	}
	return found
}
