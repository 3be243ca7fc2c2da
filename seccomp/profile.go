package seccomp

import (
	"encoding/json"
	"fmt"
	"slices"

	moby "github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// Profile returns the full profile of a run for the machine's architecture:
// what a command in the box may do, both layers together. The error names the
// profiles that exist.
func Profile(name string) (*specs.LinuxSeccomp, error) {
	return native(name, false)
}

// Container returns the profile of the container, for a bundle's
// linux.seccomp: the run's profile plus clone3. Commands must be started under
// [CommandFilter].
func Container(name string) (*specs.LinuxSeccomp, error) {
	return native(name, true)
}

// DockerJSON returns the container's profile in the engine's own format, to go
// after "seccomp=" in HostConfig.SecurityOpt. It holds every architecture that
// boxes can have, so it also fits a remote engine.
func DockerJSON(name string) ([]byte, error) {
	p, err := build(name, true)
	if err != nil {
		return nil, err
	}
	return json.Marshal(p)
}

// ProfileJSON returns the run's profile in the engine's format, indented: the
// content of the generated files.
func ProfileJSON(name string) ([]byte, error) {
	p, err := build(name, false)
	if err != nil {
		return nil, err
	}
	b, err := json.MarshalIndent(p, "", "  ")
	return append(b, '\n'), err
}

// native resolves a profile's conditions for the machine's architecture.
func native(name string, withClone3 bool) (*specs.LinuxSeccomp, error) {
	p, err := build(name, withClone3)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	// No rule depends on capabilities, so an empty process is the right one.
	none := &specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{}}}
	return moby.LoadProfile(string(body), none)
}

// build makes a profile in the engine's format.
func build(name string, withClone3 bool) (*moby.Seccomp, error) {
	t, ok := tableOf(name)
	if !ok {
		return nil, fmt.Errorf("seccomp: no profile %q, there are %q", name, Names())
	}
	eperm := uint(unix.EPERM)
	p := &moby.Seccomp{LinuxSeccomp: specs.LinuxSeccomp{
		DefaultAction:   specs.ActErrno,
		DefaultErrnoRet: &eperm,
	}}
	for _, arch := range architectures() {
		p.ArchMap = append(p.ArchMap, moby.Architecture{Arch: arch, SubArches: []specs.Arch{}})
	}
	p.Syscalls = append(p.Syscalls, fromBase()...)
	if len(t.add) > 0 {
		p.Syscalls = append(p.Syscalls, allow(sorted(t.add)))
	}
	p.Syscalls = append(p.Syscalls, sockets(t.anyInetProtocol)...)
	for _, v := range append(personalities(), t.personalities...) {
		p.Syscalls = append(p.Syscalls, allow([]string{"personality"}, equal(0, v)))
	}
	missing := sorted(absent())
	if withClone3 {
		missing = slices.DeleteFunc(missing, func(n string) bool { return n == "clone3" })
		p.Syscalls = append(p.Syscalls, allow([]string{"clone3"}))
	}
	enosys := uint(unix.ENOSYS)
	p.Syscalls = append(p.Syscalls, &moby.Syscall{LinuxSyscall: specs.LinuxSyscall{
		Names: missing, Action: specs.ActErrno, ErrnoRet: &enosys,
	}})
	return p, nil
}

// fromBase takes the base list's allowing rules that hold without any
// capability and on an architecture of ours, less what is withheld.
func fromBase() []*moby.Syscall {
	drop := append(withheld(), absent()...)
	var out []*moby.Syscall
	for _, rule := range moby.DefaultProfile().Syscalls {
		if rule.Action != specs.ActAllow || !reachable(rule.Includes) {
			continue
		}
		names := slices.DeleteFunc(slices.Clone(rule.Names), func(n string) bool {
			return slices.Contains(drop, n)
		})
		if len(names) == 0 {
			continue
		}
		kept := &moby.Syscall{
			LinuxSyscall: specs.LinuxSyscall{Names: sorted(names), Action: rule.Action, Args: rule.Args},
		}
		if rule.Includes != nil {
			kept.Includes = &moby.Filter{Arches: rule.Includes.Arches}
		}
		out = append(out, kept)
	}
	return out
}

// reachable tells whether a rule under this condition can hold in a box. Old
// kernels are no condition: boxes need a newer one than any of them asks for.
func reachable(f *moby.Filter) bool {
	if f == nil {
		return true
	}
	if len(f.Caps) > 0 {
		return false
	}
	return len(f.Arches) == 0 || slices.Contains(f.Arches, "amd64") || slices.Contains(f.Arches, "arm64")
}

// The kinds and protocols of internet sockets that every profile allows.
const (
	protoDefault = 0
	protoTCP     = unix.IPPROTO_TCP
	protoUDP     = unix.IPPROTO_UDP
)

// sockets allows the socket families of a box. Comparisons are of all 64 bits
// although the kernel looks at 32: a value with high bits set matches nothing
// and is refused. A further family needs a rule; none is implied.
func sockets(anyInetProtocol bool) []*moby.Syscall {
	rules := []*moby.Syscall{
		// TIPC has socket pairs too, and asking for one loads its module.
		allow([]string{"socket", "socketpair"}, equal(0, unix.AF_UNIX)),
		allow([]string{"socket"}, equal(0, unix.AF_NETLINK), equal(2, unix.NETLINK_ROUTE)),
	}
	kinds := []uint64{unix.SOCK_STREAM, unix.SOCK_DGRAM}
	if anyInetProtocol {
		kinds = append(kinds, unix.SOCK_SEQPACKET)
	}
	for _, family := range []uint64{unix.AF_INET, unix.AF_INET6} {
		for _, kind := range kinds {
			if anyInetProtocol {
				rules = append(rules, allow([]string{"socket"}, equal(0, family), kindIs(1, kind)))
				continue
			}
			for _, proto := range []uint64{protoDefault, protoTCP, protoUDP} {
				rules = append(rules, allow([]string{"socket"}, equal(0, family), kindIs(1, kind), equal(2, proto)))
			}
		}
	}
	return rules
}

func allow(names []string, args ...specs.LinuxSeccompArg) *moby.Syscall {
	return &moby.Syscall{LinuxSyscall: specs.LinuxSyscall{Names: names, Action: specs.ActAllow, Args: args}}
}

func equal(arg uint, value uint64) specs.LinuxSeccompArg {
	return specs.LinuxSeccompArg{Index: arg, Value: value, Op: specs.OpEqualTo}
}

// kindIs compares a socket's type without its two flag bits.
func kindIs(arg uint, kind uint64) specs.LinuxSeccompArg {
	const flags = uint64(unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK)
	return specs.LinuxSeccompArg{Index: arg, Value: ^flags, ValueTwo: kind, Op: specs.OpMaskedEqual}
}

func sorted(names []string) []string {
	out := slices.Clone(names)
	slices.Sort(out)
	return slices.Compact(out)
}
