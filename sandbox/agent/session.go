package agent

import (
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
	"github.com/sandboxd/sandboxd/sandbox/agentproto"
)

// session is one connection of the service.
type session struct {
	agent *Agent
	mux   *yamux.Session
	box   *box
	ops   sync.WaitGroup
}

// close ends the connection; commands of the session see that and die.
func (s *session) close() { _ = s.mux.Close() }

// greet takes the hello and answers it.
func (s *session) greet() error {
	timer := time.AfterFunc(helloTimeout, s.close)
	defer timer.Stop()
	stream, err := s.mux.AcceptStream()
	if err != nil {
		return err
	}
	defer stream.Close()
	r, w := agentproto.NewFrameReader(stream), agentproto.NewFrameWriter(stream)
	var hello agentproto.HelloMessage
	if err := r.Expect(agentproto.FrameHello, &hello); err != nil {
		return err
	}
	welcome, err := s.agent.admit(s, hello)
	if err != nil {
		// Stay until the refusal has been read, at most until the timer.
		err = errors.Join(err, w.Message(agentproto.FrameError, agentproto.NewError(err)), stream.Close())
		_, _, _ = r.Next()
		return err
	}
	return w.Message(agentproto.FrameWelcome, welcome)
}

// serve takes operations until the connection ends, and then waits for them.
func (s *session) serve() error {
	defer s.ops.Wait()
	for {
		stream, err := s.mux.AcceptStream()
		if err != nil {
			return err
		}
		s.ops.Go(func() {
			o := &op{session: s, box: s.box, stream: stream, r: agentproto.NewFrameReader(stream), w: agentproto.NewFrameWriter(stream)}
			if err := o.serveAll(); err != nil {
				var broken *agentproto.ProtocolError
				if errors.As(err, &broken) {
					s.close()
				}
			}
			_ = stream.Close()
		})
	}
}

// op is one stream and the operation on it.
type op struct {
	session *session
	box     *box
	stream  *yamux.Stream
	r       *agentproto.FrameReader
	w       *agentproto.FrameWriter
	watched bool // the service's end is being watched
}

// request is the frame that begins an operation.
type request struct {
	frame   agentproto.FrameType
	payload []byte
}

// errOver ends a stream that can carry no further operation.
var errOver = errors.New("the stream is used up")

// serveAll serves one operation after another.
func (o *op) serveAll() error {
	req, err := o.next()
	for err == nil {
		req, err = o.serve(req)
	}
	if errors.Is(err, errOver) {
		return nil
	}
	return err
}

// next reads the next request. What the service had still to say to a command
// that has ended meanwhile comes before it.
func (o *op) next() (request, error) {
	for {
		t, payload, err := o.r.Next()
		if err != nil {
			return request{}, err
		}
		switch t {
		case agentproto.FrameStdin, agentproto.FrameStdinEnd, agentproto.FrameControl:
		default:
			return request{t, payload}, nil
		}
	}
}

// serve runs the operation that a request names and returns the next request.
// What the operation refuses is answered; the error returned is the
// conversation's.
func (o *op) serve(req request) (request, error) {
	switch req.frame {
	case agentproto.FramePing:
		if err := o.w.Message(agentproto.FramePong, nil); err != nil {
			return request{}, err
		}
		return o.next()
	case agentproto.FrameStart:
		var m agentproto.StartMessage
		if err := agentproto.Decode(req.payload, &m); err != nil {
			return request{}, err
		}
		return o.command(m)
	}
	if err := o.file(req.frame, req.payload); err != nil {
		return request{}, err
	}
	o.r.Shrink()
	return o.next()
}

// refuse answers with an error.
func (o *op) refuse(err error) error {
	return o.w.Message(agentproto.FrameError, agentproto.NewError(err))
}
