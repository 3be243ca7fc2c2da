package docker

import (
	"context"
	"sync"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/agentproto"
)

// box is a container with an agent that answers.
type box struct {
	session *agentproto.Session
	facts   sandbox.Facts

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

// watch closes done when the container has ended, its session has, or Remove
// was called, whichever is noticed first. The session is closed with it, so
// that nobody waits for an answer that cannot come.
func (b *box) watch(container *death) {
	defer close(b.done)
	defer func() { _ = ended(b.session.Close()) }()
	select {
	case <-container.ch:
	case <-b.session.Done():
	case <-b.removed:
	}
}

// Remove removes the container with all that runs in it, and what was made for
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
