package runtime

import (
	"context"
	"errors"
	"time"
)

// CancelCause says why a call's context ended; context.Cause carries it to the
// one place that reads it (normalize) and to the grace of a process kill.
type CancelCause struct {
	Reason string
	// Grace between TERM and KILL; negative is the default.
	Grace time.Duration
}

// The reasons of a cancel.
const (
	ReasonUser       = "user"
	ReasonBudget     = "budget"
	ReasonPolicy     = "policy"
	ReasonLeaseLost  = "lease_lost"
	ReasonTimeout    = "timeout"
	ReasonSuperseded = "superseded"
	ReasonClientGone = "client_gone"
	ReasonShutdown   = "shutdown"
	ReasonRunEnded   = "run_ended"
	ReasonBoxLost    = "box_lost"
)

// CancelReasons lists those that a caller may name.
func CancelReasons() []string {
	return []string{ReasonUser, ReasonBudget, ReasonPolicy, ReasonLeaseLost, ReasonSuperseded}
}

func (c *CancelCause) Error() string { return "cancelled: " + c.Reason }

// DefaultGrace is the time between TERM and KILL where nobody says otherwise.
const DefaultGrace = 2 * time.Second

// causeOf reads the cause of an ended context; anything else that ended it is
// a shutdown of ours.
func causeOf(err error) *CancelCause {
	if c, ok := errors.AsType[*CancelCause](err); ok {
		return c
	}
	return &CancelCause{Reason: ReasonShutdown, Grace: -1}
}

// graceOf is the grace that the cause of ctx asks for.
func graceOf(ctx context.Context) time.Duration {
	if ctx.Err() == nil {
		return DefaultGrace
	}
	if c := causeOf(context.Cause(ctx)); c.Grace >= 0 {
		return c.Grace
	}
	return DefaultGrace
}

// Cancel asks a call to end. A queued call then never starts; a running one
// has its process tree killed. A call that has ended is returned as it is.
// Errors are *Problem.
func (k *Kernel) Cancel(ctx context.Context, runID, callID, reason string, grace time.Duration) (Call, error) {
	f := k.flightOf(runID, callID)
	if f == nil {
		return k.Call(ctx, runID, callID)
	}
	err := f.stopMarked(&CancelCause{Reason: reason, Grace: grace}, func() error {
		return k.journal.Note(context.WithoutCancel(ctx), nil, Draft{
			RunID: runID, Kind: CallCancelRequested, ToolCallID: callID,
			Data: map[string]any{"reason": reason, "graceMs": max(grace, 0).Milliseconds()},
		})
	})
	if err != nil {
		return Call{}, err
	}
	return f.snapshot(), nil
}
