package agent

import (
	"errors"
	"os"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/agentproto"
	"golang.org/x/sys/unix"
)

// streams are a command's input and output. What is not wanted is /dev/null.
type streams struct {
	msg agentproto.StartMessage
	w   *agentproto.FrameWriter

	childEnds []*os.File
	in        *os.File // our end of the input, or nil
	outs      []output
	terminal  *os.File

	mu      sync.Mutex
	pending []byte // input that waits for the command
	queued  int    // bytes pending or being written, at most the credit
	ended   bool   // the service has sent all
	closed  bool   // the command has ended: input is dropped
	more    chan struct{}
	copying sync.WaitGroup
	feeding sync.WaitGroup
}

// output is our end of one stream of output.
type output struct {
	file  *os.File
	frame agentproto.FrameType
}

func newStreams(m agentproto.StartMessage, w *agentproto.FrameWriter) *streams {
	return &streams{msg: m, w: w, more: make(chan struct{}, 1)}
}

// open makes the pipes, or the terminal, and returns the child's descriptors.
func (s *streams) open(b *box) ([3]int, error) {
	null := int(b.null.Fd())
	fds := [3]int{null, null, null}
	if s.msg.TTY != nil {
		return s.openTerminal(b)
	}
	if s.msg.Stdin {
		child, ours, err := pipe(b.user, true)
		if err != nil {
			return fds, err
		}
		s.in, s.childEnds = ours, append(s.childEnds, child)
		fds[0] = int(child.Fd())
	}
	for i, wanted := range []bool{s.msg.Stdout, s.msg.Stderr} {
		if !wanted {
			continue
		}
		child, ours, err := pipe(b.user, false)
		if err != nil {
			return fds, err
		}
		frame := agentproto.FrameStdout
		if i == 1 {
			frame = agentproto.FrameStderr
		}
		s.childEnds = append(s.childEnds, child)
		s.outs = append(s.outs, output{ours, frame})
		fds[i+1] = int(child.Fd())
	}
	return fds, nil
}

// pipe makes a pipe whose end for us does not block. It is the user's: a
// command may open its streams by name (/dev/stdout).
func pipe(u *user, childReads bool) (child, ours *os.File, err error) {
	var p [2]int
	if u.own(func() { err = unix.Pipe2(p[:], unix.O_CLOEXEC) }); err != nil {
		return nil, nil, &sandbox.Error{Kind: sandbox.KindInternal, Message: "The agent is out of file descriptors.", Cause: err}
	}
	childFD, ourFD := p[1], p[0]
	if childReads {
		childFD, ourFD = p[0], p[1]
	}
	if err := unix.SetNonblock(ourFD, true); err != nil {
		return nil, nil, errors.Join(err, unix.Close(p[0]), unix.Close(p[1]))
	}
	return os.NewFile(uintptr(childFD), "child"), os.NewFile(uintptr(ourFD), "pipe"), nil
}

// closeChildEnds gives back what only the child uses.
func (s *streams) closeChildEnds() {
	for _, f := range s.childEnds {
		_ = f.Close()
	}
	s.childEnds = nil
}

// start begins to copy.
func (s *streams) start() {
	if s.in != nil {
		s.feeding.Go(s.feed)
	}
	for _, out := range s.outs {
		s.copying.Go(func() { s.copy(out) })
	}
}

// close ends the copying and gives everything back. The command has ended or
// was never started.
func (s *streams) close() {
	s.closeChildEnds()
	s.mu.Lock()
	s.closed = true
	s.wake()
	s.mu.Unlock()
	if s.in != nil {
		// Ends a write that the command has not read.
		_ = s.in.SetWriteDeadline(time.Unix(1, 0))
	}
	s.feeding.Wait()
	for _, out := range s.outs {
		_ = out.file.Close()
	}
	if s.terminal != nil {
		_ = s.terminal.Close()
	}
	if s.in != nil {
		_ = s.in.Close()
	}
}
