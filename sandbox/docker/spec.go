package docker

import (
	"cmp"
	"fmt"
	"path"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/seccomp"
)

// isID tells whether s may become part of a container's, a directory's and a
// cgroup's name: 1 to 64 letters, digits, dashes and underscores.
func isID(s string) bool {
	for i, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || c != '-' && c != '_') {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= 64
}

// complete fills in the defaults of a spec and refuses what no box can be made
// from. Policy (which images, which host directories) was the caller's.
func complete(spec sandbox.Spec, defaultRuntime string) (sandbox.Spec, error) {
	if !isID(spec.RunID) {
		return spec, invalid("a run id is 1 to 64 letters, digits, - and _, not %q", spec.RunID)
	}
	spec.Image = cmp.Or(spec.Image, DefaultImage)
	spec.Seccomp = cmp.Or(spec.Seccomp, "strict")
	spec.Runtime = cmp.Or(spec.Runtime, defaultRuntime)
	spec.Workspace.Path = cmp.Or(spec.Workspace.Path, sandbox.DefaultWorkspacePath)
	if _, err := seccomp.Profile(spec.Seccomp); err != nil {
		return spec, invalid("%v", err)
	}
	limits, err := completeLimits(spec.Limits)
	if err != nil {
		return spec, err
	}
	spec.Limits = limits
	return spec, checkTargets(spec)
}

// minMemory and minPids are what the agent itself needs to stay alive.
const (
	minMemory = 16 << 20
	minPids   = 32
)

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
	targets := map[string]bool{scratch: true, homeTarget: true}
	paths := []string{spec.Workspace.Path}
	for _, m := range spec.Mounts {
		if !path.IsAbs(m.Source) {
			return invalid("the source of a mount is an absolute path, not %q", m.Source)
		}
		paths = append(paths, m.Target)
	}
	for _, p := range paths {
		switch {
		case !path.IsAbs(p) || path.Clean(p) != p:
			return invalid("a place in the box is a clean absolute path, not %q", p)
		case systemTarget(p):
			return invalid("nothing can be mounted over %q, which is a part of the system", p)
		case targets[p]:
			return invalid("two things would be mounted at %q", p)
		}
		targets[p] = true
	}
	return nil
}

func invalid(format string, args ...any) error {
	return &sandbox.Error{Kind: sandbox.KindInvalid, Message: fmt.Sprintf(format, args...)}
}

func unavailable(message string, cause error) error {
	return &sandbox.Error{Kind: sandbox.KindUnavailable, Message: message, Cause: cause}
}
