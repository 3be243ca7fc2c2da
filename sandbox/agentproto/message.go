package agentproto

import (
	"io/fs"
	"slices"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/sandboxd/sandboxd/sandbox"
	"golang.org/x/sys/unix"
)

// Bytes is a string that travels as a CBOR byte string: paths and arguments
// need not be UTF-8.
type Bytes = cbor.ByteString

// HelloMessage opens the session.
type HelloMessage struct {
	Version int      `cbor:"1,keyasint"`
	Token   Bytes    `cbor:"2,keyasint"`
	Config  Config   `cbor:"3,keyasint"`
	Filter  []uint64 `cbor:"4,keyasint,omitempty"` // a SockFilter each, packed
}

// NewHello makes the hello for cfg.
func NewHello(cfg Config) HelloMessage {
	m := HelloMessage{Version: Version, Token: Bytes(cfg.Token), Config: cfg}
	for _, f := range cfg.Filter {
		m.Filter = append(m.Filter, uint64(f.Code)<<48|uint64(f.Jt)<<40|uint64(f.Jf)<<32|uint64(f.K))
	}
	return m
}

// Restore returns the configuration with the parts that travel beside it.
func (m HelloMessage) Restore() Config {
	cfg := m.Config
	cfg.Token = string(m.Token)
	cfg.Filter = nil
	for _, v := range m.Filter {
		cfg.Filter = append(cfg.Filter, unix.SockFilter{
			Code: uint16(v >> 48), Jt: uint8(v >> 40), Jf: uint8(v >> 32), K: uint32(v)})
	}
	return cfg
}

// ErrorMessage is a *sandbox.Error on the wire.
type ErrorMessage struct {
	Kind        string `cbor:"1,keyasint"`
	Path        Bytes  `cbor:"2,keyasint,omitempty"`
	Message     string `cbor:"3,keyasint,omitempty"`
	CurrentHash string `cbor:"4,keyasint,omitempty"`
}

// NewError turns any error into a message; one that is no *sandbox.Error is
// internal.
func NewError(err error) ErrorMessage {
	e := asError(err)
	return ErrorMessage{Kind: string(e.Kind), Path: Bytes(e.Path), Message: validText(e.Message), CurrentHash: e.CurrentHash}
}

// Error returns the error; a kind that is not in the closed list breaks the
// protocol.
func (m ErrorMessage) Error() error {
	kind := sandbox.Kind(m.Kind)
	if !slices.Contains(sandbox.Kinds(), kind) {
		return broken("unknown kind of error %q", m.Kind)
	}
	return &sandbox.Error{Kind: kind, Path: string(m.Path), Message: m.Message, CurrentHash: m.CurrentHash}
}

// StartMessage asks for a command. Stdin, Stdout and Stderr say which streams
// are wanted; the others are /dev/null.
type StartMessage struct {
	Argv         []Bytes      `cbor:"1,keyasint"`
	Dir          Bytes        `cbor:"2,keyasint,omitempty"`
	Env          []Bytes      `cbor:"3,keyasint,omitempty"`
	Stdin        bool         `cbor:"4,keyasint,omitempty"`
	Stdout       bool         `cbor:"5,keyasint,omitempty"`
	Stderr       bool         `cbor:"6,keyasint,omitempty"`
	KeepChildren bool         `cbor:"7,keyasint,omitempty"`
	TTY          *SizeMessage `cbor:"8,keyasint,omitempty"`
}

// SizeMessage is a terminal's size.
type SizeMessage struct {
	Rows uint16 `cbor:"1,keyasint"`
	Cols uint16 `cbor:"2,keyasint"`
}

// StartedMessage tells that the process exists.
type StartedMessage struct {
	PID int `cbor:"1,keyasint"`
}

// CreditMessage grants further bytes of input.
type CreditMessage struct {
	Bytes int `cbor:"1,keyasint"`
}

// ControlMessage asks something of a running command; exactly one of the
// fields after ID is set. Cancel takes a start back.
type ControlMessage struct {
	ID     uint32       `cbor:"1,keyasint"`
	Signal string       `cbor:"2,keyasint,omitempty"`
	Resize *SizeMessage `cbor:"3,keyasint,omitempty"`
	Kill   *KillMessage `cbor:"4,keyasint,omitempty"`
	Cancel bool         `cbor:"5,keyasint,omitempty"`
}

// KillMessage asks for the end of the process tree.
type KillMessage struct {
	Grace time.Duration `cbor:"1,keyasint"`
}

