package spawn

import (
	"syscall"
	"unsafe"

	"github.com/criyle/go-sandbox/pkg/forkexec/vfork"
	"golang.org/x/sys/unix"
)

// forkExec clones, and in the child goes through the steps up to exec.
//
// The child runs on the parent's stack and memory while the parent's thread is
// suspended. It must not return, allocate, grow the stack, or call anything
// but raw system calls and functions that do no more; the parent returns at
// once and leaves this frame.
//
//go:noinline
//go:norace
//go:nocheckptr
func forkExec(c *child) (pid uintptr, errno syscall.Errno) {
	// From here on the stack cannot grow: this frame has its room already.
	beforeFork()
	if c.clone.flags&unix.CLONE_INTO_CGROUP != 0 {
		pid, errno = vfork.RawVforkSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&c.clone)), unsafe.Sizeof(c.clone), 0)
	} else {
		pid, errno = vfork.RawVforkSyscall(unix.SYS_CLONE, uintptr(c.clone.flags|c.clone.exitSignal), 0, 0)
	}
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	afterForkInChild()
	c.run()
	return 0, 0 // not reached
}

// run is the child: it ends in the program or in the exit. Its record of the
// step is read by the parent if errno is set.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (c *child) run() {
	c.step = StepSession
	_, _, e := syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
	if e == 0 {
		c.raiseScore()
		c.step = StepFiles
		e = c.setFiles()
	}
	if e == 0 {
		c.step = StepTerminal
		e = c.setTerminal()
	}
	if e == 0 {
		c.step = StepLimits
		e = c.setLimits()
	}
	if e == 0 {
		c.step = StepUser
		e = c.setUserAndGroups()
	}
	if e == 0 {
		// As the user, who must have the right to be there.
		c.step = StepDir
		_, _, e = syscall.RawSyscall(unix.SYS_FCHDIR, c.dir, 0, 0)
	}
	if e == 0 {
		c.step = StepFilter
		e = c.setFilter()
	}
	if e == 0 {
		c.step = StepExec
		e = c.exec()
	}
	c.errno = e
	for {
		_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, 127, 0, 0)
	}
}

// raiseScore makes the child a better victim than the agent. It is done while
// still root: the file belongs to root as long as the memory is the agent's. A
// vforked child has a score of its own; the agent keeps its.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (c *child) raiseScore() {
	if c.oomPath == nil {
		return
	}
	fd, _, e := syscall.RawSyscall6(unix.SYS_OPENAT, atCWD, uintptr(unsafe.Pointer(c.oomPath)), unix.O_WRONLY|unix.O_CLOEXEC, 0, 0, 0)
	if e != 0 {
		return
	}
	_, _, _ = syscall.RawSyscall(unix.SYS_WRITE, fd, uintptr(unsafe.Pointer(&c.oomScore[0])), uintptr(len(c.oomScore)))
	_, _, _ = syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
}

// atCWD is AT_FDCWD, -100, as an argument.
const atCWD = ^uintptr(99)

//go:nosplit
//go:norace
//go:nocheckptr
func (c *child) setFiles() syscall.Errno {
	for i := 0; i < len(c.files); i++ {
		if _, _, e := syscall.RawSyscall(unix.SYS_DUP3, uintptr(c.files[i]), uintptr(i), 0); e != 0 {
			return e
		}
	}
	// All descriptors are close-on-exec by construction; this is the second
	// lock on the door. Old kernels do not have it.
	_, _, _ = syscall.RawSyscall(unix.SYS_CLOSE_RANGE, 3, ^uintptr(0)>>32, unix.CLOSE_RANGE_CLOEXEC)
	return 0
}

//go:nosplit
//go:norace
//go:nocheckptr
func (c *child) setTerminal() syscall.Errno {
	if !c.terminal {
		return 0
	}
	_, _, e := syscall.RawSyscall(unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 0)
	return e
}

//go:nosplit
//go:norace
//go:nocheckptr
func (c *child) setLimits() syscall.Errno {
	_, _, _ = syscall.RawSyscall(unix.SYS_UMASK, c.umask, 0, 0)
	for i := 0; i < len(c.limits); i++ {
		_, _, e := syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, c.limits[i].resource, uintptr(unsafe.Pointer(&c.limits[i].value)), 0, 0, 0)
		if e != 0 {
			return e
		}
	}
	return 0
}

// setUserAndGroups also loses all capabilities: the kernel clears them when
// the last user id stops being root, and capset those that could come back.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (c *child) setUserAndGroups() syscall.Errno {
	if c.setGroup {
		var list uintptr
		if len(c.groups) > 0 {
			list = uintptr(unsafe.Pointer(&c.groups[0]))
		}
		if _, _, e := syscall.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(c.groups)), list, 0); e != 0 {
			return e
		}
	}
	if !c.setUser {
		return 0
	}
	if _, _, e := syscall.RawSyscall(unix.SYS_SETRESGID, c.gid, c.gid, c.gid); e != 0 {
		return e
	}
	if _, _, e := syscall.RawSyscall(unix.SYS_SETRESUID, c.uid, c.uid, c.uid); e != 0 {
		return e
	}
	_, _, e := syscall.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(c.noCaps)), uintptr(unsafe.Pointer(&c.capData[0])), 0)
	return e
}

//go:nosplit
//go:norace
//go:nocheckptr
func (c *child) setFilter() syscall.Errno {
	if _, _, e := syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); e != 0 {
		return e
	}
	if c.prog == nil {
		return 0
	}
	_, _, e := syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(c.prog)))
	return e
}

// exec returns only if no path could be executed. A refusal on the way is
// remembered, as execvp(3) does.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (c *child) exec() syscall.Errno {
	last := syscall.ENOENT
	for i := 0; c.paths[i] != nil; i++ {
		_, _, e := syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(c.paths[i])), uintptr(unsafe.Pointer(&c.argv[0])), uintptr(unsafe.Pointer(&c.env[0])))
		switch e {
		case syscall.ENOENT, syscall.ENOTDIR:
		case syscall.EACCES:
			last = e
		default:
			return e
		}
	}
	return last
}
