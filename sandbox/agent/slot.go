package agent

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// slots are the places in which commands run side by side.
type slots struct {
	box  *box
	free chan *slot
	all  []*slot
	pids int64 // limit of one command, 0 if none is set
	mark bool  // commands can be marked by a group
	// first is the first of the groups that mark commands.
	first int
}

// slot is a thread, with its cgroups, for one command at a time.
type slot struct {
	slots *slots
	index int
	jobs  chan func()
	pids  *pidsGroup // v1; nil if none

	group *group // cgroup2; nil if none
	made  int    // groups made so far
	gid   int    // the marker in use
	kept  map[int]bool
}

// newSlots makes the slots with the strongest means that the box has, and
// fills in the welcome.
func newSlots(b *box) (*slots, error) {
	s := &slots{box: b, free: make(chan *slot, b.cfg.Commands), first: firstMarker(b.outside)}
	pids, err := pidsShare(b.cfg.BoxPids, b.cfg.PidsPerCommand, b.cfg.Commands)
	if err != nil {
		return nil, err
	}
	v2pids := b.cfg.Cgroup2Dir != "" && delegatePids(b.cfg.Cgroup2Dir)
	if b.cfg.PidsCgroupDir != "" || v2pids {
		s.pids = pids
	}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.mark = b.cfg.Cgroup2Dir == "" && canMark(s.first)
	s.describe(v2pids)
	return s, nil
}

// open opens all slots side by side: each waits for the kernel to move its
// thread into a cgroup.
func (s *slots) open() error {
	opened := make([]error, s.box.cfg.Commands)
	var wait sync.WaitGroup
	for i := range opened {
		sl := &slot{slots: s, index: i, jobs: make(chan func()), kept: map[int]bool{}}
		s.all = append(s.all, sl)
		wait.Go(func() { opened[i] = sl.open() })
	}
	wait.Wait()
	for _, sl := range s.all {
		s.free <- sl
	}
	return errors.Join(opened...)
}

func (s *slots) describe(v2pids bool) {
	b := s.box
	w := &b.welcome
	w.PidsPerCommand = s.pids
	switch {
	case b.cfg.Cgroup2Dir != "" && b.cfg.PidsCgroupDir != "":
		w.CgroupMode, w.KillStep = "hybrid", "cgroup.kill"
	case b.cfg.Cgroup2Dir != "":
		w.CgroupMode, w.KillStep = "cgroup2", "cgroup.kill"
	case b.cfg.PidsCgroupDir != "":
		w.CgroupMode, w.KillStep = "pids-v1", "stop-walk"
	default:
		w.CgroupMode, w.KillStep = "none", "stop-walk"
	}
	if b.cfg.PidsCgroupDir == "" && !v2pids {
		b.degrade("The pids limit is shared: a command that uses it up takes the box with it.")
	}
	if b.cfg.Cgroup2Dir == "" && !s.mark {
		b.degrade("Commands are told apart by session and descent only: a daemon may outlive its command.")
	}
}

// open makes the slot's thread and cgroups.
func (sl *slot) open() error {
	cfg := sl.slots.box.cfg
	if cfg.PidsCgroupDir != "" {
		var err error
		if sl.pids, err = newPidsGroup(cfg.PidsCgroupDir, sl.index, sl.slots.pids); err != nil {
			return err
		}
	}
	ready := make(chan error)
	go sl.run(ready)
	if err := <-ready; err != nil {
		return err
	}
	return sl.freshGroup()
}

// run is the slot's thread: what it clones is its own child and inherits its
// pids group.
func (sl *slot) run(ready chan<- error) {
	runtime.LockOSThread() // never unlocked: the thread has joined a cgroup
	if sl.pids != nil {
		if err := sl.pids.join(); err != nil {
			ready <- err
			return
		}
	}
	ready <- nil
	for job := range sl.jobs {
		job()
	}
}

// freshGroup gives the slot a cgroup2 directory that may be cloned into.
func (sl *slot) freshGroup() error {
	dir := sl.slots.box.cfg.Cgroup2Dir
	if dir == "" {
		return nil
	}
	if sl.group != nil && !sl.group.killed && sl.group.empty() {
		return nil
	}
	if sl.group != nil {
		// With children that were to be kept it stays, and goes with the box.
		_ = sl.group.remove()
		sl.group = nil
	}
	sl.made++
	g, err := newGroup(fmt.Sprintf("%s/cmd-%d-%d", dir, sl.index, sl.made))
	if err != nil {
		return err
	}
	sl.group = g
	if sl.pids == nil && sl.slots.pids > 0 {
		return os.WriteFile(g.path+"/pids.max", []byte(strconv.FormatInt(sl.slots.pids, 10)), 0)
	}
	return nil
}

// refusals returns the counter of forks that the pids limit refused.
func (sl *slot) refusals() int64 {
	switch {
	case sl.pids != nil:
		return counter{sl.pids.events, "max "}.read()
	case sl.group != nil && sl.slots.pids > 0:
		f, err := os.Open(sl.group.path + "/pids.events")
		if err != nil {
			return 0
		}
		defer f.Close()
		return counter{f, "max "}.read()
	}
	return 0
}

// boxMarkers begins the groups that mark commands in a box: below 65536, which
// is as far as user namespaces usually map, and above what distributions give
// out. The box's pid namespace keeps them apart from other boxes'. An agent
// outside any container sees all processes of the machine, and so begins at
// random, from outsideMarkers on.
const (
	boxMarkers     = 62000
	markers        = 3000
	outsideMarkers = 1 << 28
)

func firstMarker(outside bool) int {
	if outside {
		return outsideMarkers + rand.IntN(outsideMarkers)*4 //nolint:gosec // kept apart, not kept secret
	}
	return boxMarkers
}

// marker returns the next group of this slot that no kept child carries.
func (sl *slot) marker() int {
	first, step := sl.slots.first, sl.slots.box.cfg.Commands
	for range markers / step {
		sl.gid += step
		if sl.gid < first || sl.gid >= first+markers {
			sl.gid = first + sl.index
		}
		if sl.kept[sl.gid] && (&marked{gid: sl.gid}).empty() {
			delete(sl.kept, sl.gid)
		}
		if !sl.kept[sl.gid] {
			break
		}
	}
	return sl.gid
}

// canMark tries a marker on a thread of its own.
func canMark(gid int) bool {
	ok := make(chan bool)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread's groups are changed
		ok <- setgroups([]uint32{uint32(gid)}) == nil
	}()
	return <-ok
}

func (s *slots) close() error {
	var errs []error
	for _, sl := range s.all {
		close(sl.jobs)
		if sl.group != nil {
			if err := sl.group.remove(); err != nil && !errors.Is(err, unix.ENOENT) {
				errs = append(errs, err)
			}
		}
		if sl.pids != nil {
			sl.pids.close()
		}
	}
	return errors.Join(errs...)
}
