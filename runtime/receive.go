package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/sandboxd/sandboxd/runtime/schema"
)

// receive records the request before anything else happens, and sets the call
// on its road. A bound idempotency key leads to the earlier call, on its way
// or done.
func (k *Kernel) receive(ctx context.Context, p Proposal) (*flight, error) {
	if len(p.Arguments) == 0 { // left out; null is a value, and no object
		p.Arguments = json.RawMessage("{}")
	}
	run, err := k.live(ctx, p.RunID)
	if err != nil {
		return k.recall(ctx, p, err)
	}
	call, err := newCall(run, p, k.now())
	if err != nil {
		return nil, err
	}
	f := newFlight(run, call, p)
	if err := run.enter(f); err != nil {
		f.cancel(nil)
		return nil, err
	}
	prior, err := k.journal.Request(context.WithoutCancel(ctx), call)
	if err != nil || prior != nil {
		run.abandon(f)
		if err != nil {
			return nil, err
		}
		return k.rejoin(run, *prior), nil
	}
	if p.CancelWithCaller {
		context.AfterFunc(ctx, func() { f.stop(&CancelCause{Reason: ReasonClientGone, Grace: -1}) })
	}
	go k.carry(f)
	return f, nil
}

// recall finds what a repeated call of an ended run came to: whoever lost the
// answer, to a restart say, still gets it. Otherwise over says why there is no
// new call.
func (k *Kernel) recall(ctx context.Context, p Proposal, over error) (*flight, error) {
	if problem, ok := errors.AsType[*Problem](over); p.IdempotencyKey == "" || !ok || problem.Code != ProblemRunNotActive {
		return nil, over
	}
	prior, err := k.journal.Bound(ctx, p.RunID, p.ToolName, p.IdempotencyKey)
	switch hash := argumentsHash(p.Arguments); {
	case err != nil || prior.State != CallDone:
		return nil, over
	case prior.ArgumentsHash != hash:
		return nil, Problemf(ProblemIdempotency, "The idempotency key was used with other arguments by call %s, and the run is over. Create a new run for a new call.", prior.ToolCallID)
	}
	return landed(prior), nil
}

// rejoin finds the flight of an earlier call with the same key. Between the
// ledger's answer and the look here it may have landed.
func (k *Kernel) rejoin(run *liveRun, prior Call) *flight {
	if prior.State == CallDone {
		return landed(prior)
	}
	if f := run.flight(prior.ToolCallID); f != nil {
		return f
	}
	return k.reload(run, prior)
}

// reload reads a call that ended a moment ago.
func (k *Kernel) reload(run *liveRun, prior Call) *flight {
	ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
	defer cancel()
	if call, err := k.journal.Call(ctx, run.id, prior.ToolCallID); err == nil {
		return landed(call)
	}
	return landed(prior)
}

func newCall(run *liveRun, p Proposal, now time.Time) (Call, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Call{}, err
	}
	return Call{
		ToolCallID:     "call_" + id.String(),
		RunID:          p.RunID,
		StepID:         p.StepID,
		ParentCallID:   p.ParentCallID,
		ToolName:       p.ToolName,
		ToolVersion:    p.ToolVersion,
		Arguments:      run.redactJSON(p.Arguments),
		ArgumentsHash:  argumentsHash(p.Arguments),
		IdempotencyKey: p.IdempotencyKey,
		RequestedAt:    now,
		RequestedBy:    p.RequestedBy,
		Trace:          p.Trace,
		State:          CallQueued,
	}, nil
}

// argumentsHash is over the arguments as proposed. Those without a canonical
// form are refused by check, and hashed as they came.
func argumentsHash(args json.RawMessage) string {
	hash, err := schema.HashJSON(args)
	if err != nil {
		return schema.HashBytes(args)
	}
	return hash
}
