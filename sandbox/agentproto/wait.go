package agentproto

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/sandboxd/sandboxd/sandbox"
	"golang.org/x/sys/unix"
)

// WaitSocket waits until an agent listens on the unix socket at path and
// connects to it. It watches the directory, which must exist, with inotify;
// nothing is polled. ctx bounds the wait.
func WaitSocket(ctx context.Context, path string) (net.Conn, error) {
	watch, err := watchDir(filepath.Dir(path))
	if err != nil {
		return nil, unavailable("The directory of the agent's socket cannot be watched.", err)
	}
	// The kernel takes its time to give a watch up (a grace period of RCU); the
	// box need not wait for it.
	defer func() { go watch.Close() }()
	stop := context.AfterFunc(ctx, func() {
		// Ends a read that waits; the loop then sees the context's end.
		_ = watch.SetReadDeadline(time.Unix(1, 0))
	})
	defer stop()
	var dialer net.Dialer
	events := make([]byte, 4096)
	for {
		conn, err := dialer.DialContext(ctx, "unix", path)
		if err == nil {
			return conn, nil
		}
		if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ECONNREFUSED) {
			return nil, unavailable("The agent's socket refused the connection.", err)
		}
		if _, err := watch.Read(events); err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return nil, unavailable("The agent did not begin to listen in time.", err)
		}
	}
}

// watchDir returns an inotify handle that becomes readable when a file
// appears in dir. The agent binds its socket under another name and renames
// it once it listens, so that the event comes when a connect succeeds.
func watchDir(dir string) (*os.File, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w", err)
	}
	f := os.NewFile(uintptr(fd), "inotify")
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_ATTRIB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("inotify %s: %w", dir, err)
	}
	return f, nil
}

func unavailable(message string, cause error) *sandbox.Error {
	return &sandbox.Error{Kind: sandbox.KindUnavailable, Message: message, Cause: cause}
}
