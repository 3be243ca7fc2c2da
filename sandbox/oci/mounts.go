package oci

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/agentproto"
)

// forbiddenSources are host paths that no bind may show, neither themselves nor
// through a directory above or below them.
func forbiddenSources() []string {
	return []string{
		"/boot", "/dev", "/etc", "/proc", "/root/.docker", "/root/.ssh", "/run", "/sys",
		"/var/lib/containerd", "/var/lib/docker", "/var/lib/kubelet", "/var/run",
	}
}

// reaches returns the first of the forbidden paths that a bind of source would
// show, or "".
func reaches(source string, forbidden []string) string {
	for _, f := range forbidden {
		if sandbox.Under(source, f) || sandbox.Under(f, source) {
			return f
		}
	}
	return ""
}

// controlSockets give whoever reaches them the machine.
func controlSockets() []string {
	return []string{"docker.sock", "containerd.sock", "podman.sock", "crio.sock"}
}

// checkMounts applies the rules of mounts: a fixed list of what is not a bind,
// binds from allowed places only, and every part of a box present.
func checkMounts(spec *specs.Spec, forbidden []string) error {
	seen := map[string]bool{}
	for i, m := range spec.Mounts {
		fault := mountFault(m, spec.Linux.CgroupsPath, forbidden)
		if seen[m.Destination] {
			fault = "is there twice"
		}
		// A mount above an earlier one would hide it.
		for earlier := range seen {
			if sandbox.Under(earlier, m.Destination) && fault == "" {
				fault = "hides " + earlier
			}
		}
		if m.Destination == agentproto.FillMount && !shownReadOnly(spec.Mounts, m.Source) {
			fault = "is a way into something that is not a read-only mount of the box"
		}
		if fault != "" {
			return &NotHardenedError{fmt.Sprintf("mounts[%d] at %q", i, m.Destination), fault}
		}
		seen[m.Destination] = true
	}
	for _, need := range []string{"/proc", "/dev", "/sys", sandbox.ScratchPath, sandbox.HomePath, agentproto.Dir, agentproto.AgentPath} {
		if !seen[need] {
			return &NotHardenedError{"mounts", "lack " + need}
		}
	}
	return nil
}

// shownReadOnly tells whether the box has source as a read-only mount.
func shownReadOnly(mounts []specs.Mount, source string) bool {
	return slices.ContainsFunc(mounts, func(m specs.Mount) bool {
		return m.Source == source && m.Destination != agentproto.FillMount && slices.Contains(m.Options, "ro")
	})
}

// mountFault says what is wrong with one mount, or "".
func mountFault(m specs.Mount, cgroup string, forbidden []string) string {
	if !path.IsAbs(m.Destination) || path.Clean(m.Destination) != m.Destination {
		return "is no clean absolute path"
	}
	if len(m.UIDMappings)+len(m.GIDMappings) > 0 {
		return "maps users"
	}
	if m.Type == "bind" {
		return bindFault(m, cgroup, forbidden)
	}
	need, ok := kernelMounts()[m.Destination]
	switch {
	case !ok || need.Type != m.Type:
		return fmt.Sprintf("is a %.20q that no box has there", m.Type)
	case !holdsAll(m.Options, need.Options):
		return fmt.Sprintf("lacks one of %v", need.Options)
	case m.Type == "tmpfs" && !bounded(m.Options, "size="):
		return "has no size"
	case m.Type == "tmpfs" && !bounded(m.Options, "nr_inodes="):
		return "has no bound of files"
	}
	return weakening(m.Options)
}

// kernelMounts are the mounts of a box that are not binds, with the options
// that they need.
func kernelMounts() map[string]specs.Mount {
	need := func(kind string, options ...string) specs.Mount { return specs.Mount{Type: kind, Options: options} }
	return map[string]specs.Mount{
		"/proc":             need("proc", "nosuid", "noexec", "nodev"),
		"/dev":              need("tmpfs", "nosuid", "noexec"),
		"/dev/pts":          need("devpts", "nosuid", "noexec", "newinstance"),
		"/dev/shm":          need("tmpfs", "nosuid", "noexec", "nodev"),
		"/sys":              need("sysfs", "nosuid", "noexec", "nodev", "ro"),
		"/sys/fs/cgroup":    need("cgroup", "nosuid", "noexec", "nodev", "ro"),
		sandbox.ScratchPath: need("tmpfs", "nosuid", "nodev"),
		sandbox.HomePath:    need("tmpfs", "nosuid", "nodev"),
	}
}

func bounded(options []string, by string) bool {
	return slices.ContainsFunc(options, func(o string) bool {
		n, ok := strings.CutPrefix(o, by)
		return ok && strings.Trim(n, "0") != ""
	})
}

// weakening finds options that take a protection back or share the mount.
func weakening(options []string) string {
	for _, o := range options {
		switch o {
		case "suid", "dev", "shared", "rshared", "slave", "rslave", "unbindable", "runbindable", "tmpcopyup", "idmap", "ridmap":
			return "has the option " + o
		}
	}
	if slices.Contains(options, "ro") && slices.Contains(options, "rw") {
		return "is both read-only and not"
	}
	return ""
}

func bindFault(m specs.Mount, cgroup string, forbidden []string) string {
	readOnly := slices.Contains(m.Options, "ro")
	switch {
	case !path.IsAbs(m.Source) || path.Clean(m.Source) != m.Source:
		return "has a source that is no clean absolute path"
	case !holdsAll(m.Options, []string{"nosuid", "nodev", "rprivate"}):
		return "lacks nosuid, nodev or rprivate"
	case weakening(m.Options) != "":
		return weakening(m.Options)
	case readOnly && slices.Contains(m.Options, "rbind"):
		return "is read-only at its top and not below"
	case slices.Contains(controlSockets(), path.Base(m.Source)):
		return "shows a control socket"
	}
	if m.Destination == agentproto.Cgroup2Mount || m.Destination == agentproto.PidsMount {
		return unless(ownCgroup(m.Source, cgroup), "shows another cgroup than this box's own")
	}
	if f := reaches(m.Source, forbidden); f != "" {
		return "reaches the host's " + f
	}
	return systemBindFault(m.Destination, readOnly)
}

// systemBindFault: parts of the system are read-only, and the agent's directory
// holds what the launch contract names.
func systemBindFault(target string, readOnly bool) string {
	switch {
	case target == agentproto.Dir, target == agentproto.FillMount:
		return ""
	case target == agentproto.AgentPath:
		return unless(readOnly, "lets the agent be changed")
	case sandbox.Under(target, "/run"), sandbox.Under(target, "/dev"), sandbox.Under(target, "/proc"), sandbox.Under(target, "/sys"), target == "/":
		return "is at a place that is not for binds"
	case sandbox.SystemPath(target):
		return unless(readOnly, "lets a part of the system be changed")
	}
	return ""
}

// ownCgroup tells whether source is, at the top of one hierarchy, the directory
// above the box's own cgroup.
func ownCgroup(source, cgroup string) bool {
	hierarchy, ok := strings.CutSuffix(source, path.Dir(cgroup))
	return ok && slices.Contains([]string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/pids"}, hierarchy)
}
