package agentproto

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
	"github.com/sandboxd/sandboxd/sandbox"
)

// Session is the service's end of the conversation with one agent. It is safe
// for concurrent use.
type Session struct {
	mux     *yamux.Session
	welcome Welcome
	slots   chan struct{} // one token an operation
	idle    chan *lane    // streams whose operation ended cleanly

	done chan struct{}
	once sync.Once
	err  error // set before done is closed
}

// Open says hello over conn and returns the session once the agent has
// answered. It owns conn from then on, also on error. ctx bounds the hello.
// The error is a *sandbox.Error: KindPermission where the agent refuses the
// token, KindUnsupported where it speaks another version, else
// KindUnavailable.
func Open(ctx context.Context, conn net.Conn, cfg Config) (*Session, error) {
	mux, err := Client(conn)
	if err != nil {
		_ = conn.Close()
		return nil, unavailable("The session with the agent cannot be opened.", err)
	}
	s := &Session{mux: mux, slots: make(chan struct{}, MaxOperations), idle: make(chan *lane, maxIdle), done: make(chan struct{})}
	go s.watch()
	if err := s.hello(ctx, cfg); err != nil {
		s.end(err)
		return nil, err
	}
	return s, nil
}

func (s *Session) hello(ctx context.Context, cfg Config) error {
	op, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer op.end()
	if err := op.w.Message(FrameHello, NewHello(cfg)); err != nil {
		return op.failure(err)
	}
	if err := op.r.Expect(FrameWelcome, &s.welcome); err != nil {
		return op.failure(err)
	}
	return nil
}

// watch ends the session when the connection does. The service accepts no
// streams, so the accept returns only then.
func (s *Session) watch() {
	_, err := s.mux.AcceptStream()
	if err == nil {
		err = broken("a stream that was not asked for")
	}
	s.end(lost(err))
}

// end ends the session with err, once.
func (s *Session) end(err error) {
	s.once.Do(func() {
		s.err = err
		close(s.done)
	})
	_ = s.mux.Close()
}

// lost makes the error of a session that ended.
func lost(err error) error {
	message := "The connection to the box was lost."
	var p *ProtocolError
	if errors.As(err, &p) {
		message = "The box broke the agent's protocol; it can no longer be trusted."
	}
	return unavailable(message, err)
}

// Facts is what the agent said of itself and its box.
func (s *Session) Facts() Welcome { return s.welcome }

// Done is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err is nil while the session lives; then it says why it ended.
func (s *Session) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Close ends the session; whatever is under way fails with KindUnavailable.
func (s *Session) Close() error {
	s.end(unavailable("The session with the box was closed.", nil))
	return nil
}

// Ping asks the agent for an answer and returns how long it took.
func (s *Session) Ping(ctx context.Context) (time.Duration, error) {
	start := time.Now()
	op, err := s.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer op.end()
	if err := op.w.Message(FramePing, nil); err != nil {
		return 0, op.failure(err)
	}
	if err := op.r.Expect(FramePong, nil); err != nil {
		return 0, op.failure(err)
	}
	op.clean = true
	return time.Since(start), nil
}

// Files is the file work in the box.
func (s *Session) Files() sandbox.Files { return files{s} }

// A lane is a stream with its reader and writer. One whose operation has ended
// cleanly carries the next: opening and closing a stream costs more than a
// short operation's own frames.
type lane struct {
	stream *yamux.Stream
	r      *FrameReader
	w      *FrameWriter
}

// maxIdle is how many lanes are kept for later operations.
const maxIdle = 4

// An operation has a lane for itself. Its context's end makes every read and
// write on it fail at once.
type operation struct {
	*lane
	s     *Session
	ctx   context.Context
	stop  func() bool
	clean bool // the lane can carry another operation
}

// begin takes a lane. The error is what the operation returns.
func (s *Session) begin(ctx context.Context) (*operation, error) {
	if err := s.acquire(ctx); err != nil {
		return nil, err
	}
	l, err := s.lane()
	if err != nil {
		<-s.slots
		s.end(lost(err))
		return nil, s.err
	}
	op := &operation{lane: l, s: s, ctx: ctx}
	op.stop = context.AfterFunc(ctx, func() {
		// A deadline in the past; setting it cannot fail.
		_ = l.stream.SetDeadline(time.Unix(1, 0))
	})
	return op, nil
}

func (s *Session) lane() (*lane, error) {
	select {
	case l := <-s.idle:
		return l, nil
	default:
	}
	stream, err := s.mux.OpenStream()
	if err != nil {
		return nil, err
	}
	return &lane{stream: stream, r: NewFrameReader(stream), w: NewFrameWriter(stream)}, nil
}

func (s *Session) acquire(ctx context.Context) error {
	if ctx.Err() != nil {
		return cancelled(ctx)
	}
	select {
	case s.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return cancelled(ctx)
	case <-s.done:
		return s.err
	}
}

// detach lets the operation outlive its context.
func (op *operation) detach() bool { return op.stop() }

// end keeps the lane for the next operation if it is clean and the context's
// end has not touched it, and else gives the stream up.
func (op *operation) end() {
	defer func() { <-op.s.slots }()
	if op.stop() && op.clean {
		op.r.Shrink()
		select {
		case op.s.idle <- op.lane:
			return
		default:
		}
	}
	// The peer's end of the stream ends with the session at the latest.
	_ = op.stream.Close()
}

// failure turns the error of a read or write on the stream into what the
// operation returns; one that is not the operation's own fault or its
// context's ends the session.
func (op *operation) failure(err error) error {
	var refused *sandbox.Error
	if errors.As(err, &refused) {
		return refused
	}
	var long *TooLongError
	if errors.As(err, &long) {
		return &sandbox.Error{Kind: sandbox.KindTooLarge, Message: "The request is too large for the box.", Cause: err}
	}
	var p *ProtocolError
	if op.ctx.Err() != nil && !errors.As(err, &p) {
		return cancelled(op.ctx)
	}
	op.s.end(lost(err))
	return op.s.err
}

func cancelled(ctx context.Context) error {
	return &sandbox.Error{Kind: sandbox.KindCancelled, Message: "The work was cancelled before it was done.", Cause: context.Cause(ctx)}
}
