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
// but raw system calls; the parent returns at once and leaves this frame.
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

	// The child. Its record of the step is read by the parent if errno is set.
	var (
		fd   uintptr
		e    syscall.Errno
		last = syscall.ENOENT
	)
	afterForkInChild()

	c.step = StepSession
	if _, _, e = syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0); e != 0 {
		goto fail
	}
	// While still root: the file belongs to root as long as the memory is the
	// agent's. A vforked child has a score of its own; the agent keeps its.
	if c.oomPath != nil {
		fd, _, e = syscall.RawSyscall6(unix.SYS_OPENAT, ^uintptr(99), uintptr(unsafe.Pointer(c.oomPath)), unix.O_WRONLY|unix.O_CLOEXEC, 0, 0, 0)
		if e == 0 {
			syscall.RawSyscall(unix.SYS_WRITE, fd, uintptr(unsafe.Pointer(&c.oomScore[0])), uintptr(len(c.oomScore)))
			syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
		}
	}

	c.step = StepFiles
	for i := 0; i < len(c.files); i++ {
		if _, _, e = syscall.RawSyscall(unix.SYS_DUP3, uintptr(c.files[i]), uintptr(i), 0); e != 0 {
			goto fail
		}
	}
	// All descriptors are close-on-exec by construction; this is the second
	// lock on the door. Old kernels do not have it.
	syscall.RawSyscall(unix.SYS_CLOSE_RANGE, 3, ^uintptr(0)>>32, unix.CLOSE_RANGE_CLOEXEC)

	c.step = StepTerminal
	if c.terminal {
		if _, _, e = syscall.RawSyscall(unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 0); e != 0 {
			goto fail
		}
	}
	syscall.RawSyscall(unix.SYS_UMASK, c.umask, 0, 0)

	c.step = StepLimits
	for i := 0; i < len(c.limits); i++ {
		if _, _, e = syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, c.limits[i].resource, uintptr(unsafe.Pointer(&c.limits[i].value)), 0, 0, 0); e != 0 {
			goto fail
		}
	}

	c.step = StepUser
	if c.setGroup {
		fd = 0
		if len(c.groups) > 0 {
			fd = uintptr(unsafe.Pointer(&c.groups[0]))
		}
		if _, _, e = syscall.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(c.groups)), fd, 0); e != 0 {
			goto fail
		}
	}
	if c.setUser {
		if _, _, e = syscall.RawSyscall(unix.SYS_SETRESGID, c.gid, c.gid, c.gid); e != 0 {
			goto fail
		}
		if _, _, e = syscall.RawSyscall(unix.SYS_SETRESUID, c.uid, c.uid, c.uid); e != 0 {
			goto fail
		}
		if _, _, e = syscall.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(c.noCaps)), uintptr(unsafe.Pointer(&c.capData[0])), 0); e != 0 {
			goto fail
		}
	}

	// As the user, who must have the right to be there.
	c.step = StepDir
	if _, _, e = syscall.RawSyscall(unix.SYS_FCHDIR, c.dir, 0, 0); e != 0 {
		goto fail
	}

	c.step = StepFilter
	if _, _, e = syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); e != 0 {
		goto fail
	}
	if c.prog != nil {
		if _, _, e = syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(c.prog))); e != 0 {
			goto fail
		}
	}

	c.step = StepExec
	for i := 0; c.paths[i] != nil; i++ {
		_, _, e = syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(c.paths[i])), uintptr(unsafe.Pointer(&c.argv[0])), uintptr(unsafe.Pointer(&c.env[0])))
		switch e {
		case syscall.ENOENT, syscall.ENOTDIR:
			// Not here: the next. An earlier refusal is remembered.
		case syscall.EACCES:
			last = e
		default:
			goto fail
		}
	}
	e = last

fail:
	c.errno = e
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 127, 0, 0)
	}
}
