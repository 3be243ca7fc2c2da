package docker

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/agentproto"
)

// forbiddenSources are host paths that no bind may show, neither themselves nor
// through a directory above or below them.
func forbiddenSources() []string {
	return []string{
		"/boot", "/dev", "/etc", "/proc", "/run", "/sys", "/var/run",
		"/var/lib/docker", "/var/lib/containerd", "/var/lib/kubelet",
		"/root/.ssh", "/root/.docker",
	}
}

// socketNames are control sockets that give whoever reaches them the host.
func socketNames() []string {
	return []string{"docker.sock", "containerd.sock", "podman.sock", "crio.sock"}
}

// checkMounts applies the rules of binds and tmpfs mounts.
func checkMounts(host *container.HostConfig, forbidden []string) error {
	seen := map[string]bool{}
	for target := range host.Tmpfs {
		seen[target] = true
	}
	for _, m := range host.Mounts {
		if reason := mountReason(m, host.CgroupParent, append(forbiddenSources(), forbidden...)); reason != "" {
			return &NotHardenedError{"HostConfig.Mounts", fmt.Sprintf("at %q: %s", m.Target, reason)}
		}
		if seen[m.Target] {
			return &NotHardenedError{"HostConfig.Mounts", fmt.Sprintf("at %q: is there twice", m.Target)}
		}
		seen[m.Target] = true
	}
	return nil
}

// mountReason says what is wrong with one mount, or "".
func mountReason(m mount.Mount, cgroupParent string, forbidden []string) string {
	if !path.IsAbs(m.Target) || path.Clean(m.Target) != m.Target {
		return "the target is not a clean absolute path"
	}
	if m.VolumeOptions != nil && (m.VolumeOptions.DriverConfig != nil || m.VolumeOptions.Subpath != "") ||
		m.ImageOptions != nil || m.ClusterOptions != nil {
		return "it has options of a driver"
	}
	switch m.Type {
	case mount.TypeTmpfs:
		return tmpfsReason(m)
	case mount.TypeVolume:
		return volumeReason(m)
	case mount.TypeBind:
		return bindReason(m, cgroupParent, forbidden)
	}
	return fmt.Sprintf("a mount of type %q", m.Type)
}

// tmpfsReason: tmpfs mounts of this kind hide an image's own volumes.
func tmpfsReason(m mount.Mount) string {
	switch {
	case m.TmpfsOptions == nil || m.TmpfsOptions.SizeBytes <= 0:
		return "a tmpfs without a size"
	case len(m.TmpfsOptions.Options) > 0:
		return "a tmpfs with options"
	case sandbox.SystemPath(m.Target):
		return "it covers a part of the system"
	}
	return ""
}

// volumeReason: volumes carry the agent and the workspace where service and
// engine share no file system.
func volumeReason(m mount.Mount) string {
	switch {
	case m.Source == "" || strings.Contains(m.Source, "/"):
		return "a volume without a name"
	case underAny(m.Target, []string{agentproto.Dir}):
		return ownTargetReason(m, "")
	case sandbox.SystemPath(m.Target):
		return "it covers a part of the system"
	}
	return ""
}

func bindReason(m mount.Mount, cgroupParent string, forbidden []string) string {
	if !path.IsAbs(m.Source) || path.Clean(m.Source) != m.Source {
		return "the source is not a clean absolute path"
	}
	if o := m.BindOptions; o != nil {
		if o.Propagation != "" && o.Propagation != mount.PropagationRPrivate && o.Propagation != mount.PropagationPrivate {
			return "the mount is shared with the host"
		}
		if o.CreateMountpoint {
			return "the source may not be made by the engine"
		}
	}
	// A read-only bind leaves what is mounted below its source writable.
	if m.ReadOnly && (m.BindOptions == nil || !m.BindOptions.NonRecursive) {
		return "a read-only bind that takes along what is mounted below it"
	}
	if slices.Contains(socketNames(), path.Base(m.Source)) {
		return "the source is a control socket"
	}
	if underAny(m.Target, []string{agentproto.Dir}) {
		if reason := ownTargetReason(m, cgroupParent); reason != "" {
			return reason
		}
		if isCgroupTarget(m.Target) {
			return ""
		}
	} else if sandbox.SystemPath(m.Target) {
		return "it covers a part of the system"
	}
	for _, f := range forbidden {
		if f != "" && (sandbox.Under(m.Source, path.Clean(f)) || sandbox.Under(path.Clean(f), m.Source)) {
			return "the source reaches " + f
		}
	}
	return ""
}

// ownTargetReason checks the few mounts of the agent's own directory.
func ownTargetReason(m mount.Mount, cgroupParent string) string {
	switch {
	case m.Target == agentproto.AgentPath, m.Target == agentproto.Dir && m.Type == mount.TypeVolume:
		if !m.ReadOnly {
			return "the agent may not be writable"
		}
		return ""
	case m.Target == agentproto.Dir, m.Target == agentproto.FillMount:
		return ""
	case isCgroupTarget(m.Target) && m.Type == mount.TypeBind:
		return cgroupReason(m.Source, cgroupParent)
	}
	return "nothing is mounted there in a box"
}

// cgroupReason: only the tree of this very box may be handed in, from the top
// of one hierarchy.
func cgroupReason(source, parent string) string {
	hierarchy, ok := strings.CutSuffix(source, parent)
	if !ok || parent == "" || !sandbox.Under(hierarchy, "/sys/fs/cgroup") || strings.Count(hierarchy, "/") > strings.Count("/sys/fs/cgroup/pids", "/") {
		return "the source is not this box's cgroup"
	}
	return ""
}

func isCgroupTarget(target string) bool { return slices.Contains(cgroupTargets(), target) }

// cgroupParentOK tells whether the parent is the run's own directory; a service
// that may change only a part of the tree has it below its own cgroup.
func cgroupParentOK(parent string, labels map[string]string) bool {
	own := cgroupParent(labels[labelOwner], labels[labelRun])
	return parent == "" || path.Clean(parent) == parent && strings.HasPrefix(parent, "/") && strings.HasSuffix(parent, own)
}

func underAny(p string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return sandbox.Under(p, d) })
}
