package seccomp_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/sandboxd/sandboxd/seccomp"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// probeEnv names the layers that a child of this test installs on itself.
const probeEnv = "SECCOMP_PROBE"

func TestMain(m *testing.M) {
	if layers := os.Getenv(probeEnv); layers != "" {
		os.Exit(probeChild(layers))
	}
	os.Exit(m.Run())
}

// TestKernelRefusesWhatTheProfileRefuses installs the two layers as a command
// has them and makes the calls. Each denied probe has a control: the same call
// in a child without filters must answer something else.
func TestKernelRefusesWhatTheProfileRefuses(t *testing.T) {
	control := runProbes(t, "none")
	for _, name := range seccomp.Names() {
		t.Run(name, func(t *testing.T) {
			got := runProbes(t, name+"+command")
			for _, p := range probes() {
				want := p.want(name)
				if want == asKernel {
					require.Equal(t, control[p.name], got[p.name], "%s must be as without a filter", p.name)
					continue
				}
				if control[p.name] == want {
					inconclusive(t, p.name, want)
				}
				require.Equal(t, want, got[p.name], "%s: got %v, want %v", p.name, got[p.name], want)
			}
		})
	}
}

// inconclusive fails the test: a refusal that the kernel gives anyway proves
// nothing. Only on a developer's machine, without root, is it just said.
func inconclusive(t *testing.T, name string, e syscall.Errno) {
	t.Helper()
	if os.Geteuid() != 0 && os.Getenv("CI") != "true" && os.Getenv("SANDBOXD_TEST_REQUIRE") != "1" {
		t.Logf("NOT PROVED without root: %s answers %v without a filter too", name, e)
		return
	}
	t.Errorf("%s: inconclusive, the kernel answers %v without a filter too", name, e)
}

func TestContainerLayerAloneLetsTheAgentUseClone3(t *testing.T) {
	require.Equal(t, syscall.EINVAL, runProbes(t, seccomp.Strict)["clone3"], "the kernel itself must answer")
	require.Equal(t, syscall.ENOSYS, runProbes(t, seccomp.Strict+"+command")["clone3"])
}

func TestX32CallsKillTheProcess(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("x32 is an ABI of amd64")
	}
	require.NoError(t, probeCommand("strict+command", "native").Run(), "control: a native call passes")
	err := probeCommand("strict+command", "x32").Run()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	status, ok := exit.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	require.Equal(t, syscall.SIGSYS, status.Signal())
}

// asKernel marks a probe whose answer must not change under the filters.
const asKernel = syscall.Errno(0xffffffff)

type probe struct {
	name   string
	nr     uintptr
	args   [3]uintptr
	strict syscall.Errno // expected answer per profile, or passes
	deflt  syscall.Errno
	debug  syscall.Errno
}

func (p probe) want(profile string) syscall.Errno {
	e := map[string]syscall.Errno{"strict": p.strict, "default": p.deflt, "debug": p.debug}[profile]
	return e
}

const passes = asKernel // reads better in the table

