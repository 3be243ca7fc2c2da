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
			if err := o.serve(); err != nil {
				var broken *agentproto.ProtocolError
				if errors.As(err, &broken) {
					s.close()
				}
			}
			_ = stream.Close()
		})
	}
}

// op is one operation on its stream.
type op struct {
	session *session
	box     *box
	stream  *yamux.Stream
	r       *agentproto.FrameReader
	w       *agentproto.FrameWriter
}

// serve runs the operation that the first frame names. What the operation
// refuses is answered; the error returned is the conversation's.
func (o *op) serve() error {
	t, payload, err := o.r.Next()
	if err != nil {
		return err
	}
	switch t {
	case agentproto.FramePing:
		return o.w.Message(agentproto.FramePong, nil)
	case agentproto.FrameStart:
		var m agentproto.StartMessage
		if err := agentproto.Decode(payload, &m); err != nil {
			return err
		}
		return o.command(m)
	}
	return o.file(t, payload)
}

// refuse answers with an error.
func (o *op) refuse(err error) error {
	return o.w.Message(agentproto.FrameError, agentproto.NewError(err))
}
