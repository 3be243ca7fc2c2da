package seccomp

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data (linux/seccomp.h). Arguments are 64 bits wide;
// both architectures are little-endian, so the low half comes first.
const (
	offsetNr   = 0
	offsetArch = 4
	offsetArg1 = 16 + 8*1
)

// x32Bit marks the calls of the x32 ABI, which shares x86-64's audit number.
const x32Bit = 0x40000000

// CommandFilter returns the second layer, which the agent installs in every
// command between clone and exec: clone3 answers ENOSYS, putting characters
// into a terminal's input (TIOCSTI, TIOCLINUX) answers ENOTTY, a foreign
// architecture is killed, and all else is left to the container's layer.
// It is the same for every profile and valid for the machine's architecture.
func CommandFilter(name string) ([]unix.SockFilter, error) {
	if _, ok := tableOf(name); !ok {
		return nil, fmt.Errorf("seccomp: no profile %q, there are %q", name, Names())
	}
	switch runtime.GOARCH {
	case "amd64":
		return commandFilter(unix.AUDIT_ARCH_X86_64, true), nil
	case "arm64":
		return commandFilter(unix.AUDIT_ARCH_AARCH64, false), nil
	}
	return nil, fmt.Errorf("seccomp: no command filter for %s", runtime.GOARCH)
}

func commandFilter(arch uint32, hasX32 bool) []unix.SockFilter {
	prog := []unix.SockFilter{
		load(offsetArch),
		jump(unix.BPF_JEQ, arch, 1, 0),
		ret(unix.SECCOMP_RET_KILL_PROCESS),
		load(offsetNr),
	}
	if hasX32 {
		prog = append(prog,
			jump(unix.BPF_JGE, x32Bit, 0, 2),
			// -1 is how a tracer skips a call; the kernel answers ENOSYS itself.
			jump(unix.BPF_JEQ, ^uint32(0), 1, 0),
			ret(unix.SECCOMP_RET_KILL_PROCESS),
		)
	}
	return append(prog,
		jump(unix.BPF_JEQ, unix.SYS_CLONE3, 0, 1),
		ret(unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS)),
		jump(unix.BPF_JEQ, unix.SYS_IOCTL, 0, 4),
		// The kernel takes 32 bits of the request: compare the low half only.
		load(offsetArg1),
		jump(unix.BPF_JEQ, unix.TIOCSTI, 1, 0),
		jump(unix.BPF_JEQ, unix.TIOCLINUX, 0, 1),
		ret(unix.SECCOMP_RET_ERRNO|uint32(unix.ENOTTY)),
		ret(unix.SECCOMP_RET_ALLOW),
	)
}

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func jump(test uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, Jt: yes, Jf: no, K: k}
}

func ret(action uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
}
