package sandbox

import (
	"cmp"
	"fmt"
	"path"
	"strings"
)

// What the agent itself needs to stay alive.
const (
	minMemoryBytes = 16 << 20
	minPids        = 32
)

// Settle fills in the defaults of a spec, with the driver's own image and
// runtime, and refuses what no box can be made from (KindInvalid). Policy, such
// as which images and host directories, was the caller's; what the driver alone
// knows, such as the names of seccomp profiles, is the driver's.
func (s Spec) Settle(image, runtime string) (Spec, error) {
	if !ValidName(s.RunID) {
		return s, Invalidf("a run id is 1 to 64 letters, digits, - and _, not %q", s.RunID)
	}
	s.Image = cmp.Or(s.Image, image)
	s.Seccomp = cmp.Or(s.Seccomp, "strict")
	s.Runtime = cmp.Or(s.Runtime, runtime)
	s.Workspace.Path = cmp.Or(s.Workspace.Path, DefaultWorkspacePath)
	var err error
	if s.Limits, err = s.Limits.settle(); err != nil {
		return s, err
	}
	return s, s.checkTargets()
}

// ValidName tells whether s may become part of a container's, a directory's and
// a cgroup's name: 1 to 64 letters, digits, dashes and underscores, of which
// the first is a letter or a digit.
func ValidName(s string) bool {
	for i, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || c != '-' && c != '_') {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= 64
}

// Invalidf is an error of KindInvalid.
func Invalidf(format string, args ...any) error {
	return &Error{Kind: KindInvalid, Message: fmt.Sprintf(format, args...)}
}

func (l Limits) settle() (Limits, error) {
	def := DefaultLimits()
	l = Limits{
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
		return l, Invalidf("a box needs at least 0.01 CPUs, not %v", l.CPUs)
	case l.MemoryBytes < minMemoryBytes:
		return l, Invalidf("a box needs at least %d bytes of memory, not %d", minMemoryBytes, l.MemoryBytes)
	case l.Pids < minPids:
		return l, Invalidf("a box needs a pids limit of at least %d, not %d", minPids, l.Pids)
	case l.FileBytes < 0 || l.OpenFiles < 16 || l.ScratchBytes < 0 || l.DiskBytes < 0 || l.Commands < 0:
		return l, Invalidf("a limit of the box is too small: %+v", l)
	}
	return l, nil
}

// checkTargets refuses a workspace or mount over a part of the system, with a
// sentence for the person who asked; AssertHardened would refuse it too.
func (s Spec) checkTargets() error {
	taken := map[string]bool{ScratchPath: true, HomePath: true}
	paths := []string{s.Workspace.Path}
	for _, m := range s.Mounts {
		if !path.IsAbs(m.Source) {
			return Invalidf("the source of a mount is an absolute path, not %q", m.Source)
		}
		paths = append(paths, m.Target)
	}
	for _, p := range paths {
		switch {
		case !path.IsAbs(p) || path.Clean(p) != p || strings.ContainsRune(p, 0):
			return Invalidf("a place in the box is a clean absolute path, not %q", p)
		case SystemPath(p):
			return Invalidf("nothing can be mounted over %q, which is a part of the system", p)
		case taken[p]:
			return Invalidf("two things would be mounted at %q", p)
		}
		taken[p] = true
	}
	return nil
}
