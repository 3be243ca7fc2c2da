package runtime

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"
)

// dispatch runs the tool's handler under the call's deadline. The handler's
// context carries the cause of its end; a panic becomes an error of ours.
func (k *Kernel) dispatch(f *flight, g *Grant) (out Output, err error) {
	started := k.now()
	if err := f.start(started); err != nil {
		return Output{}, err
	}
	if err := k.note(f, CallStarted, &CallUpdate{State: CallRunning, Started: true}, nil); err != nil {
		return Output{}, err
	}
	ctx, cancel := context.WithTimeoutCause(f.ctx, g.timeout, &CancelCause{Reason: ReasonTimeout, Grace: -1})
	defer cancel()
	g.grace = func() time.Duration { return graceOf(ctx) }
	defer k.lastResort(ctx, f.run)()
	defer func() {
		if r := recover(); r != nil {
			err = panicked(f, r)
		}
	}()
	out, err = g.tool.run(ctx, g, g.input)
	if ctx.Err() != nil {
		f.cancel(context.Cause(ctx))
	}
	return out, err
}

// panicked makes an error of a panic, for the log.
func panicked(f *flight, p any) error {
	return fmt.Errorf("%s panicked: %v\n%s", f.call.ToolName, p, debug.Stack())
}

// lastResort removes the box when a handler has not come back a good while
// after its end was asked for: the agent is wedged, and nothing of the run can
// be trusted to end any more.
func (k *Kernel) lastResort(ctx context.Context, run *liveRun) (disarm func()) {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(graceOf(ctx) + stuckAfter)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
			k.log.Error("box does not end a command; removing it", "runId", run.id)
			k.loseBox(run, "a command could not be ended in time")
		}
	})
	return func() {
		stop()
		close(done)
	}
}

// stuckAfter is how long a handler may take to come back after the grace.
const stuckAfter = 30 * time.Second
