package agent

import (
	"errors"
	"os"
	"time"

	"github.com/sandboxd/sandboxd/sandbox/agentproto"
	"golang.org/x/sys/unix"
)

// firstRead is the buffer of a command that writes little; one that fills it
// gets more.
const firstRead = 4 << 10

// room is what a frame's header takes in front of the output.
const room = agentproto.HeaderRoom

// copy sends output until all writers have closed it or finish cuts it.
func (s *streams) copy(out output) {
	buf := make([]byte, room+firstRead)
	for {
		n, err := out.file.Read(buf[room:])
		if n > 0 && s.w.RawInPlace(out.frame, buf[:room+n]) != nil {
			// Nobody hears it; the kill that follows ends the writers.
			discard(out.file)
			return
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			s.copyRest(out, buf)
			return
		}
		if err != nil {
			return
		}
		if n == firstRead && len(buf) == room+firstRead {
			buf = make([]byte, room+agentproto.MaxChunk)
			out.widen()
		}
	}
}

// bulkPipe is the size of the pipe of a command that writes much: it goes on
// writing while the agent sends.
const bulkPipe = 512 << 10

// widen enlarges the pipe; where it is refused (pipe(7)), the copying is only
// slower.
func (o output) widen() {
	raw, err := o.file.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, bulkPipe) })
}

// copyRest sends what is in the pipe now.
func (s *streams) copyRest(out output, buf []byte) {
	raw, err := out.file.SyscallConn()
	if err != nil {
		return
	}
	// Control, not Read: the deadline has passed.
	_ = raw.Control(func(fd uintptr) {
		for {
			n, err := unix.Read(int(fd), buf[room:])
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if n <= 0 || s.w.RawInPlace(out.frame, buf[:room+n]) != nil {
				return
			}
		}
	})
}

func discard(f *os.File) {
	buf := make([]byte, firstRead)
	for {
		if _, err := f.Read(buf); err != nil {
			return
		}
	}
}

// drainTime is how long output may go on after all processes have been killed:
// no writer is left then, unless one is stuck in the kernel.
const drainTime = 5 * time.Second

// finish waits until the output has been sent. With keep, processes go on and
// may hold the pipes: what is there now is sent, and the rest is discarded, so
// that they do not die of a closed pipe.
func (s *streams) finish(keep bool) {
	until := time.Now()
	if !keep {
		until = until.Add(drainTime)
	}
	for _, out := range s.outs {
		_ = out.file.SetReadDeadline(until)
	}
	s.copying.Wait()
	if !keep {
		return
	}
	for _, out := range s.outs {
		_ = out.file.SetReadDeadline(time.Time{})
		go func() {
			discard(out.file)
			_ = out.file.Close()
		}()
	}
	s.outs, s.terminal = nil, nil
}
