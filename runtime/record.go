package runtime

import (
	"context"
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
// run has gone, and returns the call as it now stands in the ledger.
func (k *Kernel) record(f *flight, r Result) (Call, error) {
	call := f.snapshot()
	call.State, call.Result = CallDone, &r
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.ctx), recordTimeout)
	defer cancel()
	usage := f.run.count(r)
	err := k.journal.Result(ctx, call, usage, Draft{
		RunID: f.run.id, Kind: CallResulted, ToolCallID: call.ToolCallID, Trace: call.Trace, Data: r,
	})
	if err != nil {
		k.log.Error("result not recorded", "runId", f.run.id, "toolCallId", call.ToolCallID, "status", r.Status, "err", err)
		return call, err
	}
	return call, nil
}
