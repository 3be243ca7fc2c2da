// Package spawn starts a process as the agent needs it: born in a cgroup,
// without rights, behind a seccomp filter.
//
// os/exec has no place between clone and exec, where the filter must be
// installed; go-sandbox's forkexec has, but sets the securebits, for which the
// agent lacks CAP_SETPCAP, takes the directory by name only, and cannot raise
// the child's OOM score. So the child's few steps are written out here, in the
// manner of syscall.forkAndExecInChild1: clone3 with CLONE_VFORK and CLONE_VM,
// then raw system calls only, from memory that was prepared before. Because
// the memory is shared, the child reports a failed step by writing it down; no
// pipe is needed.
package spawn

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Spec says what to start. All descriptors stay the caller's.
type Spec struct {
	// Paths are tried in turn, as execvp does with the PATH; a relative one
	// is relative to Dir.
	Paths []string
	Argv  []string
	Env   []string
	// Files become descriptors 0, 1 and 2. Each must be 3 or higher.
	Files [3]int
	// Dir is a handle of the working directory.
	Dir int
	// Cgroup is a handle of the cgroup2 directory to be born in, or -1.
	Cgroup int
	// Credential changes the user; nil keeps it.
	Credential *Credential
	// Groups is the supplementary group list; nil keeps it where Credential
	// is nil.
	Groups  []uint32
	Rlimits []Rlimit
	// Filter is the seccomp filter; empty is none.
	Filter []unix.SockFilter
	// Terminal makes descriptor 0 the controlling terminal.
	Terminal bool
	// OOMScore is written to the child's oom_score_adj; "" leaves it. A
	// failure is not an error.
	OOMScore string
	Umask    int
}

// Credential is a user and a group.
type Credential struct{ UID, GID int }

// Rlimit is a limit of the new process.
type Rlimit struct {
	Resource int
	Soft     uint64
	Hard     uint64
}

// Step names the step of the child that failed.
type Step int

// The steps, in order.
const (
	StepClone Step = iota
	StepSession
	StepFiles
	StepTerminal
	StepLimits
	StepUser
	StepDir
	StepFilter
	StepExec
)

func (s Step) String() string {
	return [...]string{"clone", "session", "files", "terminal", "limits", "user", "dir", "filter", "exec"}[s]
}

// Error says which step failed.
type Error struct {
	Step  Step
	Errno syscall.Errno
}

func (e *Error) Error() string { return fmt.Sprintf("spawn: %s: %v", e.Step, e.Errno) }

// Unwrap returns the error number.
func (e *Error) Unwrap() error { return e.Errno }

// Start starts the process and returns its id once the program runs in it.
// The error is an *Error; no process is left then, but for its exit status,
// which Start has collected. The child's parent is the calling thread.
func Start(s *Spec) (int, error) {
	c, err := prepare(s)
	if err != nil {
		return 0, err
	}
	syscall.ForkLock.Lock()
	pid, errno := forkExec(c)
	afterFork()
	syscall.ForkLock.Unlock()
	runtime.KeepAlive(s)
	if errno != 0 {
		return 0, &Error{Step: StepClone, Errno: errno}
	}
	if c.errno != 0 {
		collect(int(pid))
		return 0, &Error{Step: c.step, Errno: c.errno}
	}
	return int(pid), nil
}

// collect reaps a child that has ended.
func collect(pid int) {
	for {
		_, err := unix.Wait4(pid, nil, 0, nil)
		if !errors.Is(err, unix.EINTR) {
			return // ECHILD: PID 1's reaper was faster
		}
	}
}

// child is all that the child needs, prepared before the clone.
type child struct {
	clone    cloneArgs
	paths    []*byte
	argv     []*byte
	env      []*byte
	files    [3]int
	dir      uintptr
	setUser  bool
	uid, gid uintptr
	setGroup bool
	groups   []uint32
	limits   []limit
	prog     *unix.SockFprog
	terminal bool
	umask    uintptr
	oomPath  *byte
	oomScore []byte
	noCaps   *capHeader
	capData  [2]capSet

	// Written by the child.
	step  Step
	errno syscall.Errno
}

type limit struct {
	resource uintptr
	value    unix.Rlimit
}

type capHeader struct {
	version uint32
	pid     int32
}

type capSet struct{ effective, permitted, inheritable uint32 }

// cloneArgs is struct clone_args of linux/sched.h.
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
}

func prepare(s *Spec) (*child, error) {
	c := &child{
		files: s.Files, dir: uintptr(s.Dir), terminal: s.Terminal, umask: uintptr(s.Umask),
		groups: s.Groups, setGroup: s.Credential != nil || s.Groups != nil,
		noCaps: &capHeader{version: unix.LINUX_CAPABILITY_VERSION_3},
	}
	for _, fd := range s.Files {
		if fd < 3 {
			return nil, &Error{Step: StepFiles, Errno: syscall.EBADF}
		}
	}
	var err error
	if c.paths, err = cStrings(s.Paths); err != nil {
		return nil, &Error{Step: StepExec, Errno: syscall.EINVAL}
	}
	if c.argv, err = cStrings(s.Argv); err != nil {
		return nil, &Error{Step: StepExec, Errno: syscall.EINVAL}
	}
	if c.env, err = cStrings(s.Env); err != nil {
		return nil, &Error{Step: StepExec, Errno: syscall.EINVAL}
	}
	c.clone.flags = unix.CLONE_VM | unix.CLONE_VFORK
	c.clone.exitSignal = uint64(unix.SIGCHLD)
	if s.Cgroup >= 0 {
		c.clone.flags |= unix.CLONE_INTO_CGROUP
		c.clone.cgroup = uint64(s.Cgroup)
	}
	if s.Credential != nil {
		c.setUser, c.uid, c.gid = true, uintptr(s.Credential.UID), uintptr(s.Credential.GID)
	}
	for _, r := range s.Rlimits {
		c.limits = append(c.limits, limit{uintptr(r.Resource), unix.Rlimit{Cur: r.Soft, Max: r.Hard}})
	}
	if len(s.Filter) > 0 {
		c.prog = &unix.SockFprog{Len: uint16(len(s.Filter)), Filter: &s.Filter[0]}
	}
	if s.OOMScore != "" {
		c.oomPath, c.oomScore = &[]byte("/proc/self/oom_score_adj\x00")[0], []byte(s.OOMScore)
	}
	return c, nil
}

// cStrings returns the NULL-terminated array that execve takes.
func cStrings(list []string) ([]*byte, error) {
	out := make([]*byte, 0, len(list)+1)
	for _, s := range list {
		p, err := unix.BytePtrFromString(s)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return append(out, nil), nil
}
