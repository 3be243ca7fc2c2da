package agent

import (
	"github.com/sandboxd/sandboxd/sandbox/agentproto"
)

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
		_ = s.in.Close()
		return
	}
	// A terminal's input ends with its end-of-file character (termios(3)).
	_, _ = s.in.Write([]byte{4})
}
