package oci

import (
	"errors"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/agentproto"
	"github.com/sandboxd/sandboxd/seccomp"
)

// A NotHardenedError names the first setting of a bundle that a box must not
// have.
type NotHardenedError struct{ Setting, Reason string }

func (e *NotHardenedError) Error() string {
	return fmt.Sprintf("oci: refusing to create a box: %s %s", e.Setting, e.Reason)
}

// reason is the part of err for a person: no host path is in it.
func reason(err error) string {
	if e, ok := errors.AsType[*NotHardenedError](err); ok {
		return e.Setting + " " + e.Reason
	}
	return err.Error()
}

// AssertHardened tells whether a container made from this configuration is a
// box: confined in every way that the runtimes offer. It is asked before every
// create, whatever code built the configuration.
//
// Every setting has a rule below. A setting without one must have its zero
// value, so what a later version of the specification adds is refused until
// someone has thought about it. forbidden are host paths that no mount may
// reach, beside those of forbiddenSources.
func AssertHardened(spec *specs.Spec, forbidden ...string) error {
	if spec == nil || spec.Process == nil || spec.Process.Capabilities == nil || spec.Root == nil || spec.Linux == nil || spec.Linux.Resources == nil {
		return &NotHardenedError{"the configuration", "lacks a part"}
	}
	for _, part := range []struct {
		name  string
		value any
		rules map[string]string
	}{
		{"", *spec, specRules(spec)},
		{"root.", *spec.Root, rootRules(spec.Root)},
		{"process.", *spec.Process, processRules(spec.Process)},
		{"linux.", *spec.Linux, linuxRules(spec.Linux)},
		{"linux.resources.", *spec.Linux.Resources, resourceRules(spec.Linux.Resources)},
	} {
		if err := check(part.name, reflect.ValueOf(part.value), part.rules); err != nil {
			return err
		}
	}
	return checkMounts(spec, append(forbidden, forbiddenSources()...))
}

// check goes through the settings in the order of the struct. rules holds what
// is wrong with each, "" for nothing.
func check(prefix string, v reflect.Value, rules map[string]string) error {
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		fault, ruled := rules[name]
		if !ruled && !v.Field(i).IsZero() {
			fault = "must not be set"
		}
		if fault != "" {
			return &NotHardenedError{prefix + strings.ToLower(name[:1]) + name[1:], fault}
		}
	}
	return nil
}

// unless returns the fault where the condition does not hold.
func unless(ok bool, fault string) string {
	if ok {
		return ""
	}
	return fault
}

func specRules(s *specs.Spec) map[string]string {
	return map[string]string{
		"Version":  "",
		"Hostname": unless(s.Hostname == "sandbox", "must tell nothing of the machine"),
		// The parts have rules of their own.
		"Process": "", "Root": "", "Linux": "", "Mounts": "",
	}
}

func rootRules(r *specs.Root) map[string]string {
	return map[string]string{
		"Path":     unless(path.IsAbs(r.Path) && path.Clean(r.Path) == r.Path && r.Path != "/", "must be a directory of the box's own"),
		"Readonly": unless(r.Readonly, "must be set"),
	}
}

func processRules(p *specs.Process) map[string]string {
	return map[string]string{
		// The agent is root inside, with three capabilities; it starts every
		// command as another user.
		"User":            unless(p.User.UID == 0 && p.User.GID == 0 && len(p.User.AdditionalGids) == 0 && p.User.Umask == nil, "must be the agent's, 0:0"),
		"Args":            unless(slices.Equal(p.Args, []string{agentproto.AgentPath, "--socket", agentproto.SocketPath}), "must be the agent"),
		"Cwd":             unless(p.Cwd == "/", "must be /"),
		"Capabilities":    capabilities(p.Capabilities),
		"Rlimits":         rlimits(p.Rlimits),
		"NoNewPrivileges": unless(p.NoNewPrivileges, "must be set"),
		"OOMScoreAdj":     unless(p.OOMScoreAdj != nil && *p.OOMScoreAdj >= 0, "must not spare the box"),
		// The environment of PID 1 is no secret; what commands need goes over the
		// session, so Env must be empty: it has no rule.
	}
}

