package agentproto

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// FrameType says what a frame's payload is. Append only.
type FrameType byte

// The types of frame. The first frame of a stream, sent by the service, names
// the operation; the comment tells who sends what.
const (
	FrameError FrameType = iota + 1 // agent: ErrorMessage; ends the operation

	FrameHello   // service: HelloMessage, the operation
	FrameWelcome // agent: Welcome
	FramePing    // service: empty, the operation
	FramePong    // agent: empty

	FrameStart       // service: StartMessage, the operation
	FrameStarted     // agent: StartedMessage
	FrameStdin       // service: raw input, within the credit
	FrameStdinEnd    // service: empty
	FrameStdinCredit // agent: CreditMessage, further bytes of input it takes
	FrameStdout      // agent: raw output
	FrameStderr      // agent: raw output
	FrameControl     // service: ControlMessage
	FrameAck         // agent: AckMessage, the answer to one control
	FrameExit        // agent: ExitMessage; ends the operation

	FrameStat       // service: StatMessage, the operation
	FrameInfo       // agent: InfoMessage
	FrameRead       // service: ReadMessage, the operation
	FrameWalk       // service: WalkMessage, the operation
	FrameNames      // service: NamesMessage, may repeat
	FrameEntries    // agent: EntriesMessage, may repeat
	FrameApply      // service: ApplyMessage, the operation
	FrameApplied    // agent: AppliedMessage; ends the operation
	FrameFill       // service: empty, the operation
	FrameEntry      // service: EntryMessage
	FrameFilled     // agent: FilledMessage; ends the operation
	FrameContent    // both: raw bytes of a file
	FrameContentEnd // both: the end of one file; from the agent a ContentEndMessage
	FrameEnd        // both: empty, the end of a list
	frameTypes
)

// MaxMessage is the most bytes that the payload of one frame has, MaxChunk the
// most of one with raw bytes.
const (
	MaxMessage = 1 << 20
	MaxChunk   = 128 << 10
)

// StdinCredit is how many bytes of input the service may send before the
// agent has granted more. It keeps input that a command does not read from
// blocking the controls behind it.
const StdinCredit = 64 << 10

const headerBytes = 5

// HeaderRoom is how many bytes RawInPlace needs before the payload.
const HeaderRoom = headerBytes

func (t FrameType) raw() bool {
	switch t {
	case FrameStdin, FrameStdout, FrameStderr, FrameContent:
		return true
	}
	return false
}

func (t FrameType) limit() uint32 {
	if t.raw() {
		return MaxChunk
	}
	return MaxMessage
}

// A ProtocolError says how the other end broke the protocol. It ends the
// session.
type ProtocolError struct{ Reason string }

func (e *ProtocolError) Error() string { return "agent protocol broken: " + e.Reason }

func broken(format string, args ...any) error {
	return &ProtocolError{Reason: fmt.Sprintf(format, args...)}
}

// Unexpected is the error for a frame that must not come here.
func Unexpected(t FrameType) error { return broken("unexpected frame type %d", t) }

// FrameReader reads frames. It is not safe for concurrent use.
type FrameReader struct {
	r   *bufio.Reader
	buf []byte
}

// NewFrameReader reads from r.
func NewFrameReader(r io.Reader) *FrameReader {
	return &FrameReader{r: bufio.NewReaderSize(r, 4<<10)}
}

// Next returns the next frame. The payload is valid until the next call.
// The error is io.EOF only between frames; a *ProtocolError tells that the
// other end broke the rules.
func (f *FrameReader) Next() (FrameType, []byte, error) {
	var header [headerBytes]byte
	if _, err := io.ReadFull(f.r, header[:]); err != nil {
		return 0, nil, err
	}
	t, n := FrameType(header[0]), binary.BigEndian.Uint32(header[1:])
	if t == 0 || t >= frameTypes {
		return 0, nil, broken("unknown frame type %d", t)
	}
	if n > t.limit() {
		return 0, nil, broken("frame of type %d has %d bytes", t, n)
	}
	if int(n) > cap(f.buf) {
		f.buf = make([]byte, n)
	}
	payload := f.buf[:n]
	if _, err := io.ReadFull(f.r, payload); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return t, payload, nil
}

// Shrink gives a large buffer back.
func (f *FrameReader) Shrink() {
	if cap(f.buf) > shrinkAbove {
		f.buf = nil
	}
}

