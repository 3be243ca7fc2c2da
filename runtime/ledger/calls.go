package ledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sandboxd/sandboxd/runtime"
)

// Request implements runtime.CallJournal. The event TOOL_CALL_REQUEST holds
// the arguments as they were given.
func (l *Ledger) Request(ctx context.Context, call runtime.Call) (prior *runtime.Call, err error) {
	if call.ToolCallID == "" || call.RunID == "" {
		return nil, internal(errors.New("a call has no id or no run"))
	}
	event, err := requestEvent(call)
	if err != nil {
		return nil, err
	}
	op := &requestOp{call: call, event: event}
	if err := l.queue.do(ctx, op, false, event.weight()); err != nil {
		return nil, err
	}
	return op.prior, nil
}

type requestOp struct {
	call  runtime.Call
	event encoded
	prior *runtime.Call
}

func (op *requestOp) apply(tx *transaction) error {
	op.prior = nil
	h, err := tx.head(op.call.RunID)
	if err != nil {
		return err
	}
	c := op.call
	state := c.State
	if state == "" {
		state = runtime.CallQueued
	}
	args := c.Arguments
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	inserted, err := changed(tx.ctx, tx.stmts.insertCall,
		c.ToolCallID, c.RunID, c.StepID, c.ParentCallID, c.ToolName, c.ToolVersion, []byte(args),
		c.ArgumentsHash, c.IdempotencyKey, tx.nanos(c.RequestedAt), c.RequestedBy,
		c.Trace, string(state), c.IdempotencyKey != "", h.seq+1)
	if err != nil {
		return err
	}
	if !inserted {
		return op.explain(tx)
	}
	return tx.append(h, c.RunID, op.event)
}

// explain finds why the call's row was not inserted: the key is bound, or the
// id is taken.
func (op *requestOp) explain(tx *transaction) error {
	c := op.call
	prior, err := scanCall(tx.stmts.boundCall.QueryRowContext(tx.ctx, c.RunID, c.ToolName, c.IdempotencyKey))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return refuse(runtime.ProblemConflict, "The call %q is already recorded.", c.ToolCallID)
	case err != nil:
		return err
	case prior.ArgumentsHash != c.ArgumentsHash:
		return refuse(runtime.ProblemIdempotency,
			"The idempotency key was used with other arguments by call %s. Use a new key, or send the same arguments.",
			prior.ToolCallID)
	}
	op.prior = &prior
	return nil
}

// Note implements runtime.CallJournal. It ignores ctx, because it does not
// wait. A note that turns out to name an unknown run, or whose update names a
// call that is not open, is dropped and logged; one that meets a database
// that does not work is kept and tried again. An error means that it was not
// taken.
func (l *Ledger) Note(_ context.Context, update *runtime.CallUpdate, drafts ...runtime.Draft) error {
	op := &noteOp{update: update}
	if update != nil && update.Decision != nil {
		b, err := json.Marshal(update.Decision)
		if err != nil {
			return internal(err)
		}
		op.decision = b
	}
	followed := false
	for _, d := range drafts {
		events, err := encodeDrafts(d.RunID, "", []runtime.Draft{d})
		if err != nil {
			return err
		}
		op.runs = append(op.runs, d.RunID)
		op.events = append(op.events, events...)
		followed = followed || l.followers.any(d.RunID)
	}
	it := &item{op: op, bytes: weigh(op.events)}
	if update != nil {
		it.bytes += len(update.EffectiveArguments) + len(op.decision)
	}
	return l.queue.note(it, followed)
}

type noteOp struct {
	update   *runtime.CallUpdate
	decision []byte
	runs     []string // of each event
	events   []encoded
}

func (op *noteOp) apply(tx *transaction) error {
	for _, runID := range op.runs {
		if _, err := tx.head(runID); err != nil {
			return err
		}
	}
	if u := op.update; u != nil && tx.ending[u.ToolCallID] != nil {
		tx.ending[u.ToolCallID].add(op)
	} else if u != nil {
		updated, err := changed(tx.ctx, tx.stmts.updateCall, orNull(string(u.State)), orNull(u.ToolVersion),
			blobOrNull(u.EffectiveArguments), blobOrNull(op.decision), u.Started, u.ToolCallID)
		if err != nil {
			return err
		}
		if !updated {
			return refuse(runtime.ProblemConflict, "The call %q is not open.", u.ToolCallID)
		}
	}
	for i, e := range op.events {
		h, err := tx.head(op.runs[i])
		if err != nil {
			return err
		}
		if err := tx.append(h, op.runs[i], e); err != nil {
			return err
		}
	}
	return nil
}

