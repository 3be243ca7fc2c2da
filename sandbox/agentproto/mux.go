package agentproto

import (
	"io"
	"log"
	"net"
	"time"

	"github.com/hashicorp/yamux"
)

// MaxOperations is how many operations may be under way in one session.
const MaxOperations = 64

const (
	window       = 512 << 10
	writeTimeout = 20 * time.Second
	// abandonTimeout is how long the other end of a stream that was given up
	// may go on before it is reset.
	abandonTimeout = 5 * time.Second
)

// Client returns the service's end of the multiplexed conn.
func Client(conn net.Conn) (*yamux.Session, error) {
	return yamux.Client(newWire(conn, false), muxConfig())
}

// Server returns the agent's end of the multiplexed conn.
func Server(conn net.Conn) (*yamux.Session, error) {
	return yamux.Server(newWire(conn, true), muxConfig())
}

func muxConfig() *yamux.Config {
	return &yamux.Config{
		AcceptBacklog: MaxOperations,
		// No keepalive: a dead peer closes the connection, and a ping would
		// wake every idle box.
		EnableKeepAlive:        false,
		KeepAliveInterval:      time.Minute,
		ConnectionWriteTimeout: writeTimeout,
		MaxStreamWindowSize:    window,
		StreamCloseTimeout:     abandonTimeout,
		// What yamux would log comes out as the session's error.
		Logger: log.New(io.Discard, "", 0),
	}
}

// wire is the connection below yamux. Reading, it checks each yamux header
// before yamux acts on it: pings (each would cost a goroutine), streams that
// nobody accepts, and data beyond the window are refused. Writing, it joins
// headers with the data that follow, which yamux writes apart: one system call
// and one wake-up of the other end instead of up to three.
type wire struct {
	net.Conn
	acceptStreams bool

	// Reading: what is still missing of a header, or of the data after it.
	in     [yamuxHeader]byte
	inHave int
	inData uint32

	// Writing: headers that go with the next write.
	held   []byte
	joined []byte
}

// The yamux framing (spec.md of hashicorp/yamux, version 0).
const (
	yamuxHeader     = 12
	yamuxData       = 0
	yamuxWindow     = 1
	yamuxGoAway     = 3
	yamuxFlagSYN    = 1
	yamuxFlagACK    = 2
	yamuxJoinedSize = 4 << 10
	yamuxMaxHeld    = 32 * yamuxHeader
)

func newWire(conn net.Conn, acceptStreams bool) *wire {
	return &wire{Conn: conn, acceptStreams: acceptStreams}
}

func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if bad := w.check(p[:n]); bad != nil {
		return 0, bad
	}
	return n, err
}

// check follows the headers in what was read.
func (w *wire) check(p []byte) error {
	for len(p) > 0 {
		if w.inData > 0 {
			n := min(uint32(len(p)), w.inData)
			w.inData -= n
			p = p[n:]
			continue
		}
		n := copy(w.in[w.inHave:], p)
		w.inHave += n
		p = p[n:]
		if w.inHave < yamuxHeader {
			return nil
		}
		w.inHave = 0
		if err := w.checkHeader(); err != nil {
			return err
		}
	}
	return nil
}

func (w *wire) checkHeader() error {
	version, kind := w.in[0], w.in[1]
	flags := uint16(w.in[2])<<8 | uint16(w.in[3])
	length := uint32(w.in[8])<<24 | uint32(w.in[9])<<16 | uint32(w.in[10])<<8 | uint32(w.in[11])
	switch {
	case version != 0:
		return broken("yamux version %d", version)
	case kind != yamuxData && kind != yamuxWindow && kind != yamuxGoAway:
		return broken("yamux frame type %d", kind)
	case flags&yamuxFlagSYN != 0 && !w.acceptStreams:
		return broken("a stream that was not asked for")
	case length > window && kind != yamuxGoAway:
		return broken("yamux frame of %d bytes", length)
	}
	if kind == yamuxData {
		w.inData = length
	}
	return nil
}

func (w *wire) Write(p []byte) (int, error) {
	if w.holds(p) {
		w.held = append(w.held, p...)
		return len(p), nil
	}
	if len(w.held) == 0 {
		return w.Conn.Write(p)
	}
	held := len(w.held)
	defer func() { w.held = w.held[:0] }()
	if len(p) > yamuxJoinedSize {
		// Long data: a gathering write where the connection has one.
		both := net.Buffers{w.held, p}
		n, err := both.WriteTo(w.Conn)
		return max(0, int(n)-held), err
	}
	w.joined = append(append(w.joined[:0], w.held...), p...)
	n, err := w.Conn.Write(w.joined)
	return max(0, n-held), err
}

// holds says whether p is a header that can wait for the next write: that of
// data, which yamux writes next, or one that opens or accepts a stream, on
// which the same end is about to speak.
func (w *wire) holds(p []byte) bool {
	if len(p) != yamuxHeader || len(w.held) >= yamuxMaxHeld || w.afterData() {
		return false
	}
	empty := p[8]|p[9]|p[10]|p[11] == 0
	if p[1] == yamuxData {
		return !empty
	}
	return p[1] == yamuxWindow && p[2] == 0 && (p[3] == yamuxFlagSYN || p[3] == yamuxFlagACK) && empty
}

// afterData says whether the last held header is that of data: what comes
// next is the data then, whatever they look like.
func (w *wire) afterData() bool {
	n := len(w.held)
	return n > 0 && w.held[n-yamuxHeader+1] == yamuxData
}