// shrinkAbove is how much a reader keeps between two operations.
const shrinkAbove = 16 << 10

// Expect reads a frame that must be of type want and decodes it into v; v may
// be nil for an empty payload. A FrameError is returned as its error.
func (f *FrameReader) Expect(want FrameType, v any) error {
	t, payload, err := f.Next()
	if err != nil {
		return err
	}
	return DecodeAs(t, payload, want, v)
}

// DecodeAs decodes the payload of a frame that must be of type want. A
// FrameError is returned as its *sandbox.Error.
func DecodeAs(t FrameType, payload []byte, want FrameType, v any) error {
	switch {
	case t == FrameError && want != FrameError:
		var m ErrorMessage
		if err := Decode(payload, &m); err != nil {
			return err
		}
		return m.Error()
	case t != want:
		return Unexpected(t)
	case v != nil:
		return Decode(payload, v)
	case len(payload) != 0:
		return broken("frame of type %d is not empty", t)
	}
	return nil
}

// FrameWriter writes frames, each with as few writes as possible. It is safe
// for concurrent use.
type FrameWriter struct {
	mu  sync.Mutex
	w   io.Writer
	buf []byte
}

// NewFrameWriter writes to w.
func NewFrameWriter(w io.Writer) *FrameWriter { return &FrameWriter{w: w} }

// keepBuffer is how much buffered output a writer keeps before it writes.
const keepBuffer = 32 << 10

// Message writes a frame with v as CBOR; nil is an empty payload. Frames that
// were queued go first.
func (f *FrameWriter) Message(t FrameType, v any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.appendMessage(t, v); err != nil {
		return err
	}
	return f.flush()
}

// Queue is Message without the write: a later one carries it.
func (f *FrameWriter) Queue(t FrameType, v any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.appendMessage(t, v); err != nil {
		return err
	}
	return f.flushIfLong()
}

// Raw writes p as frames of type t, MaxChunk bytes at most each.
func (f *FrameWriter) Raw(t FrameType, p []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.appendRaw(t, p); err != nil {
		return err
	}
	return f.flush()
}

// RawInPlace writes buf, whose first HeaderRoom bytes it overwrites, as one
// frame: what follows them is the payload, MaxChunk bytes at most. Nothing is
// copied.
func (f *FrameWriter) RawInPlace(t FrameType, buf []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.flush(); err != nil {
		return err
	}
	buf[0] = byte(t)
	binary.BigEndian.PutUint32(buf[1:], uint32(len(buf)-headerBytes))
	_, err := f.w.Write(buf)
	return err
}

// QueueRaw is Raw without the last write.
func (f *FrameWriter) QueueRaw(t FrameType, p []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.appendRaw(t, p); err != nil {
		return err
	}
	return f.flushIfLong()
}

// Flush writes what was queued.
func (f *FrameWriter) Flush() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.flush()
}

func (f *FrameWriter) appendMessage(t FrameType, v any) error {
	var payload []byte
	if v != nil {
		var err error
		if payload, err = Encode(v); err != nil {
			return err
		}
	}
	if uint32(len(payload)) > t.limit() {
		return &TooLongError{Bytes: len(payload)}
	}
	f.append(t, payload)
	return nil
}

func (f *FrameWriter) appendRaw(t FrameType, p []byte) error {
	for len(p) > 0 {
		n := min(len(p), MaxChunk)
		f.append(t, p[:n])
		p = p[n:]
		if len(p) > 0 {
			if err := f.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *FrameWriter) append(t FrameType, payload []byte) {
	f.buf = append(f.buf, byte(t))
	f.buf = binary.BigEndian.AppendUint32(f.buf, uint32(len(payload)))
	f.buf = append(f.buf, payload...)
}

func (f *FrameWriter) flushIfLong() error {
	if len(f.buf) < keepBuffer {
		return nil
	}
	return f.flush()
}

func (f *FrameWriter) flush() error {
	if len(f.buf) == 0 {
		return nil
	}
	_, err := f.w.Write(f.buf)
	if cap(f.buf) > 2*MaxChunk {
		f.buf = nil
	}
	f.buf = f.buf[:0]
	return err
}

// TooLongError says that a message does not fit into a frame.
type TooLongError struct{ Bytes int }

func (e *TooLongError) Error() string {
	return fmt.Sprintf("message of %d bytes exceeds the %d of a frame", e.Bytes, MaxMessage)
}
