package seccomp_test

import (
	"errors"

	"github.com/elastic/go-seccomp-bpf/arch"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// compile turns a bundle's profile into a program, as a runtime does, rule by
// rule in order; it knows the two comparisons that the profiles use.
func compile(p *specs.LinuxSeccomp) ([]unix.SockFilter, error) {
	info, err := arch.GetInfo("")
	if err != nil {
		return nil, err
	}
	const ld = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	const jeq = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	prog := []unix.SockFilter{{Code: ld, K: 0}}
	for _, rule := range p.Syscalls {
		act, err := action(rule.Action, rule.ErrnoRet)
		if err != nil {
			return nil, err
		}
		test, err := compare(rule.Args)
		if err != nil {
			return nil, err
		}
		for _, name := range rule.Names {
			nr, known := info.SyscallNames[name]
			if !known {
				continue // another architecture's, or newer than the table
			}
			body := append(append([]unix.SockFilter{}, test...), unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: act})
			body = append(body, unix.SockFilter{Code: ld, K: 0})
			prog = append(prog, unix.SockFilter{Code: jeq, K: uint32(nr), Jf: uint8(len(body))})
			prog = append(prog, body...)
		}
	}
	act, err := action(p.DefaultAction, p.DefaultErrnoRet)
	return append(prog, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: act}), err
}

// compare tests all arguments; a mismatch jumps over the return that follows.
func compare(args []specs.LinuxSeccompArg) ([]unix.SockFilter, error) {
	var out []unix.SockFilter
	for _, a := range args {
		mask, value := ^uint64(0), a.Value
		switch a.Op {
		case specs.OpEqualTo:
		case specs.OpMaskedEqual:
			mask, value = a.Value, a.ValueTwo
		default:
			return nil, errors.New("unknown comparison " + string(a.Op))
		}
		for half := range uint32(2) {
			shift := 32 * half
			out = append(out,
				unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: uint32(16+8*a.Index) + 4*half},
				unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: uint32(mask >> shift)},
				unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(value >> shift)},
			)
		}
	}
	for i := 2; i < len(out); i += 3 {
		out[i].Jf = uint8(len(out) - i) // to just behind the return
	}
	return out, nil
}

func action(a specs.LinuxSeccompAction, errno *uint) (uint32, error) {
	switch {
	case a == specs.ActAllow:
		return unix.SECCOMP_RET_ALLOW, nil
	case a == specs.ActErrno && errno != nil:
		return unix.SECCOMP_RET_ERRNO | uint32(*errno), nil
	}
	return 0, errors.New("unknown action " + string(a))
}
