package agent

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/agentproto"
)

// Options say how the agent runs.
type Options struct {
	// Version is told in the welcome.
	Version string
	// TokenFile holds the token that a hello must show; it is read at each
	// hello. Where it does not exist and TokenOptional is set, the first
	// hello's token becomes the token.
	TokenFile     string
	TokenOptional bool
	// KeepUser runs commands and file work as the agent's own user, for an
	// agent outside any container.
	KeepUser bool
}

// Agent serves sessions. Make it with [New] and end it with Close.
type Agent struct {
	opts Options

	mu      sync.Mutex
	box     *box
	token   string // the first hello's, where there is no file
	current *session
	closed  bool
	serving sync.WaitGroup
}

// New returns an agent that is not yet configured: the first hello does that.
func New(opts Options) *Agent { return &Agent{opts: opts} }

// helloTimeout bounds how long a connection may take to authenticate.
const helloTimeout = 10 * time.Second

// Serve serves one connection until it ends. It owns conn.
func (a *Agent) Serve(conn net.Conn) error {
	if !a.enter() {
		_ = conn.Close()
		return net.ErrClosed
	}
	defer a.serving.Done()
	mux, err := agentproto.Server(conn)
	if err != nil {
		_ = conn.Close()
		return err
	}
	s := &session{agent: a, mux: mux}
	defer s.close()
	if err := s.greet(); err != nil {
		return fmt.Errorf("hello: %w", err)
	}
	return s.serve()
}

func (a *Agent) enter() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false
	}
	a.serving.Add(1)
	return true
}

// Listen serves connections of l until ctx ends or l fails. The latest
// authenticated one wins.
func (a *Agent) Listen(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		// How a session ended is of no use to the agent: the next one comes.
		go func() { _ = a.Serve(conn) }()
	}
}

// Close ends the session, kills all commands and waits until all is done.
func (a *Agent) Close() error {
	a.mu.Lock()
	a.closed = true
	current, box := a.current, a.box
	a.mu.Unlock()
	if current != nil {
		current.close()
	}
	a.serving.Wait()
	if box != nil {
		return box.close()
	}
	return nil
}

// admit checks a hello and makes s the session in force.
func (a *Agent) admit(s *session, hello agentproto.HelloMessage) (agentproto.Welcome, error) {
	if hello.Version != agentproto.Version {
		return agentproto.Welcome{}, &sandbox.Error{Kind: sandbox.KindUnsupported,
			Message: fmt.Sprintf("The agent speaks protocol version %d, the service %d.", agentproto.Version, hello.Version)}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.checkToken(string(hello.Token)); err != nil {
		return agentproto.Welcome{}, err
	}
	if a.closed {
		return agentproto.Welcome{}, &sandbox.Error{Kind: sandbox.KindUnavailable, Message: "The agent is ending."}
	}
	if a.box == nil {
		box, err := newBox(hello.Restore(), a.opts)
		if err != nil {
			return agentproto.Welcome{}, err
		}
		a.box = box
	}
	if a.current != nil {
		a.current.close()
	}
	a.current, s.box = s, a.box
	return a.box.welcome, nil
}

// checkToken compares in constant time. The caller holds a.mu.
func (a *Agent) checkToken(got string) error {
	want := a.token
	if a.opts.TokenFile != "" {
		data, err := os.ReadFile(a.opts.TokenFile)
		switch {
		case err == nil:
			want = strings.TrimSpace(string(data))
		case !errors.Is(err, os.ErrNotExist) || !a.opts.TokenOptional:
			return &sandbox.Error{Kind: sandbox.KindPermission, Message: "The agent has no token to compare with.", Cause: err}
		}
	}
	if want == "" && a.opts.TokenOptional {
		a.token, want = got, got
	}
	if want == "" || subtle.ConstantTimeCompare([]byte(want), []byte(got)) != 1 {
		return &sandbox.Error{Kind: sandbox.KindPermission, Message: "The agent refuses the session's token."}
	}
	return nil
}
