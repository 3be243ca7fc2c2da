package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/containerd/cgroups/v3"
	"github.com/containerd/cgroups/v3/cgroup1"
	"github.com/containerd/cgroups/v3/cgroup2"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// Mode is the machine's layout of cgroups.
type Mode string

// The layouts. In Hybrid the cgroup2 tree has no controllers.
const (
	V1     Mode = "v1"
	Hybrid Mode = "hybrid"
	V2     Mode = "v2"
)

// mountPoint is where cgroups are mounted on every supported machine.
const mountPoint = "/sys/fs/cgroup"

// A Tree is one owner's directory in every hierarchy. It is safe for
// concurrent use.
type Tree struct {
	mode Mode
	// root is the owner's directory as a cgroup path.
	root string
	// v1 holds the mount points of the v1 hierarchies by controller.
	v1 map[cgroup1.Name]string
	// unified is the mount point of the cgroup2 tree, "" in mode V1.
	unified string
}

// namePattern is what owners, runs and containers are called; it leaves out
// the separators and the names of the kernel's own files (a dot is needed for
// those, but not at the front).
func namePattern() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`) }

// Open finds the machine's layout and returns the owner's tree. Nothing is
// made yet. An owner is 1 to 128 letters, digits, "-" and "_".
func Open(owner string) (*Tree, error) {
	if !namePattern().MatchString(owner) {
		return nil, fmt.Errorf("cgroup: %q cannot be the name of an owner", owner)
	}
	t := &Tree{root: "/sandboxd-" + owner}
	switch cgroups.Mode() {
	case cgroups.Unified:
		t.mode, t.unified = V2, mountPoint
	case cgroups.Hybrid:
		t.mode, t.unified = Hybrid, filepath.Join(mountPoint, "unified")
	case cgroups.Legacy:
		t.mode = V1
	default:
		return nil, fmt.Errorf("cgroup: nothing is mounted at %s; mount the cgroup file system there", mountPoint)
	}
	if t.mode == V2 {
		return t, t.nestIfNeeded()
	}
	return t, t.findV1()
}

// findV1 asks the library which controllers have a hierarchy.
func (t *Tree) findV1() error {
	subsystems, err := cgroup1.Default()
	if err != nil {
		return err
	}
	t.v1 = map[cgroup1.Name]string{}
	for _, s := range subsystems {
		if p, ok := s.(interface{ Path(string) string }); ok {
			t.v1[s.Name()] = filepath.Clean(p.Path("/"))
		}
	}
	return nil
}

// nestIfNeeded moves the owner's directory below the service's own cgroup where
// the root of the tree is not the service's to change (a delegated subtree).
func (t *Tree) nestIfNeeded() error {
	if unix.Access(t.unified, unix.W_OK) == nil {
		return nil
	}
	_, own, err := cgroups.ParseCgroupFileUnified("/proc/self/cgroup")
	if err != nil {
		return err
	}
	t.root = path.Join("/", own, t.root)
	return nil
}

// Mode is the machine's layout.
func (t *Tree) Mode() Mode { return t.mode }

// Path is the run's cgroup as a path from the hierarchies' roots, the way
// engines and runtimes want it.
func (t *Tree) Path(run string) string { return path.Join(t.root, run) }

// Create makes the run's directory in every hierarchy. It may exist. On error
// what was made is removed again.
func (t *Tree) Create(run string) error {
	if !namePattern().MatchString(run) {
		return fmt.Errorf("cgroup: %q cannot be the name of a run", run)
	}
	var err error
	// The removal of the owner's last run takes the owner's directory along and
	// may come between the two mkdirs here.
	for range 3 {
		if err = t.create(t.Path(run)); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return errors.Join(fmt.Errorf("cgroup: make %s: %w", t.Path(run), err), t.rmdir(run))
	}
	return nil
}

func (t *Tree) create(group string) error {
	if t.mode != V2 {
		// The library copies cpuset.cpus and cpuset.mems from the parent,
		// without which no process may enter.
		if _, err := cgroup1.New(cgroup1.StaticPath(group), &specs.LinuxResources{}); err != nil {
			return err
		}
	}
	if t.unified == "" {
		return nil
	}
	m, err := cgroup2.NewManager(t.unified, group, &cgroup2.Resources{})
	if err != nil || t.mode == Hybrid {
		return err
	}
	return delegate(m)
}

// delegate hands the controllers that boxes need down to the run's directory.
func delegate(m *cgroup2.Manager) error {
	there, err := m.RootControllers()
	if err != nil {
		return err
	}
	var wanted []string
	for _, c := range []string{"cpu", "cpuset", "io", "memory", "pids"} {
		if slices.Contains(there, c) {
			wanted = append(wanted, c)
		}
	}
	return m.ToggleControllers(wanted, cgroup2.Enable)
}

// Dirs are the host's directories of a run that a box may be given. An empty
// one does not exist on this machine.
type Dirs struct {
	// Unified is in the cgroup2 tree: command cgroups and cgroup.kill.
	Unified string
	// Pids is in the v1 pids hierarchy; on v2 Unified has that controller.
	Pids string
	// Memory is in the v1 memory hierarchy; on v2 Unified has that controller.
	Memory string
}

// Dirs returns where the run's directories are; Create makes them.
func (t *Tree) Dirs(run string) Dirs {
	d := Dirs{Pids: t.v1Dir(cgroup1.Pids, run), Memory: t.v1Dir(cgroup1.Memory, run)}
	if t.unified != "" {
		d.Unified = filepath.Join(t.unified, t.Path(run))
	}
	return d
}

func (t *Tree) v1Dir(name cgroup1.Name, run string) string {
	mount, ok := t.v1[name]
	if !ok {
		return ""
	}
	return filepath.Join(mount, t.Path(run))
}

// dirs lists the run's directory ("" for the owner's) in every hierarchy, the
// cgroup2 tree first.
func (t *Tree) dirs(run string) []string {
	var all []string
	if t.unified != "" {
		all = append(all, filepath.Join(t.unified, t.Path(run)))
	}
	for _, mount := range t.v1 {
		all = append(all, filepath.Join(mount, t.Path(run)))
	}
	return all
}

// Runs lists the runs that have a directory in any hierarchy, sorted.
func (t *Tree) Runs() ([]string, error) {
	var runs []string
	for _, dir := range t.dirs("") {
		entries, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.IsDir() {
				runs = append(runs, e.Name())
			}
		}
	}
	slices.Sort(runs)
	return slices.Compact(runs), nil
}

// CountsSwap tells whether the kernel counts swap, so that a limit for memory
// and swap together can be set. The run's directories exist.
func (t *Tree) CountsSwap(run string) bool {
	d := t.Dirs(run)
	file := filepath.Join(d.Memory, "memory.memsw.limit_in_bytes")
	if t.mode == V2 {
		file = filepath.Join(d.Unified, "memory.swap.max")
	}
	_, err := os.Stat(file)
	return err == nil
}
