package runtime

import (
	"context"
	"encoding/json"
	"sync"
	"time"
)

// flight is one recorded call on its way. It owns the call's context, and is
// where those who wait for it or cancel it meet.
type flight struct {
	run *liveRun
	// arguments are as proposed, before anything was redacted for the record.
	arguments json.RawMessage
	ctx       context.Context
	cancel    context.CancelCauseFunc
	done      chan struct{}
	max       int // caller's cap of inline text, 0 is the tool's

	admitted bool // by authorize; for the run's count alone

	mu      sync.Mutex
	call    Call
	started time.Time
	ended   bool
	err     error
}

func newFlight(run *liveRun, call Call, p Proposal) *flight {
	ctx, cancel := context.WithCancelCause(run.ctx)
	return &flight{
		run: run, ctx: ctx, cancel: cancel, done: make(chan struct{}),
		arguments: p.Arguments, call: call, max: p.MaxResultChars,
	}
}

// landed is a flight that ended earlier: the recorded call is its answer.
func landed(call Call) *flight {
	f := &flight{done: make(chan struct{}), call: call, ended: true}
	close(f.done)
	return f
}

func (f *flight) wait(ctx context.Context) (Call, error) {
	select {
	case <-f.done:
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.call, f.err
	case <-ctx.Done():
		return f.snapshot(), context.Cause(ctx)
	}
}

func (f *flight) snapshot() Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.call
}

func (f *flight) update(change func(*Call)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.call)
}

// start marks the moment of dispatch; a cancel that came first wins.
func (f *flight) start(now time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ctx.Err() != nil {
		return context.Cause(f.ctx)
	}
	f.started = now
	f.call.State = CallRunning
	return nil
}

// stop cancels the call with a cause, unless it has ended.
func (f *flight) stop(cause *CancelCause) {
	_ = f.stopMarked(cause, func() error { return nil }) // the mark cannot fail
}

// stopMarked is stop, and makes the mark of it before anything can come of the
// cancel: the result is never marked first.
func (f *flight) stopMarked(cause *CancelCause, mark func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return nil
	}
	defer f.cancel(cause)
	return mark()
}

// settle ends the time in which a cancel is accepted and returns its cause, or
// nil: a success after this moment stands, and one before it never hides a
// cancel.
func (f *flight) settle() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	if f.ctx.Err() != nil {
		return context.Cause(f.ctx)
	}
	return nil
}

func (f *flight) finish(call Call, err error) {
	f.mu.Lock()
	f.call, f.err, f.ended = call, err, true
	f.mu.Unlock()
	f.run.leave(f)
	f.cancel(nil)
	close(f.done)
}
