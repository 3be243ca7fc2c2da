package agentproto

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/sandboxd/sandboxd/sandbox"
)

// Session is the service's end of the conversation with one agent. It is safe
// for concurrent use.
type Session struct{ welcome Welcome }

var errNotYet = errors.New("agentproto: not built yet")

// Open says hello over conn and returns the session once the agent has
// answered. It owns conn from then on, also on error. ctx bounds the hello.
func Open(ctx context.Context, conn net.Conn, cfg Config) (*Session, error) { return nil, errNotYet }

// Start starts a command as [sandbox.Box] says.
func (s *Session) Start(ctx context.Context, cmd sandbox.Command) (sandbox.Process, error) {
	return nil, errNotYet
}

// Files is the file work in the box.
func (s *Session) Files() sandbox.Files { return nil }

// Facts is what the agent said of itself and its box.
func (s *Session) Facts() Welcome { return s.welcome }

// Done is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return nil }

// Err is nil while the session lives; then it says why it ended.
func (s *Session) Err() error { return nil }

// Ping asks the agent for an answer and returns how long it took.
func (s *Session) Ping(ctx context.Context) (time.Duration, error) { return 0, errNotYet }

// Close ends the session.
func (s *Session) Close() error { return nil }
