package agent

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	goruntime "runtime"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// Memory settings of an agent that shares its box's memory with commands: the
// limit is soft, and far above what it holds when idle.
const (
	gcPercent   = 25
	memoryLimit = 24 << 20
	// processors bounds the runtime's threads, which count against the box's
	// pids, on machines with many; the work is waiting, not computing.
	processors = 2
)

// Harden prepares the process of an agent in a box: its memory cannot be read
// through /proc, files get exactly the mode that is asked for, descriptors 0
// to 2 are taken, a write beyond the file size limit is an error and no death.
func Harden() error {
	debug.SetGCPercent(gcPercent)
	debug.SetMemoryLimit(memoryLimit)
	goruntime.GOMAXPROCS(processors)
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("dumpable: %w", err)
	}
	unix.Umask(0)
	for {
		fd, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("%s: %w", os.DevNull, err)
		}
		if fd > 2 {
			if err := unix.Close(fd); err != nil {
				return err
			}
			break
		}
	}
	// Caught, not ignored: a child gets the default back.
	signal.Notify(make(chan os.Signal, 1), unix.SIGXFSZ, unix.SIGPIPE)
	return nil
}

// Reap collects orphans, for ever. The caller runs it in the main goroutine,
// locked to the main thread: the kernel gives the orphans of a pid namespace
// to that thread, and WNOTHREAD leaves the other threads' children, the
// commands, to those who wait for them.
func Reap() {
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	for {
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG|unix.WNOTHREAD, nil)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if pid <= 0 {
				break
			}
		}
		<-children
	}
}

// ListenSocket listens at path. The socket gets its name only when it listens,
// so that whoever waits for the name can connect at once.
func ListenSocket(path string) (net.Listener, error) {
	temp := path + ".new"
	for _, p := range []string{temp, path} {
		if err := os.Remove(p); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: temp, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(temp, 0o600), os.Rename(temp, path)); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}