// probes use arguments that a kernel without filters refuses for another
// reason, or grants without harm.
func probes() []probe {
	all := func(name string, nr uintptr, e syscall.Errno, args ...uintptr) probe {
		p := probe{name: name, nr: nr, strict: e, deflt: e, debug: e}
		copy(p.args[:], args)
		return p
	}
	strictOnly := func(name string, nr uintptr, args ...uintptr) probe {
		p := probe{name: name, nr: nr, strict: syscall.EPERM, deflt: passes, debug: passes}
		copy(p.args[:], args)
		return p
	}
	debugOnly := func(name string, nr uintptr, args ...uintptr) probe {
		p := probe{name: name, nr: nr, strict: syscall.EPERM, deflt: syscall.EPERM, debug: passes}
		copy(p.args[:], args)
		return p
	}
	const high = 1 << 32
	bad := ^uintptr(0) // an address that no one has
	out := []probe{
		all("getpid", unix.SYS_GETPPID, passes),
		all("io_uring_setup", unix.SYS_IO_URING_SETUP, syscall.ENOSYS, 1, bad),
		all("userfaultfd", unix.SYS_USERFAULTFD, syscall.ENOSYS, bad),
		all("statmount", unix.SYS_STATMOUNT, syscall.ENOSYS, bad),
		all("listmount", unix.SYS_LISTMOUNT, syscall.ENOSYS, bad),
		all("clone3", unix.SYS_CLONE3, syscall.ENOSYS, 0, 1),
		all("unshare", unix.SYS_UNSHARE, syscall.EPERM, bad),
		all("clone NEWUSER", unix.SYS_CLONE, syscall.EPERM, unix.CLONE_NEWUSER|unix.CLONE_FS|unix.CLONE_SIGHAND),
		all("setns", unix.SYS_SETNS, syscall.EPERM, bad),
		all("mount", unix.SYS_MOUNT, syscall.EPERM, bad, bad, bad),
		all("umount2", unix.SYS_UMOUNT2, syscall.EPERM, bad, bad),
		all("fsopen", unix.SYS_FSOPEN, syscall.EPERM, bad),
		all("open_tree", unix.SYS_OPEN_TREE, syscall.EPERM, bad, bad),
		all("move_mount", unix.SYS_MOVE_MOUNT, syscall.EPERM, bad, bad),
		all("pivot_root", unix.SYS_PIVOT_ROOT, syscall.EPERM, bad, bad),
		all("keyctl", unix.SYS_KEYCTL, syscall.EPERM, bad),
		all("add_key", unix.SYS_ADD_KEY, syscall.EPERM, bad, bad),
		all("bpf", unix.SYS_BPF, syscall.EPERM, bad, bad, bad),
		all("perf_event_open", unix.SYS_PERF_EVENT_OPEN, syscall.EPERM, bad),
		all("open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, syscall.EPERM, bad, bad),
		all("kexec_load", unix.SYS_KEXEC_LOAD, syscall.EPERM, 0, bad, bad),
		all("init_module", unix.SYS_INIT_MODULE, syscall.EPERM, bad, 1, bad),
		all("reboot", unix.SYS_REBOOT, syscall.EPERM),
		all("swapon", unix.SYS_SWAPON, syscall.EPERM, bad),
		all("quotactl", unix.SYS_QUOTACTL, syscall.EPERM, bad, bad),
		all("syslog", unix.SYS_SYSLOG, syscall.EPERM, 10),
		all("settimeofday", unix.SYS_SETTIMEOFDAY, syscall.EPERM, bad),
		all("chroot", unix.SYS_CHROOT, syscall.EPERM, bad),
		all("vmsplice", unix.SYS_VMSPLICE, syscall.EPERM, bad),
		all("ioctl TIOCSTI", unix.SYS_IOCTL, syscall.ENOTTY, bad, unix.TIOCSTI),
		all("ioctl TIOCGWINSZ", unix.SYS_IOCTL, passes, bad, unix.TIOCGWINSZ),
		all("socket unix", unix.SYS_SOCKET, passes, unix.AF_UNIX, unix.SOCK_SEQPACKET),
		all("socket tcp", unix.SYS_SOCKET, passes, unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_TCP),
		all("socket udp6", unix.SYS_SOCKET, passes, unix.AF_INET6, unix.SOCK_DGRAM),
		all("socket route", unix.SYS_SOCKET, passes, unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE),
		all("socket audit", unix.SYS_SOCKET, syscall.EPERM, unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT),
		all("socket raw", unix.SYS_SOCKET, syscall.EPERM, unix.AF_INET, unix.SOCK_RAW, 0),
		all("socket tcp high bits", unix.SYS_SOCKET, syscall.EPERM, high|unix.AF_INET, unix.SOCK_STREAM),
		all("socket packet", unix.SYS_SOCKET, syscall.EPERM, unix.AF_PACKET, unix.SOCK_DGRAM|0x70),
		all("socket alg", unix.SYS_SOCKET, syscall.EPERM, unix.AF_ALG, 0x70),
		all("socket vsock", unix.SYS_SOCKET, syscall.EPERM, unix.AF_VSOCK, 0x70),
		all("socketpair tipc", unix.SYS_SOCKETPAIR, syscall.EPERM, unix.AF_TIPC, unix.SOCK_STREAM),
		all("personality query", unix.SYS_PERSONALITY, passes, 0xffffffff),
		strictOnly("process_vm_readv", unix.SYS_PROCESS_VM_READV, 0, bad, bad),
		strictOnly("ptrace", unix.SYS_PTRACE, unix.PTRACE_CONT, 0),
		strictOnly("mq_unlink", unix.SYS_MQ_UNLINK, bad),
		strictOnly("msgctl", unix.SYS_MSGCTL, bad),
		strictOnly("io_setup", unix.SYS_IO_SETUP, 1, bad),
		strictOnly("name_to_handle_at", unix.SYS_NAME_TO_HANDLE_AT, bad, bad),
		strictOnly("socket mptcp", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP),
		debugOnly("kcmp", unix.SYS_KCMP, bad, bad),
		debugOnly("pidfd_getfd", unix.SYS_PIDFD_GETFD, bad, bad),
		debugOnly("no address randomisation", unix.SYS_PERSONALITY, 0x40000),
	}
	return out
}

func probeCommand(layers, mode string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), probeEnv+"="+layers+":"+mode)
	cmd.Stderr = os.Stderr
	return cmd
}

func runProbes(t *testing.T, layers string) map[string]syscall.Errno {
	t.Helper()
	out, err := probeCommand(layers, "all").Output()
	require.NoError(t, err, string(out))
	var answers map[string]syscall.Errno
	require.NoError(t, json.Unmarshal(out, &answers))
	return answers
}

// probeChild is the child's main: it installs the layers on all its threads
// and makes the calls.
func probeChild(spec string) int {
	layers, mode, _ := strings.Cut(spec, ":")
	runtime.LockOSThread()
	if err := install(layers); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	switch mode {
	case "native":
		_, _, e := unix.RawSyscall(unix.SYS_GETPPID, 0, 0, 0)
		return int(e)
	case "x32":
		_, _, e := unix.RawSyscall(0x40000000|unix.SYS_GETPPID, 0, 0, 0)
		fmt.Fprintln(os.Stderr, "an x32 call returned:", e)
		return 4
	}
	answers := map[string]syscall.Errno{}
	for _, p := range probes() {
		_, _, answers[p.name] = unix.RawSyscall6(p.nr, p.args[0], p.args[1], p.args[2], 0, 0, 0)
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		return 5
	}
	return 0
}

func install(layers string) error {
	if layers == "none" {
		return nil
	}
	name, second, _ := strings.Cut(layers, "+")
	outer, err := seccomp.Container(name)
	if err != nil {
		return err
	}
	prog, err := compile(outer)
	if err != nil {
		return err
	}
	if err := load(prog); err != nil || second == "" {
		return err
	}
	if prog, err = seccomp.CommandFilter(name); err != nil {
		return err
	}
	return load(prog)
}

func load(prog []unix.SockFilter) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&fprog)))
	if e != 0 {
		return fmt.Errorf("install filter of %d instructions: %w", len(prog), e)
	}
	return nil
}
