package agent

import (
	"errors"
	"time"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/agent/spawn"
	"golang.org/x/sys/unix"
)

// conclude ends what the command left, delivers the rest of its output, reaps
// it and tells how it ended.
func (c *command) conclude(ended time.Time) sandbox.Exit {
	var exit sandbox.Exit
	c.finishKill()
	switch {
	case c.killer != nil:
		exit.Killed, exit.KillStep = c.killer.killed, c.killer.step
	case c.msg.KeepChildren:
		c.keepChildren()
	case !c.tree.empty():
		seen := map[int]bool{}
		destroy(c.tree, seen)
		exit.Leftover = len(seen)
	}
	status, usage := reapOne(c.pid)
	exit.Usage = sandbox.Usage{
		Wall: ended.Sub(c.started), CPU: time.Duration(usage.Utime.Nano() + usage.Stime.Nano()),
		MaxRSSBytes: usage.Maxrss << 10, // in KiB, getrusage(2)
	}
	exit.Code, exit.Signal = outcome(status)
	c.streams.finish(c.msg.KeepChildren)
	exit.OOMKilled = c.op.box.oom.read() > c.ooms
	exit.PidsLimitHit = c.slot.refusals() > c.refused
	return exit
}

// finishKill waits for a kill that is under way, and lets it be hurried.
func (c *command) finishKill() {
	if c.killer == nil {
		return
	}
	lost := c.lost
	for {
		select {
		case <-c.killer.done:
			return
		case m := <-c.controls:
			c.control(m)
		case <-lost:
			lost = nil
			c.kill(0)
		}
	}
}

// keepChildren leaves what still runs, and keeps its marks from being used
// for another command.
func (c *command) keepChildren() {
	if m, ok := c.tree.(*marked); ok && m.gid != 0 && !m.empty() {
		c.slot.kept[m.gid] = true
	}
}

// reapOne collects a child that has ended.
func reapOne(pid int) (unix.WaitStatus, unix.Rusage) {
	var status unix.WaitStatus
	var usage unix.Rusage
	for {
		_, err := unix.Wait4(pid, &status, 0, &usage)
		if !errors.Is(err, unix.EINTR) {
			return status, usage
		}
	}
}

func outcome(status unix.WaitStatus) (code int, signal string) {
	if status.Signaled() {
		name := unix.SignalName(status.Signal())
		if name == "" {
			name = "SIG" + itoa(int(status.Signal()))
		}
		return -1, name
	}
	return status.ExitStatus(), ""
}

// startError says why a command could not be started.
func startError(err error, program, dir string) error {
	var failed *spawn.Error
	if !errors.As(err, &failed) {
		return err
	}
	switch failed.Step {
	case spawn.StepExec:
		return execError(failed, program)
	case spawn.StepDir:
		return badDir(dir, err)
	case spawn.StepClone:
		if failed.Errno == unix.EAGAIN {
			return &sandbox.Error{Kind: sandbox.KindPidsLimit, Message: "The box's limit of processes is used up.", Cause: err}
		}
	}
	return &sandbox.Error{Kind: sandbox.KindInternal, Message: "The command could not be started: " + err.Error(), Cause: err}
}

// execError follows the shells: 127 is not found, 126 not executable.
func execError(failed *spawn.Error, program string) error {
	e := &sandbox.Error{Kind: sandbox.KindCommandNotExecutable, Path: program, Cause: failed}
	switch failed.Errno {
	case unix.ENOENT, unix.ENOTDIR:
		e.Kind, e.Message = sandbox.KindCommandNotFound, "There is no such program in the box, or its interpreter is missing."
	case unix.EACCES, unix.EPERM:
		e.Message = "The program may not be executed."
	case unix.ENOEXEC:
		e.Message = "The file is not a program; a script needs a first line such as #!/bin/sh."
	case unix.E2BIG:
		e.Kind, e.Message = sandbox.KindTooLarge, "The arguments and the environment are too long."
	case unix.EINVAL:
		e.Kind, e.Message = sandbox.KindInvalid, "Arguments and environment cannot hold NUL bytes."
	default:
		e.Message = "The program cannot be executed: " + failed.Errno.Error()
	}
	return e
}

func badDir(dir string, cause error) error {
	return &sandbox.Error{Kind: sandbox.KindBadDir, Path: dir, Cause: cause,
		Message: "The working directory is not a directory of the workspace that the box's user may enter."}
}