func capabilities(c *specs.LinuxCapabilities) string {
	for _, set := range [][]string{c.Bounding, c.Effective, c.Permitted} {
		for _, name := range set {
			if !slices.Contains(agentCapabilities(), name) {
				return "holds " + name
			}
		}
	}
	// Those that a command would inherit.
	return unless(len(c.Inheritable) == 0 && len(c.Ambient) == 0, "may not be inheritable or ambient")
}

func rlimits(limits []specs.POSIXRlimit) string {
	const unlimited = ^uint64(0)
	hard := map[string]uint64{}
	for _, l := range limits {
		if l.Hard == unlimited || l.Soft > l.Hard {
			return "leaves " + l.Type + " without bound"
		}
		hard[l.Type] = l.Hard
	}
	for _, need := range []string{"RLIMIT_CORE", "RLIMIT_FSIZE", "RLIMIT_NOFILE"} {
		if _, ok := hard[need]; !ok {
			return "lacks " + need
		}
	}
	return unless(hard["RLIMIT_CORE"] == 0, "allows core files")
}

func linuxRules(l *specs.Linux) map[string]string {
	return map[string]string{
		"Sysctl":        sysctlFault(l.Sysctl),
		"Resources":     "",
		"CgroupsPath":   unless(cgroupPathOK(l.CgroupsPath), "must be this box's own, below a run of a service"),
		"Namespaces":    namespaceFault(l.Namespaces),
		"Seccomp":       unless(ownProfile(l.Seccomp), "must be one of our profiles"),
		"MaskedPaths":   unless(holdsAll(l.MaskedPaths, sandbox.MaskedPaths()), "must hold every path that is masked"),
		"ReadonlyPaths": unless(holdsAll(l.ReadonlyPaths, sandbox.ReadonlyPaths()), "must hold every path that is read-only"),
	}
}

func sysctlFault(set map[string]string) string {
	for name, value := range set {
		if own, ok := sysctls()[name]; !ok || own != value {
			return "sets " + name
		}
	}
	return ""
}

// cgroupPathOK: the last three elements are the service's, the run's and the
// container's.
func cgroupPathOK(p string) bool {
	run, box := path.Split(p)
	owner := path.Base(path.Dir(path.Clean(run)))
	return path.IsAbs(p) && path.Clean(p) == p && box == containerName && strings.HasPrefix(owner, "sandboxd-") && sandbox.ValidName(path.Base(run))
}

// namespaceFault: each kind is there once, new and not one of the machine's.
func namespaceFault(have []specs.LinuxNamespace) string {
	for _, n := range have {
		if n.Path != "" {
			return "joins another " + string(n.Type) + " namespace"
		}
	}
	for _, want := range namespaces() {
		if !slices.Contains(have, want) {
			return "lacks a new " + string(want.Type) + " namespace"
		}
	}
	return unless(len(have) == len(namespaces()), "holds one more than a box has")
}

func ownProfile(s *specs.LinuxSeccomp) bool {
	for _, name := range seccomp.Names() {
		if own, err := seccomp.Container(name); err == nil && reflect.DeepEqual(own, s) {
			return true
		}
	}
	return false
}

func resourceRules(r *specs.LinuxResources) map[string]string {
	denyAll := []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}
	return map[string]string{
		"Devices": unless(reflect.DeepEqual(r.Devices, denyAll), "must deny all but the runtime's own"),
		"Memory":  memoryFault(r.Memory),
		"CPU": unless(r.CPU != nil && r.CPU.Quota != nil && *r.CPU.Quota > 0 && r.CPU.Period != nil && *r.CPU.Period > 0 &&
			reflect.DeepEqual(*r.CPU, specs.LinuxCPU{Quota: r.CPU.Quota, Period: r.CPU.Period}), "must be bounded"),
		"Pids": unless(r.Pids != nil && r.Pids.Limit != nil && *r.Pids.Limit > 0, "must be bounded"),
	}
}

func memoryFault(m *specs.LinuxMemory) string {
	switch {
	case m == nil || m.Limit == nil || *m.Limit <= 0:
		return "must be bounded"
	case m.Swap != nil && *m.Swap != *m.Limit:
		return "must bound memory and swap together"
	case !reflect.DeepEqual(*m, specs.LinuxMemory{Limit: m.Limit, Swap: m.Swap}):
		return "has a further setting"
	}
	return ""
}

func holdsAll(have, need []string) bool {
	return !slices.ContainsFunc(need, func(n string) bool { return !slices.Contains(have, n) })
}
