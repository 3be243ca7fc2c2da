package seccomp_test

import (
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/sandboxd/sandboxd/seccomp"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

const (
	allowed = uint32(unix.SECCOMP_RET_ALLOW)
	killed  = uint32(unix.SECCOMP_RET_KILL_PROCESS)
	enosys  = uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.ENOSYS)
	enotty  = uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.ENOTTY)
)

func TestCommandFilterDecidesByCallArchitectureAndRequest(t *testing.T) {
	vm := commandVM(t)
	arch, foreign := nativeAudit(t)
	cases := []struct {
		name string
		nr   uint32
		arch uint32
		arg1 uint64
		want uint32
	}{
		{"an ordinary call is left to the container", unix.SYS_READ, arch, 0, allowed},
		{"clone is left to the container", unix.SYS_CLONE, arch, unix.CLONE_NEWUSER, allowed},
		{"clone3 does not exist", unix.SYS_CLONE3, arch, 0, enosys},
		{"ioctl of a terminal's size", unix.SYS_IOCTL, arch, unix.TIOCGWINSZ, allowed},
		{"typing into a terminal", unix.SYS_IOCTL, arch, unix.TIOCSTI, enotty},
		{"typing with high bits set", unix.SYS_IOCTL, arch, 1<<32 | unix.TIOCSTI, enotty},
		{"pasting into a console", unix.SYS_IOCTL, arch, unix.TIOCLINUX, enotty},
		{"that number of another call", unix.SYS_READ, arch, unix.TIOCSTI, allowed},
		{"a foreign architecture", unix.SYS_READ, foreign, 0, killed},
		{"a skipped call", ^uint32(0), arch, 0, allowed},
	}
	if runtime.GOARCH == "amd64" {
		cases = append(cases, struct {
			name string
			nr   uint32
			arch uint32
			arg1 uint64
			want uint32
		}{"an x32 call", 0x40000000 | unix.SYS_READ, arch, 0, killed})
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, vm(c.nr, c.arch, c.arg1))
		})
	}
}

func TestCommandFilterIsShort(t *testing.T) {
	for _, name := range seccomp.Names() {
		prog, err := seccomp.CommandFilter(name)
		require.NoError(t, err)
		require.Less(t, len(prog), 20, "it runs before every call of every command")
	}
}

// commandVM runs the filter in a simulator. That reads big-endian words, so
// the words of struct seccomp_data are laid out in that order.
func commandVM(t *testing.T) func(nr, arch uint32, arg1 uint64) uint32 {
	t.Helper()
	prog, err := seccomp.CommandFilter(seccomp.Strict)
	require.NoError(t, err)
	raw := make([]bpf.RawInstruction, len(prog))
	for i, ins := range prog {
		raw[i] = bpf.RawInstruction{Op: ins.Code, Jt: ins.Jt, Jf: ins.Jf, K: ins.K}
	}
	instructions, all := bpf.Disassemble(raw)
	require.True(t, all)
	vm, err := bpf.NewVM(instructions)
	require.NoError(t, err)
	return func(nr, arch uint32, arg1 uint64) uint32 {
		var data [64]byte
		binary.BigEndian.PutUint32(data[0:], nr)
		binary.BigEndian.PutUint32(data[4:], arch)
		binary.BigEndian.PutUint32(data[24:], uint32(arg1))
		binary.BigEndian.PutUint32(data[28:], uint32(arg1>>32))
		got, err := vm.Run(data[:])
		require.NoError(t, err)
		return uint32(got)
	}
}

func nativeAudit(t *testing.T) (native, foreign uint32) {
	t.Helper()
	switch runtime.GOARCH {
	case "amd64":
		return unix.AUDIT_ARCH_X86_64, unix.AUDIT_ARCH_I386
	case "arm64":
		return unix.AUDIT_ARCH_AARCH64, unix.AUDIT_ARCH_ARM
	}
	t.Fatalf("boxes do not run on %s", runtime.GOARCH)
	return 0, 0
}
