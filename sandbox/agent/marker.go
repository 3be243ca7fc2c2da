package agent

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// marked is the processes of one command where there is no cgroup2: those that
// carry the command's own supplementary group (it is inherited and only root
// can shed it), or, where the agent may not give groups, the command's session
// and descendants.
type marked struct {
	gid   int // 0 is none
	root  int // the command's process
	known map[int]bool
	// freeze stops and allows forks of the slot, where that is possible.
	freeze func(stop bool)
}

// process is what /proc says of one.
type process struct {
	pid, parent, session int
	zombie               bool
}

func (m *marked) empty() bool { return len(m.members()) == 0 }

// members lists the living processes. The command's own may be a zombie that
// waits to be reaped; zombies do not count.
func (m *marked) members() []int {
	all := scan()
	if m.gid != 0 {
		var pids []int
		for _, p := range all {
			if !p.zombie && hasGroup(p.pid, m.gid) {
				pids = append(pids, p.pid)
			}
		}
		return pids
	}
	return m.descendants(all)
}

// descendants finds what comes from the root by session or by parent, now or
// at an earlier look. A process that left the session and whose parents ended
// between two looks is missed.
func (m *marked) descendants(all []process) []int {
	if m.known == nil {
		m.known = map[int]bool{m.root: true}
	}
	alive := map[int]bool{}
	for changed := true; changed; {
		changed = false
		for _, p := range all {
			if !alive[p.pid] && (m.known[p.pid] || m.known[p.parent] || m.known[p.session]) {
				alive[p.pid], m.known[p.pid], changed = true, true, true
			}
		}
	}
	var pids []int
	for _, p := range all {
		if alive[p.pid] && !p.zombie && p.pid != os.Getpid() {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// scan reads all processes of the pid namespace.
func scan() []process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // what was read counts
	var out []process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := readStat(pid); ok {
			out = append(out, p)
		}
	}
	return out
}

// readStat reads /proc/<pid>/stat (proc(5)): pid (comm) state ppid pgrp session.
func readStat(pid int) (process, bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	// The name may hold anything, also parentheses: fields follow the last.
	_, rest, ok := strings.Cut(string(data[max(0, strings.LastIndexByte(string(data), ')')):]), ") ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 4 {
		return process{}, false
	}
	return process{
		pid: pid, parent: int(parseInt(fields[1])), session: int(parseInt(fields[3])),
		zombie: fields[0] == "Z" || fields[0] == "X",
	}, true
}

// hasGroup says whether a process has the supplementary group.
func hasGroup(pid, gid int) bool {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(data), "\nGroups:")
	line, _, _ := strings.Cut(rest, "\n")
	want := strconv.Itoa(gid)
	for field := range strings.FieldsSeq(line) {
		if field == want {
			return true
		}
	}
	return false
}

// await waits on one member after another: each has a handle that becomes
// readable at its end.
func (m *marked) await(until time.Time, wake int) bool {
	for {
		pids := m.members()
		if len(pids) == 0 {
			return true
		}
		fd, err := unix.PidfdOpen(pids[0], 0)
		if errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil {
			return false
		}
		ended := pollOne(fd, unix.POLLIN, wake, until)
		_ = unix.Close(fd)
		if !ended {
			return m.empty()
		}
	}
}

// stopRounds bounds the search for members that are still being born.
const stopRounds = 200

// kill stops every member until a look finds no new one: a stopped process
// forks no more. Then all are killed.
func (m *marked) kill() (string, error) {
	if m.freeze != nil {
		m.freeze(true)
		defer m.freeze(false)
	}
	stopped := map[int]bool{}
	for range stopRounds {
		news := 0
		for _, pid := range m.members() {
			if !stopped[pid] {
				stopped[pid] = true
				news++
				m.signal(pid, unix.SIGSTOP)
			}
		}
		if news == 0 {
			break
		}
	}
	for _, pid := range m.members() {
		m.signal(pid, unix.SIGKILL)
	}
	return "stop-walk", nil
}

// signal sends to a member through a handle, after asking again whether it is
// one: its number may have gone to another process.
func (m *marked) signal(pid int, sig unix.Signal) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if m.gid == 0 || hasGroup(pid, m.gid) {
		// It may have ended; that is what is wanted.
		_ = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}
