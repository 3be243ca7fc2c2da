package agent

import (
	"os"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/agentproto"
	"golang.org/x/sys/unix"
)

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
		_ = unix.Close(master)
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