// AckMessage answers the control with the same ID.
type AckMessage struct {
	ID  uint32        `cbor:"1,keyasint"`
	Err *ErrorMessage `cbor:"2,keyasint,omitempty"`
}

// ExitMessage is a sandbox.Exit on the wire.
type ExitMessage struct {
	Code         int           `cbor:"1,keyasint"`
	Signal       string        `cbor:"2,keyasint,omitempty"`
	Killed       int           `cbor:"3,keyasint,omitempty"`
	KillStep     string        `cbor:"4,keyasint,omitempty"`
	Leftover     int           `cbor:"5,keyasint,omitempty"`
	OOMKilled    bool          `cbor:"6,keyasint,omitempty"`
	PidsLimitHit bool          `cbor:"7,keyasint,omitempty"`
	Wall         time.Duration `cbor:"8,keyasint,omitempty"`
	CPU          time.Duration `cbor:"9,keyasint,omitempty"`
	MaxRSSBytes  int64         `cbor:"10,keyasint,omitempty"`
}

// NewExit makes the message of an exit.
func NewExit(e sandbox.Exit) ExitMessage {
	return ExitMessage{
		Code: e.Code, Signal: e.Signal, Killed: e.Killed, KillStep: e.KillStep, Leftover: e.Leftover,
		OOMKilled: e.OOMKilled, PidsLimitHit: e.PidsLimitHit,
		Wall: e.Usage.Wall, CPU: e.Usage.CPU, MaxRSSBytes: e.Usage.MaxRSSBytes,
	}
}

// Exit returns the exit, or an error where no command can have ended so.
func (m ExitMessage) Exit() (sandbox.Exit, error) {
	if m.Code < -1 || m.Code > 255 || (m.Code == -1) != (m.Signal != "") {
		return sandbox.Exit{}, broken("exit code %d with signal %q", m.Code, m.Signal)
	}
	if m.Killed < 0 || m.Leftover < 0 || m.Wall < 0 || m.CPU < 0 || m.MaxRSSBytes < 0 {
		return sandbox.Exit{}, broken("exit with a negative count")
	}
	return sandbox.Exit{
		Code: m.Code, Signal: m.Signal, Killed: m.Killed, KillStep: m.KillStep, Leftover: m.Leftover,
		OOMKilled: m.OOMKilled, PidsLimitHit: m.PidsLimitHit,
		Usage: sandbox.Usage{Wall: m.Wall, CPU: m.CPU, MaxRSSBytes: m.MaxRSSBytes},
	}, nil
}

// InfoMessage is a sandbox.FileInfo on the wire.
type InfoMessage struct {
	Type    string `cbor:"1,keyasint"`
	Bytes   int64  `cbor:"2,keyasint,omitempty"`
	Mode    uint32 `cbor:"3,keyasint,omitempty"`
	ModTime int64  `cbor:"4,keyasint,omitempty"` // nanoseconds since 1970
	Links   uint64 `cbor:"5,keyasint,omitempty"`
	Target  Bytes  `cbor:"6,keyasint,omitempty"`
}

// NewInfo makes the message of a file's description.
func NewInfo(i sandbox.FileInfo) InfoMessage {
	m := InfoMessage{Type: string(i.Type), Bytes: i.Bytes, Mode: uint32(i.Mode.Perm()), Links: i.Links, Target: Bytes(i.Target)}
	if !i.ModTime.IsZero() {
		m.ModTime = i.ModTime.UnixNano()
	}
	return m
}

// Info returns the description; an unknown type breaks the protocol. An entry
// that could not be read has none.
func (m InfoMessage) Info() (sandbox.FileInfo, error) {
	t := sandbox.FileType(m.Type)
	switch t {
	case "", sandbox.TypeFile, sandbox.TypeDir, sandbox.TypeSymlink, sandbox.TypeFIFO, sandbox.TypeSocket, sandbox.TypeDevice:
	default:
		return sandbox.FileInfo{}, broken("unknown type of file %q", m.Type)
	}
	if m.Bytes < 0 {
		return sandbox.FileInfo{}, broken("file of %d bytes", m.Bytes)
	}
	return sandbox.FileInfo{
		Type: t, Bytes: m.Bytes, Mode: fs.FileMode(m.Mode) & fs.ModePerm, ModTime: time.Unix(0, m.ModTime),
		Links: m.Links, Target: string(m.Target),
	}, nil
}
