package docker

import (
	"context"
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/agentproto"
	"github.com/sandboxd/sandboxd/sandbox/cgroup"
)

// cgroups is what the driver needs of the machine's cgroups: a directory for
// each run in every hierarchy.
type cgroups interface {
	Create(run string) error
	Destroy(ctx context.Context, run string) error
	Path(run string) string
	Dirs(run string) cgroup.Dirs
	Runs() ([]string, error)
}

// openCgroups opens the owner's tree where the engine is on this machine and
// takes a plain directory as a parent. The systemd driver wants a slice, which
// is systemd's to make. why is for people where there is no tree.
func openCgroups(about aboutEngine, owner string) (tree cgroups, why string) {
	if about.cgroupDriver != "cgroupfs" {
		return nil, "the engine keeps its cgroups through " + about.cgroupDriver + " and hands none to a box: commands are killed by walking their process tree"
	}
	t, err := cgroup.Open(owner)
	if err != nil {
		return nil, "this machine's cgroups cannot be used (" + err.Error() + "): commands are killed by walking their process tree"
	}
	return t, ""
}

// cgroup makes the run's cgroup, for the container to be created in and for its
// agent to make one for each command.
func (m *making) cgroup() error {
	tree, run := m.driver.cgroups, m.spec.RunID
	if tree == nil {
		m.degraded = append(m.degraded, m.driver.noCgroups)
		return nil
	}
	switch err := tree.Create(run); {
	case errors.Is(err, unix.EROFS), errors.Is(err, fs.ErrPermission):
		// A service in a container sees the cgroups, but not to write.
		m.degraded = append(m.degraded, "this machine's cgroups are not the service's to write: commands are killed by walking their process tree")
		return nil
	case err != nil:
		return err
	}
	m.undo.push(func(ctx context.Context) error { return tree.Destroy(ctx, run) })
	dirs := tree.Dirs(run)
	m.plan.cgroupParent = tree.Path(run)
	m.plan.cgroups = map[string]string{agentproto.Cgroup2Mount: dirs.Unified, agentproto.PidsMount: dirs.Pids}
	return nil
}
