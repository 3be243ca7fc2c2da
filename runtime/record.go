package runtime

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// note marks a station of the road.
func (k *Kernel) note(f *flight, kind EventKind, update *CallUpdate, data any) error {
	if update != nil {
		update.ToolCallID = f.call.ToolCallID
	}
	return k.journal.Note(context.WithoutCancel(f.ctx), update, Draft{
		RunID: f.run.id, Kind: kind, ToolCallID: f.call.ToolCallID, Trace: f.call.Trace, Data: data,
	})
}

// record writes the result under its own deadline, also when the caller or the
// run has gone, and returns the call as it now stands in the ledger. A result
// that the ledger cannot take now (its disk is full) is kept and tried again:
// what was done is done, and has to be found by the call's id.
func (k *Kernel) record(f *flight, r Result) (Call, error) {
	call := f.snapshot()
	call.State, call.Result = CallDone, &r
	usage := f.run.count(f, r)
	write := func(ctx context.Context) error {
		return k.journal.Result(ctx, call, usage, Draft{
			RunID: f.run.id, Kind: CallResulted, ToolCallID: call.ToolCallID, Trace: call.Trace, Data: r,
		})
	}
	err := k.write(context.WithoutCancel(f.ctx), write)
	if err == nil {
		return call, nil
	}
	k.log.Error("result not recorded", "runId", f.run.id, "toolCallId", call.ToolCallID, "status", r.Status, "err", err)
	if !passing(err) {
		return call, err
	}
	k.tasks.Go(func() { k.persist("result of call "+call.ToolCallID, write) })
	return call, unrecorded(call, err)
}

func (k *Kernel) write(ctx context.Context, write func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	return write(ctx)
}

// persist repeats a write that the ledger could not take until it is there, or
// the service stops: the next start then settles what is open (Recover).
func (k *Kernel) persist(what string, write func(context.Context) error) {
	const longest = 30 * time.Second
	for delay := 250 * time.Millisecond; ; delay = min(2*delay, longest) {
		stopping := false
		select {
		case <-time.After(delay):
		case <-k.ctx.Done():
			stopping = true
		}
		err := k.write(context.Background(), write)
		switch {
		case err == nil:
			k.log.Info("recorded after all", "what", what)
			return
		case stopping || !passing(err):
			k.log.Error("given up", "what", what, "err", err)
			return
		}
	}
}

// passing tells whether the same write may succeed later.
func passing(err error) bool {
	p, ok := errors.AsType[*Problem](err)
	return !ok || p.Code == ProblemStorageFull || p.Code == ProblemUnavailable
}

// unrecorded tells a caller who waited that the call itself is over.
func unrecorded(call Call, err error) *Problem {
	p := &Problem{Code: ProblemUnavailable, Cause: err}
	if inner, ok := errors.AsType[*Problem](err); ok {
		p.Code = inner.Code
	}
	p.Detail = fmt.Sprintf("The call was carried out, but its result cannot be recorded now. Do not repeat it: ask for call %s, which has the result once there is room for it.", call.ToolCallID)
	return p
}
