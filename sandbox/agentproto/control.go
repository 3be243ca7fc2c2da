package agentproto

import (
	"context"
	"errors"
	"time"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/sandbox"
)

func (p *process) PID() int { return p.pid }

func (p *process) Wait() (sandbox.Exit, error) {
	<-p.done
	return p.exit, p.err
}

func (p *process) Signal(ctx context.Context, name string) error {
	if name == "" || !utf8.ValidString(name) {
		return invalid("", "A signal has a name such as SIGINT.")
	}
	return p.control(ctx, ControlMessage{Signal: name})
}

func (p *process) Resize(ctx context.Context, size sandbox.WindowSize) error {
	return p.control(ctx, ControlMessage{Resize: &SizeMessage{Rows: size.Rows, Cols: size.Cols}})
}

// Kill of a command that has ended is done already.
func (p *process) Kill(ctx context.Context, grace time.Duration) error {
	err := p.control(ctx, ControlMessage{Kill: &KillMessage{Grace: max(grace, 0)}})
	if sandbox.KindOf(err) == sandbox.KindNoProcess {
		return nil
	}
	return err
}

func (p *process) control(ctx context.Context, m ControlMessage) error {
	ch, err := p.send(m)
	if err != nil {
		return err
	}
	select {
	case err := <-ch:
		if errors.Is(err, errEnded) {
			return p.gone()
		}
		return err
	case <-ctx.Done():
		return cancelled(ctx)
	}
}

// send writes a control and returns where its answer comes. The lock is held
// meanwhile: the lane must not carry another command before it is written.
func (p *process) send(m ControlMessage) (chan error, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.acks == nil {
		return nil, p.gone()
	}
	ch := make(chan error, 1)
	p.nextID++
	m.ID = p.nextID
	p.acks[m.ID] = ch
	if err := p.op.w.Message(FrameControl, m); err != nil {
		return nil, p.op.failure(err)
	}
	return ch, nil
}

// gone is the error of a control that came after the end.
func (p *process) gone() error {
	if err := p.op.s.Err(); err != nil {
		return err
	}
	return &sandbox.Error{Kind: sandbox.KindNoProcess, Message: "The command has ended."}
}

func (p *process) acknowledge(m AckMessage) error {
	p.mu.Lock()
	ch, ok := p.acks[m.ID]
	delete(p.acks, m.ID)
	p.mu.Unlock()
	if m.ID == 0 {
		return nil // the answer to a cancel
	}
	if !ok {
		return broken("answer to a control %d that was not sent", m.ID)
	}
	if m.Err == nil {
		ch <- nil
		return nil
	}
	err := m.Err.Error()
	var refused *sandbox.Error
	if !errors.As(err, &refused) {
		return err
	}
	ch <- refused
	return nil
}
