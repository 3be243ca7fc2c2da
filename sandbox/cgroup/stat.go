package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/containerd/cgroups/v3/cgroup1"
	"github.com/containerd/cgroups/v3/cgroup2"
)

// Usage is what a cgroup with all its descendants has used. OOMKills alone
// counts the very cgroup: on v1 the kernel does not add up its descendants'.
type Usage struct {
	CPU         time.Duration
	MemoryBytes uint64
	Pids        uint64
	OOMKills    uint64
}

// Stat reads the cgroup of a container below a run's directory, or the run's
// own where container is "". A cgroup that does not exist is fs.ErrNotExist.
func (t *Tree) Stat(run, container string) (Usage, error) {
	for _, name := range []string{run, container} {
		if name != "" && !namePattern().MatchString(name) {
			return Usage{}, fmt.Errorf("cgroup: %q cannot be the name of a run or container", name)
		}
	}
	group := path.Join(t.Path(run), container)
	if t.mode == V2 {
		return statV2(t.unified, group)
	}
	return statV1(group)
}

func statV1(group string) (Usage, error) {
	cg, err := cgroup1.Load(cgroup1.StaticPath(group), cgroup1.WithHierarchy(measured))
	if errors.Is(err, cgroup1.ErrCgroupDeleted) {
		return Usage{}, fmt.Errorf("cgroup: %s: %w", group, fs.ErrNotExist)
	}
	if err != nil {
		return Usage{}, err
	}
	m, err := cg.Stat()
	if err != nil {
		return Usage{}, err
	}
	return Usage{
		CPU:         time.Duration(m.GetCPU().GetUsage().GetTotal()),
		MemoryBytes: m.GetMemory().GetUsage().GetUsage(),
		Pids:        m.GetPids().GetCurrent(),
		OOMKills:    m.GetMemoryOomControl().GetOomKill(),
	}, nil
}

// measured leaves out the hierarchies that Usage does not speak of.
func measured() ([]cgroup1.Subsystem, error) {
	all, err := cgroup1.Default()
	return slices.DeleteFunc(all, func(s cgroup1.Subsystem) bool {
		return s.Name() != cgroup1.Cpuacct && s.Name() != cgroup1.Memory && s.Name() != cgroup1.Pids
	}), err
}

func statV2(mount, group string) (Usage, error) {
	m, err := cgroup2.Load(group, cgroup2.WithMountpoint(mount))
	if err != nil {
		return Usage{}, err
	}
	if _, err := m.Controllers(); err != nil {
		return Usage{}, err
	}
	s, err := m.StatFiltered(cgroup2.StatCPU | cgroup2.StatMemory | cgroup2.StatMemoryEvents | cgroup2.StatPids)
	if err != nil {
		return Usage{}, err
	}
	return Usage{
		CPU:         time.Duration(s.GetCPU().GetUsageUsec()) * time.Microsecond,
		MemoryBytes: s.GetMemory().GetUsage(),
		Pids:        s.GetPids().GetCurrent(),
		OOMKills:    s.GetMemoryEvents().GetOomKill(),
	}, nil
}

// OOMFile is the file below one of the run's Dirs whose line "oom_kill" counts
// a container's processes that were killed for memory: v1's memory.oom_control
// or v2's memory.events. It is relative to that directory, whose field of Dirs
// is Memory or, on v2, Unified.
func (t *Tree) OOMFile(container string) string {
	if t.mode == V2 {
		return filepath.Join(container, "memory.events")
	}
	return filepath.Join(container, "memory.oom_control")
}
