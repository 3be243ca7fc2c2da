package runtime

import (
	"context"
	"time"
)

// Do carries a proposal down the whole road and returns the call when it is
// done. Once it is recorded, it goes on even if ctx ends: the error is then
// ctx's, and the call can be asked for by its id. A proposal whose idempotency
// key is bound gets the earlier call. Errors are *Problem: the proposal never
// became a call, or its end could not be recorded.
func (k *Kernel) Do(ctx context.Context, p Proposal) (Call, error) {
	f, err := k.receive(ctx, p)
	if err != nil {
		return Call{}, err
	}
	return f.wait(ctx)
}

// Submit is Do without the waiting: it returns once the call is recorded.
func (k *Kernel) Submit(ctx context.Context, p Proposal) (Call, error) {
	f, err := k.receive(ctx, p)
	if err != nil {
		return Call{}, err
	}
	return f.snapshot(), nil
}

// carry is the road of a call after its request was recorded: each stage in
// its own file, each mark in the ledger, and exactly one result at its end.
func (k *Kernel) carry(f *flight) {
	f.finish(k.record(f, k.travel(f)))
}

func (k *Kernel) travel(f *flight) (r Result) {
	defer func() {
		if p := recover(); p != nil { // a bug of one stage is one call's failure
			r = k.normalize(f, nil, Output{}, panicked(f, p))
		}
	}()
	checked, err := k.check(f)
	if err != nil {
		return k.refuse(f, CallRejected, err)
	}
	grant, err := k.authorize(f, checked)
	if err != nil {
		return k.refuse(f, CallDenied, err)
	}
	leave, err := k.schedule(f, grant)
	if err != nil {
		return k.normalize(f, grant, Output{}, err)
	}
	defer leave()
	if err := k.confine(f, checked, grant); err != nil {
		return k.refuse(f, CallDenied, err)
	}
	output, err := k.dispatch(f, grant)
	return k.normalize(f, grant, output, err)
}

// The stages in their order, each with the file of its name and the event
// that marks it; metrics and spans use the same names.
//
//	receive    TOOL_CALL_REQUEST
//	check      TOOL_CALL_VALIDATED  or TOOL_CALL_REJECTED
//	authorize  TOOL_CALL_AUTHORIZED or TOOL_CALL_DENIED
//	schedule   (no mark: a queued call is a recorded one)
//	confine    TOOL_CALL_DENIED, where a symlink leads out of the run's scope
//	dispatch   TOOL_CALL_STARTED
//	normalize  (result contract, artifacts, redaction)
//	record     TOOL_CALL_RESULT

// recordTimeout bounds the writing of a result, which does not end with its
// caller or its run.
const recordTimeout = 30 * time.Second
