package agent

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// group is one cgroup2 directory for the processes of one command at a time.
type group struct {
	path   string
	dir    *os.File // what clone3 takes
	events *os.File // cgroup.events
	// killed: cgroup.kill has been written. The kernel then kills whatever is
	// cloned into the group later, so it must not be used again.
	killed bool
}

func newGroup(path string) (*group, error) {
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	g := &group{path: path}
	var err error
	if g.dir, err = os.OpenFile(path, unix.O_DIRECTORY|os.O_RDONLY, 0); err != nil {
		return nil, err
	}
	if g.events, err = os.Open(path + "/cgroup.events"); err != nil {
		_ = g.dir.Close()
		return nil, err
	}
	return g, nil
}

func (g *group) empty() bool { return counter{g.events, "populated "}.read() == 0 }

func (g *group) members() []int {
	data, err := os.ReadFile(g.path + "/cgroup.procs")
	if err != nil {
		return nil
	}
	var pids []int
	for field := range strings.FieldsSeq(string(data)) {
		// 0 stands for a process of another pid namespace: none of ours.
		if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// await waits until the group is empty, until the time, or until wake (an
// eventfd) is written to. It tells whether the group is empty.
func (g *group) await(until time.Time, wake int) bool {
	for !g.empty() {
		if !pollOne(int(g.events.Fd()), unix.POLLPRI, wake, until) {
			return g.empty()
		}
	}
	return true
}

// kill kills all members. It needs no fork and no walk.
func (g *group) kill() (step string, err error) {
	if err := os.WriteFile(g.path+"/cgroup.kill", []byte("1"), 0); err != nil {
		return "", fmt.Errorf("cgroup.kill: %w", err)
	}
	g.killed = true
	return "cgroup.kill", nil
}

// remove gives the group up; the directory stays as long as it has members.
func (g *group) remove() error {
	_ = g.dir.Close()
	_ = g.events.Close()
	return unix.Rmdir(g.path)
}

// pollOne waits for an event on fd. False means that the time is over or that
// wake was written to. wake -1 is none.
func pollOne(fd int, events int16, wake int, until time.Time) bool {
	for {
		left := time.Until(until)
		if left <= 0 {
			return false
		}
		fds := []unix.PollFd{{Fd: int32(fd), Events: events}, {Fd: int32(wake), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(left.Milliseconds())+1)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil || fds[1].Revents != 0:
			return false
		case n > 0:
			return true
		}
	}
}
