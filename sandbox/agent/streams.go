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
		child, ours, err := pipe(true)
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
		child, ours, err := pipe(false)
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

// pipe makes a pipe whose end for us does not block.
func pipe(childReads bool) (child, ours *os.File, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
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

// openTerminal makes a pseudo-terminal of the asked size (pty(7)).
func (s *streams) openTerminal(b *box) (fds [3]int, err error) {
	var master, slave int
	b.files.do(func() { master, slave, err = openPTY(*s.msg.TTY) })
	if err != nil {
		return fds, &sandbox.Error{Kind: sandbox.KindUnsupported, Message: "The box has no terminals.", Cause: err}
	}
	s.terminal = os.NewFile(uintptr(master), "terminal")
	child := os.NewFile(uintptr(slave), "child")
	s.childEnds = append(s.childEnds, child)
	if s.msg.Stdin {
		s.in = s.terminal
	}
	if s.msg.Stdout {
		s.outs = append(s.outs, output{s.terminal, agentproto.FrameStdout})
	}
	return [3]int{slave, slave, slave}, nil
}

// openPTY runs on a thread that has the user's rights: the terminal is theirs.
func openPTY(size agentproto.SizeMessage) (master, slave int, err error) {
	master, err = unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, -1, err
	}
	err = unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0)
	if err == nil {
		err = setSize(master, size)
	}
	if err == nil {
		slave, err = openPeer(master)
	}
	if err != nil {
		unix.Close(master)
		return -1, -1, err
	}
	return master, slave, nil
}

// openPeer opens the terminal's other end without a path (ioctl_tty(2)).
func openPeer(master int) (int, error) {
	fd, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if e != 0 {
		return -1, e
	}
	return int(fd), nil
}

func setSize(fd int, size agentproto.SizeMessage) error {
	return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
}

func (s *streams) resize(size agentproto.SizeMessage) error {
	if s.terminal == nil {
		return &sandbox.Error{Kind: sandbox.KindInvalid, Message: "The command has no terminal."}
	}
	raw, err := s.terminal.SyscallConn()
	if err != nil {
		return notRunning()
	}
	var set error
	if err := raw.Control(func(fd uintptr) { set = setSize(int(fd), size) }); err != nil || set != nil {
		return notRunning()
	}
	return nil
}

// closeChildEnds gives back what only the child uses.
func (s *streams) closeChildEnds() {
	for _, f := range s.childEnds {
		f.Close()
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

// firstRead is the buffer of a command that writes little; one that fills it
// gets more.
const firstRead = 4 << 10

// copy sends output until all writers have closed it or finish cuts it.
func (s *streams) copy(out output) {
	buf := make([]byte, firstRead)
	for {
		n, err := out.file.Read(buf)
		if n > 0 && s.w.Raw(out.frame, buf[:n]) != nil {
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
		if n == len(buf) && n < agentproto.MaxChunk {
			buf = make([]byte, agentproto.MaxChunk)
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
			n, err := unix.Read(int(fd), buf)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if n <= 0 || s.w.Raw(out.frame, buf[:n]) != nil {
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
			out.file.Close()
		}()
	}
	s.outs, s.terminal = nil, nil
}

// input takes bytes from the service; more than the credit breaks the
// protocol.
func (s *streams) input(p []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.msg.Stdin || s.ended || s.queued+len(p) > agentproto.StdinCredit:
		return agentproto.Unexpected(agentproto.FrameStdin)
	case s.closed:
		return nil
	}
	s.pending = append(s.pending, p...)
	s.queued += len(p)
	s.wake()
	return nil
}

func (s *streams) inputEnd() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.msg.Stdin || s.ended {
		return agentproto.Unexpected(agentproto.FrameStdinEnd)
	}
	s.ended = true
	s.wake()
	return nil
}

func (s *streams) wake() {
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// take returns the input that waits, and whether it is the last.
func (s *streams) take() (p []byte, last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, s.pending = s.pending, nil
	return p, s.ended || s.closed
}

// feed writes the input to the command and grants as much again. What a
// command does not read is dropped once it has closed its end.
func (s *streams) feed() {
	broken := false
	for range s.more {
		p, last := s.take()
		if len(p) > 0 && !broken {
			_, err := s.in.Write(p)
			broken = err != nil
		}
		if last {
			break
		}
		if len(p) == 0 {
			continue // what woke was taken along before
		}
		s.mu.Lock()
		s.queued -= len(p)
		s.mu.Unlock()
		if s.w.Message(agentproto.FrameStdinCredit, agentproto.CreditMessage{Bytes: len(p)}) != nil {
			return // the session has ended
		}
	}
	if s.terminal == nil {
		s.in.Close()
		return
	}
	// A terminal's input ends with its end-of-file character (termios(3)).
	_, _ = s.in.Write([]byte{4})
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
		out.file.Close()
	}
	if s.terminal != nil {
		s.terminal.Close()
	}
	if s.in != nil {
		s.in.Close()
	}
}
