package oci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// A first is a container's first process, held by a pidfd (pidfd_open(2)): its
// number may be used again, the handle never means another process.
type first struct {
	handle *os.File
	// dead is closed when the process has ended, and with it, as it is PID 1 of
	// its namespace, all that ran in the box.
	dead chan struct{}
}

// holdFirst takes hold of the process whose number the runtime wrote to
// pidFile. It must be in the cgroup that the runtime was told to put it into.
func holdFirst(pidFile, cgroup string) (*first, error) {
	raw, err := os.ReadFile(pidFile)
	if err != nil {
		return nil, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		return nil, err
	}
	handle, err := openPidfd(pid)
	if err != nil {
		return nil, err
	}
	f := &first{handle: handle, dead: make(chan struct{})}
	if err := f.watch(pid, cgroup); err != nil {
		return nil, errors.Join(err, handle.Close())
	}
	return f, nil
}

// openPidfd opens a handle that Go's poller can wait for: one that does not
// block.
func openPidfd(pid int) (*os.File, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, errors.Join(os.NewSyscallError("fcntl", err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "pidfd"), nil
}

// watch checks that the handle is that of a process in cgroup, and waits for
// its end.
func (f *first) watch(pid int, cgroup string) error {
	member, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cgroup"))
	if err != nil || !strings.Contains(string(member), cgroup) {
		return fmt.Errorf("the box's first process, %d, has ended already: %w", pid, os.ErrProcessDone)
	}
	conn, err := f.handle.SyscallConn()
	if err != nil {
		return err
	}
	go func() {
		defer close(f.dead)
		// The error is that of a closed handle, which nobody closes before.
		_ = conn.Read(hasEnded)
	}()
	return nil
}

// hasEnded tells whether a pidfd's process has ended, and reaps it if it is a
// child of ours: it is when the service is PID 1 or a subreaper.
func hasEnded(fd uintptr) bool {
	polls := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	if n, err := unix.Poll(polls, 0); n == 0 || err != nil {
		return false
	}
	// ECHILD is the usual answer.
	_ = unix.Waitid(unix.P_PIDFD, int(fd), nil, unix.WEXITED|unix.WNOHANG, nil)
	return true
}

// kill sends SIGKILL to the process, and with it to all in its pid namespace.
func (f *first) kill() error {
	conn, err := f.handle.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	if err := conn.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0) }); err != nil {
		return err
	}
	if sent != nil && !errors.Is(sent, unix.ESRCH) {
		return os.NewSyscallError("pidfd_send_signal", sent)
	}
	return nil
}

// release waits for the process's end and closes the handle.
func (f *first) release(ctx context.Context) error {
	select {
	case <-f.dead:
		return f.handle.Close()
	case <-ctx.Done():
		return fmt.Errorf("the box's first process does not end: %w", context.Cause(ctx))
	}
}

// A mutter is the end of what a box's first process writes to its standard
// error: the agent's last words. It is read for as long as the box lives.
type mutter struct {
	mu   sync.Mutex
	tail []byte
	done chan struct{}
}

const mutterBytes = 2048

// listen reads from r until nobody can write to it any more.
func listen(r io.ReadCloser) *mutter {
	m := &mutter{done: make(chan struct{})}
	go func() {
		defer close(m.done)
		defer func() { _ = r.Close() }()
		buf := make([]byte, mutterBytes)
		for {
			n, err := r.Read(buf)
			m.keep(buf[:n])
			if err != nil {
				return
			}
		}
	}()
	return m
}

func (m *mutter) keep(p []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tail = append(m.tail, p...)
	m.tail = m.tail[max(0, len(m.tail)-mutterBytes):]
}

func (m *mutter) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.TrimSpace(string(m.tail))
}
