package oci

import (
	"context"
	"log/slog"
	"sync"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/agentproto"
)

// box is a container with an agent that answers.
type box struct {
	session *agentproto.Session
	facts   sandbox.Facts
	log     *slog.Logger

	done    chan struct{} // closed by watch
	removed chan struct{} // closed by the first Remove
	once    sync.Once

	// mu lets one Remove run at a time; undo holds what is still to be removed.
	mu   sync.Mutex
	undo *undo
}

var _ sandbox.Box = (*box)(nil)

func (b *box) Start(ctx context.Context, cmd sandbox.Command) (sandbox.Process, error) {
	return b.session.Start(ctx, cmd)
}

func (b *box) Files() sandbox.Files  { return b.session.Files() }
func (b *box) Facts() sandbox.Facts  { return b.facts }
func (b *box) Done() <-chan struct{} { return b.done }

// watch closes done when the first process has ended, the session has, or
// Remove was called. The session is closed with it, so that nobody waits for
// an answer that cannot come.
func (b *box) watch(f *first, m *mutter) {
	defer close(b.done)
	defer func() { _ = b.session.Close() }() // it may have ended already
	select {
	case <-b.removed:
	case <-f.dead:
		b.log.Warn("a box's agent ended", "said", m.String())
	case <-b.session.Done():
		b.log.Warn("the session with a box's agent ended", "error", b.session.Err(), "said", m.String())
	}
}

// Remove kills all that runs in the box and removes it with what was made for
// it. What could not be removed is tried again by the next call.
func (b *box) Remove(ctx context.Context) error {
	b.once.Do(func() { close(b.removed) })
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.undo.run(ctx)
	<-b.done
	if err != nil {
		return unavailable("the box could not be removed entirely", err)
	}
	return nil
}
