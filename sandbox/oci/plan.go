package oci

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/seccomp"
)

// Where things are in a box; those of the agent are in its launch contract.
const (
	homeTarget = "/home/sandbox"
	scratch    = "/tmp"
)

// commandUser is the uid and gid of commands.
const commandUser = 1000

// HostImage is the image of a box whose spec names none: the machine's own
// programs.
const HostImage = "host"

// containerName is what the container's own cgroup is called, below its run's.
const containerName = "box"

// minMemory and minPids are what the agent itself needs to stay alive.
const (
	minMemory = 16 << 20
	minPids   = 32
)

// complete fills in the defaults of a spec and refuses what no box can be made
// from. Policy (which images, which host directories) was the caller's.
func complete(spec sandbox.Spec, defaultRuntime string) (sandbox.Spec, error) {
	if !idPattern().MatchString(spec.RunID) {
		return spec, invalid("a run id is 1 to 64 letters, digits, - and _, not %q", spec.RunID)
	}
	spec.Image = cmp.Or(spec.Image, HostImage)
	spec.Seccomp = cmp.Or(spec.Seccomp, seccomp.Strict)
	spec.Runtime = cmp.Or(spec.Runtime, defaultRuntime)
	spec.Workspace.Path = cmp.Or(spec.Workspace.Path, sandbox.DefaultWorkspacePath)
	if _, err := seccomp.Container(spec.Seccomp); err != nil {
		return spec, invalid("%v", err)
	}
	limits, err := completeLimits(spec.Limits)
	if err != nil {
		return spec, err
	}
	spec.Limits = limits
	return spec, checkTargets(spec)
}

func completeLimits(l sandbox.Limits) (sandbox.Limits, error) {
	def := sandbox.DefaultLimits()
	l = sandbox.Limits{
		CPUs:         cmp.Or(l.CPUs, def.CPUs),
		MemoryBytes:  cmp.Or(l.MemoryBytes, def.MemoryBytes),
		Pids:         cmp.Or(l.Pids, def.Pids),
		DiskBytes:    cmp.Or(l.DiskBytes, def.DiskBytes),
		FileBytes:    cmp.Or(l.FileBytes, def.FileBytes),
		OpenFiles:    cmp.Or(l.OpenFiles, def.OpenFiles),
		ScratchBytes: cmp.Or(l.ScratchBytes, def.ScratchBytes),
		Commands:     cmp.Or(l.Commands, def.Commands),
	}
	switch {
	case l.CPUs < 0.01:
		return l, invalid("a box needs at least 0.01 CPUs, not %v", l.CPUs)
	case l.MemoryBytes < minMemory:
		return l, invalid("a box needs at least %d bytes of memory, not %d", minMemory, l.MemoryBytes)
	case l.Pids < minPids:
		return l, invalid("a box needs a pids limit of at least %d, not %d", minPids, l.Pids)
	case l.FileBytes < 0 || l.OpenFiles < 16 || l.ScratchBytes < 0 || l.DiskBytes < 0 || l.Commands < 0:
		return l, invalid("a limit of the box is too small: %+v", l)
	}
	return l, nil
}

// checkTargets refuses a workspace or mount over a part of the system, with a
// sentence for the person who asked; AssertHardened would refuse it too.
func checkTargets(spec sandbox.Spec) error {
	taken := map[string]bool{scratch: true, homeTarget: true}
	paths := []string{spec.Workspace.Path}
	for _, m := range spec.Mounts {
		if !path.IsAbs(m.Source) {
			return invalid("the source of a mount is an absolute path, not %q", m.Source)
		}
		paths = append(paths, m.Target)
	}
	for _, p := range paths {
		switch {
		case !path.IsAbs(p) || path.Clean(p) != p || strings.ContainsRune(p, 0):
			return invalid("a place in the box is a clean absolute path, not %q", p)
		case systemTarget(p):
			return invalid("nothing can be mounted over %q, which is a part of the system", p)
		case taken[p]:
			return invalid("two things would be mounted at %q", p)
		}
		taken[p] = true
	}
	return nil
}

// checkSources refuses host directories that would show the service's own data,
// or that are not the ones that the caller allowed: a link could be turned
// after it was looked at.
func checkSources(spec sandbox.Spec, dataDir string) error {
	var sources []string
	if spec.Workspace.HostDir != "" {
		sources = append(sources, spec.Workspace.HostDir)
	}
	for _, m := range spec.Mounts {
		sources = append(sources, m.Source)
	}
	for _, s := range sources {
		real, err := filepath.EvalSymlinks(s)
		switch {
		case err != nil:
			return &sandbox.Error{Kind: sandbox.KindInvalid, Message: fmt.Sprintf("the directory %q cannot be put into a box: it does not exist or cannot be reached", s), Cause: err}
		case real != s:
			return invalid("the directory %q cannot be put into a box: give its path without links and dots", s)
		case reaches(s, []string{dataDir}) != "":
			return invalid("the directory %q cannot be put into a box: it shows the service's own data", s)
		}
	}
	return nil
}

// places are where in its root a box has the caller's mounts. Those inside one
// another are made by the runtime, in what is mounted there.
func places(spec sandbox.Spec) []string {
	all := []string{spec.Workspace.Path}
	for _, m := range spec.Mounts {
		all = append(all, m.Target)
	}
	inside := func(p string) bool {
		return slices.ContainsFunc(append([]string{homeTarget, scratch}, all...), func(o string) bool { return o != p && under(p, o) })
	}
	all = slices.DeleteFunc(slices.Clone(all), inside)
	slices.Sort(all)
	return all
}

// systemTargets are places in the box that no mount of a caller may cover: what
// the agent and the loader trust, and what the runtime mounts.
func systemTargets() []string {
	return []string{"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/root", "/run", "/sbin", "/sys", "/usr"}
}

// systemTarget tells whether a mount at p would hide a part of the system: at
// such a place, below it, or above it.
func systemTarget(p string) bool {
	for _, t := range systemTargets() {
		if under(p, t) || under(t, p) {
			return true
		}
	}
	return p != homeTarget && under(homeTarget, p)
}

// under tells whether p is dir or below it; both are clean.
func under(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}

func invalid(format string, args ...any) error {
	return &sandbox.Error{Kind: sandbox.KindInvalid, Message: fmt.Sprintf(format, args...)}
}

func unavailable(message string, cause error) error {
	return &sandbox.Error{Kind: sandbox.KindUnavailable, Message: message, Cause: cause}
}