// Result implements runtime.CallJournal. TOOL_CALL_RESULT has the place that
// its draft has, else it comes last; its data is the result in either case.
func (l *Ledger) Result(ctx context.Context, call runtime.Call, usage runtime.RunUsage, drafts ...runtime.Draft) error {
	op, err := newResultOp(call, usage, drafts)
	if err != nil {
		return err
	}
	return l.queue.do(ctx, op, true, weigh(op.events)+len(op.result))
}

type resultOp struct {
	call             runtime.Call
	usage            runtime.RunUsage
	events           []encoded
	result, decision []byte
	at               int // which of the events is the result
}

func newResultOp(call runtime.Call, usage runtime.RunUsage, drafts []runtime.Draft) (*resultOp, error) {
	if call.Result == nil {
		return nil, internal(fmt.Errorf("call %q ends without a result", call.ToolCallID))
	}
	op := &resultOp{call: call, usage: usage}
	var err error
	if op.events, err = encodeDrafts(call.RunID, runtime.CallResulted, drafts); err != nil {
		return nil, err
	}
	if op.result, err = encodeData(call.Result); err != nil {
		return nil, internal(err)
	}
	if call.Decision != nil {
		if op.decision, err = json.Marshal(call.Decision); err != nil {
			return nil, internal(err)
		}
	}
	if op.at = indexOf(op.events, runtime.CallResulted); op.at < 0 {
		op.at = len(op.events)
		op.events = append(op.events, encoded{kind: runtime.CallResulted, trace: call.Trace})
	}
	op.events[op.at].callID, op.events[op.at].data = call.ToolCallID, op.result
	return op, nil
}

func (op *resultOp) apply(tx *transaction) error {
	c := op.call
	h, err := tx.head(c.RunID)
	if err != nil {
		return err
	}
	notes := tx.ending[c.ToolCallID]
	started := c.Result.StartedAt != nil || notes.started
	version, effective, decision := c.ToolVersion, []byte(c.EffectiveArguments), op.decision
	if version == "" {
		version = notes.toolVersion
	}
	if effective == nil {
		effective = notes.effective
	}
	if decision == nil {
		decision = notes.decision
	}
	finished, err := changed(tx.ctx, tx.stmts.finishCall, version, blobOrNull(effective),
		blobOrNull(decision), op.result, h.seq+1+int64(op.at), started, started, c.ToolCallID, c.RunID)
	if err != nil {
		return err
	}
	if !finished {
		return op.explain(tx)
	}
	if err := tx.append(h, c.RunID, op.events...); err != nil {
		return err
	}
	h.spend(op.usage)
	for _, a := range c.Result.Artifacts {
		_, err := tx.stmts.insertArtifact.ExecContext(tx.ctx, a.ID, c.RunID, c.ToolCallID, a.Type, a.Name,
			a.Bytes, a.SHA256, a.Description, tx.nanos(a.CreatedAt))
		if err != nil {
			return err
		}
	}
	return nil
}

// explain finds why there was no open call to end.
func (op *resultOp) explain(tx *transaction) error {
	var state string
	err := tx.stmts.callState.QueryRowContext(tx.ctx, op.call.ToolCallID, op.call.RunID).Scan(&state)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return refuse(runtime.ProblemNotFound, "There is no call %q in run %q.", op.call.ToolCallID, op.call.RunID)
	case err != nil:
		return err
	}
	return refuse(runtime.ProblemConflict, "The call %q has a result already.", op.call.ToolCallID)
}

// callColumns are what scanCall reads, in its order.
const callColumns = `call_id, run_id, step_id, parent_call_id, tool_name, tool_version, arguments,
	effective_arguments, arguments_hash, idempotency_key, requested_ns, requested_by, trace,
	state, decision, result`

type scanner interface{ Scan(dest ...any) error }

func scanCall(row scanner, more ...any) (runtime.Call, error) {
	var c runtime.Call
	var args, effective, decision, result []byte
	var requested int64
	dest := append([]any{
		&c.ToolCallID, &c.RunID, &c.StepID, &c.ParentCallID, &c.ToolName, &c.ToolVersion,
		&args, &effective, &c.ArgumentsHash, &c.IdempotencyKey, &requested, &c.RequestedBy,
		&c.Trace, &c.State, &decision, &result,
	}, more...)
	if err := row.Scan(dest...); err != nil {
		return c, err
	}
	c.Arguments, c.EffectiveArguments = args, effective
	c.RequestedAt = time.Unix(0, requested).UTC()
	if err := decodeOptional(decision, &c.Decision); err != nil {
		return c, err
	}
	return c, decodeOptional(result, &c.Result)
}

func decodeOptional[T any](doc []byte, into **T) error {
	if doc == nil {
		return nil
	}
	*into = new(T)
	return json.Unmarshal(doc, *into)
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func blobOrNull(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}
