package cgroup

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/containerd/cgroups/v3/cgroup1"
	"golang.org/x/sys/unix"
)

// Destroy kills every process below the run's directories and removes them
// with all that is below. It is idempotent, and ends with ctx's cause when
// something there cannot be ended (a process in an uninterruptible sleep).
func (t *Tree) Destroy(ctx context.Context, run string) error {
	if !namePattern().MatchString(run) {
		return fmt.Errorf("cgroup: %q cannot be the name of a run", run)
	}
	pause := time.Millisecond
	for {
		err := t.rmdir(run)
		if err == nil {
			t.prune()
			return nil
		}
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
		if err := t.kill(run); err != nil {
			return err
		}
		// Killed processes leave their cgroup a moment later, and the kernel
		// offers no event for that which works in all hierarchies.
		select {
		case <-ctx.Done():
			return fmt.Errorf("cgroup: %s is still busy: %w", t.Path(run), errors.Join(context.Cause(ctx), err))
		case <-time.After(pause):
		}
		pause = min(2*pause, 100*time.Millisecond)
	}
}

// prune removes the owner's directory if no run is left in it. Failing is the
// normal case.
func (t *Tree) prune() {
	for _, dir := range t.dirs("") {
		_ = unix.Rmdir(dir)
	}
}

// rmdir removes the run's directories, the deepest first. What does not exist
// is well; EBUSY means that there are processes.
func (t *Tree) rmdir(run string) error {
	var errs []error
	for _, dir := range t.dirs(run) {
		errs = append(errs, removeTree(dir))
	}
	return errors.Join(errs...)
}

// removeTree removes a directory of a cgroup file system. Its files vanish
// with it and cannot be removed, so only directories are looked at.
func removeTree(dir string) error {
	err := unix.Rmdir(dir)
	if err == nil || err == unix.ENOENT {
		return nil
	}
	// With children the kernel says EBUSY too, on v1 ENOTEMPTY.
	entries, readErr := os.ReadDir(dir)
	if errors.Is(readErr, fs.ErrNotExist) {
		return nil
	}
	if readErr != nil {
		return readErr
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	if err := unix.Rmdir(dir); err != nil && err != unix.ENOENT {
		return &os.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return nil
}

// kill sends SIGKILL to everything below the run's directories. cgroup.kill
// reaches a whole cgroup2 tree at once, forks included; what is in v1
// hierarchies alone is frozen first where there is a freezer, so that it cannot
// fork away.
func (t *Tree) kill(run string) error {
	if t.unified != "" {
		// Kernels before 5.14 do not have it.
		err := write(filepath.Join(t.unified, t.Path(run), "cgroup.kill"), "1")
		if err != nil {
			return err
		}
	}
	freezer := t.v1Dir(cgroup1.Freezer, run)
	if freezer == "" {
		return t.killListed(run)
	}
	if err := write(filepath.Join(freezer, "freezer.state"), "FROZEN"); err != nil {
		return err
	}
	return errors.Join(t.killListed(run), thaw(freezer))
}

// thaw lets everything in a directory of the v1 freezer go on, also what was
// frozen further down by someone else (a paused box, an agent's command): a
// frozen process does not even take its SIGKILL.
func thaw(dir string) error {
	return walk(dir, "freezer.state", func(file string) error { return write(file, "THAWED") })
}

// write writes to a file of a cgroup, unless the cgroup is gone. Opening never
// makes one.
func write(file, value string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(value)
		err = errors.Join(err, f.Close())
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// walk visits the files of that name in a directory and all below it.
func walk(dir, name string, visit func(file string) error) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || e.Name() != name {
			return err
		}
		return visit(path)
	})
}

// killListed signals every process that a hierarchy lists for the run.
func (t *Tree) killListed(run string) error {
	for _, dir := range t.dirs(run) {
		if err := walk(dir, "cgroup.procs", killProcs); err != nil {
			return err
		}
	}
	return nil
}

// killProcs signals the processes in one cgroup.procs file. A pid can be used
// again between reading and signalling, so each is held by a pidfd and the file
// must still list it then.
func killProcs(file string) error {
	pids, err := readProcs(file)
	if err != nil {
		return err
	}
	for pid := range pids {
		if err := killMember(file, pid); err != nil {
			return err
		}
	}
	return nil
}

func killMember(file string, pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil
	}
	if err != nil {
		return os.NewSyscallError("pidfd_open", err)
	}
	defer func() { _ = unix.Close(fd) }()
	still, err := readProcs(file)
	if err != nil || !still[pid] {
		return err
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
		return os.NewSyscallError("pidfd_send_signal", err)
	}
	return nil
}

// readProcs reads a cgroup.procs file; a vanished cgroup has no processes. Pid
// 0 stands for a process of a foreign pid namespace and cannot be signalled.
func readProcs(file string) (map[int]bool, error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	pids := map[int]bool{}
	lines := bufio.NewScanner(bytes.NewReader(raw))
	for lines.Scan() {
		if pid, err := strconv.Atoi(lines.Text()); err == nil && pid > 0 {
			pids[pid] = true
		}
	}
	return pids, lines.Err()
}
