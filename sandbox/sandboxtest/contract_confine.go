package sandboxtest

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/sandbox"
)

// confine holds what a command must not be and must not reach.
func (s *suite) confine(t *testing.T) {
	shared := ""
	if !s.opt.Apart {
		shared = hostDirs(t)
	}
	box := s.box(t, func(spec *sandbox.Spec) {
		if shared != "" {
			spec.Mounts = []sandbox.Mount{
				{Source: filepath.Join(shared, "ro"), Target: "/mnt/ro", ReadOnly: true},
				{Source: filepath.Join(shared, "rw"), Target: "/mnt/rw"},
			}
		}
	})
	t.Run("commands are an unprivileged user without capabilities", func(t *testing.T) { identity(t, box) })
	t.Run("two layers of system call filters are on", func(t *testing.T) { filters(t, box) })
	t.Run("the only network is loopback of its own", func(t *testing.T) { network(t, box) })
	t.Run("the root is read-only and scratch places are not", func(t *testing.T) { rootfs(t, box, shared != "") })
	t.Run("namespaces and mounts cannot be made", func(t *testing.T) { namespaces(t, box) })
	t.Run("set-user-id raises nobody", func(t *testing.T) { setuid(t, box) })
	t.Run("kernel settings cannot be changed", func(t *testing.T) { kernelSettings(t, box) })
	t.Run("mounts are as asked or refused", func(t *testing.T) {
		if s.opt.Apart {
			s.noMounts(t)
		} else {
			mounts(t, box, shared)
		}
	})
	t.Run("facts describe the box", func(t *testing.T) { facts(t, box) })
}

// hostDirs makes the directories ro and rw on the host, each with a file that
// everybody may write.
func hostDirs(t *testing.T) string {
	t.Helper()
	shared := t.TempDir()
	require.NoError(t, os.Chmod(shared, 0o777))
	for _, name := range []string{"ro", "rw"} {
		require.NoError(t, os.Mkdir(filepath.Join(shared, name), 0o777))
		require.NoError(t, os.Chmod(filepath.Join(shared, name), 0o777))
		given := filepath.Join(shared, name, "given")
		require.NoError(t, os.WriteFile(given, []byte("given"), 0o666))
		require.NoError(t, os.Chmod(given, 0o666))
	}
	return shared
}

// noMounts: where the host's directories are not, none is left out silently.
func (s *suite) noMounts(t *testing.T) {
	d := s.driver(t)
	for _, change := range []func(*sandbox.Spec){
		func(spec *sandbox.Spec) { spec.Workspace.HostDir = t.TempDir() },
		func(spec *sandbox.Spec) { spec.Mounts = []sandbox.Mount{{Source: t.TempDir(), Target: "/mnt/x"}} },
	} {
		spec := sandbox.Spec{RunID: newRunID(), Image: s.opt.Image}
		change(&spec)
		_, err := d.Create(t.Context(), spec)
		requireKind(t, sandbox.KindUnsupported, err)
		require.Empty(t, s.opt.Remains(t, spec.RunID))
	}
}

// status reads a process's status file into a map.
func status(text string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		m[name] = strings.TrimSpace(value)
	}
	return m
}

func identity(t *testing.T, box sandbox.Box) {
	st := status(ok(t, box, "cat /proc/self/status"))
	require.Equal(t, "1000\t1000\t1000\t1000", st["Uid"])
	require.Equal(t, "1000\t1000\t1000\t1000", st["Gid"])
	for _, group := range strings.Fields(st["Groups"]) {
		// Beside its own, a command may carry a group that only marks it.
		n, err := strconv.Atoi(group)
		require.NoError(t, err)
		require.True(t, n == 1000 || n >= 60000, "group %d", n)
	}
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} {
		require.Equal(t, strings.Repeat("0", 16), st[set], set)
	}
	require.Equal(t, "1", st["NoNewPrivs"])
	require.Equal(t, 1000, box.Facts().UserID)
}

func filters(t *testing.T, box sandbox.Box) {
	st := status(ok(t, box, "cat /proc/self/status"))
	require.Equal(t, "2", st["Seccomp"], "filtered")
	require.GreaterOrEqual(t, len(st["Seccomp_filters"]), 1)
	require.GreaterOrEqual(t, st["Seccomp_filters"], "2", "the box's and the command's")
}

