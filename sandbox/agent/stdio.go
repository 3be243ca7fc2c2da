package agent

import (
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Stdio makes a connection of standard input and output. Both are moved out
// of the way first, and /dev/null takes their place: nothing that is started
// or printed later can touch the session.
func Stdio() (net.Conn, error) {
	in, err := moveAway(0, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	out, err := moveAway(1, os.O_WRONLY)
	if err != nil {
		return nil, err
	}
	return stdioConn{in, out}, nil
}

func moveAway(fd, flags int) (*os.File, error) {
	moved, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	null, err := unix.Open(os.DevNull, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(null)
	if err := unix.Dup3(null, fd, 0); err != nil {
		return nil, err
	}
	// Non-blocking, so that a close ends a read.
	if err := unix.SetNonblock(moved, true); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(moved), "stdio"), nil
}

// stdioConn is two files as a connection. It has no deadlines; the session
// above needs none.
type stdioConn struct{ in, out *os.File }

func (c stdioConn) Read(p []byte) (int, error)  { return c.in.Read(p) }
func (c stdioConn) Write(p []byte) (int, error) { return c.out.Write(p) }

func (c stdioConn) Close() error {
	_ = c.in.Close()
	return c.out.Close()
}

func (c stdioConn) LocalAddr() net.Addr              { return stdioAddr{} }
func (c stdioConn) RemoteAddr() net.Addr             { return stdioAddr{} }
func (c stdioConn) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (c stdioConn) SetReadDeadline(time.Time) error  { return os.ErrNoDeadline }
func (c stdioConn) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

type stdioAddr struct{}

func (stdioAddr) Network() string { return "stdio" }
func (stdioAddr) String() string  { return "stdio" }