func network(t *testing.T, box sandbox.Box) {
	devices := ok(t, box, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '")
	require.Equal(t, "lo", devices)
	require.Empty(t, ok(t, box, "tail -n +2 /proc/net/route"), "no routes")

	// The control: a server that the test itself reaches.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, c.Close())
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	r := sh(t, box, "echo >/dev/tcp/127.0.0.1/$1", port)
	require.NotZero(t, r.Code)
	require.Contains(t, r.Err, "Connection refused")
	r = sh(t, box, "echo >/dev/tcp/192.0.2.1/80")
	require.Contains(t, r.Err, "Network is unreachable")
	// And within the box loopback works.
	ok(t, box, `perl -MIO::Socket::INET -e '$l = IO::Socket::INET->new(Listen=>1, LocalAddr=>"127.0.0.1", LocalPort=>0) or die;
		IO::Socket::INET->new(PeerAddr=>"127.0.0.1", PeerPort=>$l->sockport) or die'`)
}

func rootfs(t *testing.T, box sandbox.Box, mounted bool) {
	for _, dir := range []string{"/", "/usr", "/usr/bin", "/etc", "/var", "/run"} {
		r := sh(t, box, "touch $1/sandboxd-probe", dir)
		require.NotZero(t, r.Code, dir)
		require.Regexp(t, "Read-only file system|Permission denied", r.Err)
	}
	for _, dir := range []string{"/tmp", `"$HOME"`, ".", "/dev/shm"} {
		ok(t, box, "touch "+dir+"/sandboxd-probe && rm "+dir+"/sandboxd-probe")
	}
	// Build tools run what they put in /tmp.
	ok(t, box, "printf '#!/bin/sh\necho ran\n' >/tmp/prog && chmod 755 /tmp/prog && /tmp/prog && rm /tmp/prog")
	require.Equal(t, "1777", ok(t, box, "stat -c %a /tmp"))
	// Mount points show up too, and only those.
	writable := ok(t, box, `find / -xdev -writable \( -type d -o -type f \) 2>/dev/null | sort | xargs; true`)
	want := "/home/sandbox /tmp /workspace"
	if mounted {
		want = "/home/sandbox /mnt/rw /tmp /workspace"
	}
	require.Equal(t, want, writable, "nothing of the root's own file system is the command's to write")
}

func namespaces(t *testing.T, box sandbox.Box) {
	control, err := exec.Command("unshare", "--uts", "true").CombinedOutput()
	require.NoError(t, err, "the control: outside this works, or nothing is proved: %s", control)
	for _, flag := range []string{"--user", "--uts", "--net", "--mount", "--pid", "--ipc", "--cgroup"} {
		r := sh(t, box, "unshare $1 true", flag)
		require.NotZero(t, r.Code, flag)
		require.Contains(t, r.Err, "Operation not permitted", flag)
	}
	r := sh(t, box, "mkdir -p /tmp/m && mount -t tmpfs none /tmp/m")
	require.NotZero(t, r.Code)
	r = sh(t, box, "mknod /tmp/disk b 8 0; mknod /tmp/null c 1 3")
	require.NotZero(t, r.Code)
	r = sh(t, box, "chroot / true")
	require.NotZero(t, r.Code)
}

func setuid(t *testing.T, box sandbox.Box) {
	require.Empty(t, ok(t, box, "find / -xdev -type f -perm /6000 2>/dev/null; true"), "no such program in the image")
	require.Equal(t, "1000", ok(t, box, "cp /usr/bin/id ./myid && chmod 4755 ./myid && ./myid -u; rm -f ./myid"))
}

func kernelSettings(t *testing.T, box sandbox.Box) {
	for _, file := range []string{"/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/kernel/uevent_helper", "/proc/sys/kernel/hostname"} {
		r := sh(t, box, "echo x >$1", file)
		require.NotZero(t, r.Code, file)
	}
	for _, file := range []string{"/proc/kcore", "/proc/kmsg", "/proc/keys", "/proc/timer_list", "/proc/kallsyms"} {
		require.Empty(t, sh(t, box, "head -c 10 $1 2>/dev/null", file).Out, file)
	}
	r := sh(t, box, `for d in $(find /sys/fs/cgroup -type d 2>/dev/null | head -50); do mkdir $d/sandboxd-probe 2>/dev/null && echo $d; done; true`)
	require.Empty(t, r.Out, "no cgroup can be made")
	require.Empty(t, ok(t, box, `find / -type s 2>/dev/null; true`), "no sockets lie about")
}

func mounts(t *testing.T, box sandbox.Box, shared string) {
	require.Equal(t, "given", ok(t, box, "cat /mnt/ro/given"))
	for _, try := range []string{"echo x >/mnt/ro/given", "touch /mnt/ro/new", "chmod 600 /mnt/ro/given", "mv /mnt/ro/given /mnt/ro/x", "ln /mnt/ro/given /mnt/ro/x", "rm /mnt/ro/given"} {
		r := sh(t, box, try)
		require.NotZero(t, r.Code, try)
		require.Contains(t, r.Err, "Read-only file system", try)
	}
	ok(t, box, "echo changed >/mnt/rw/given && touch /mnt/rw/new")
	b, err := os.ReadFile(filepath.Join(shared, "rw", "given"))
	require.NoError(t, err)
	require.Equal(t, "changed\n", string(b))
}

func facts(t *testing.T, box sandbox.Box) {
	f := box.Facts()
	require.NotEmpty(t, f.Driver)
	require.NotEmpty(t, f.Runtime)
	require.NotEmpty(t, f.Image)
	require.Equal(t, sandbox.DefaultWorkspacePath, f.WorkspacePath)
	require.Equal(t, f.WorkspacePath, ok(t, box, "pwd"))
	require.Contains(t, []string{"cgroup.kill", "freeze", "stop-walk"}, f.KillStep)
	require.Positive(t, f.StartedIn)
	for _, d := range f.Degraded {
		require.NotEmpty(t, d)
	}
	t.Logf("%+v", f)
}
