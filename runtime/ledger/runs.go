package ledger

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/sandboxd/sandboxd/runtime"
)

// CreateRun implements runtime.RunJournal. Without a draft of RUN_CREATED, one
// with the run as its data comes first.
func (l *Ledger) CreateRun(ctx context.Context, run runtime.Run, drafts ...runtime.Draft) error {
	op, err := newRunOp(run, runtime.RunCreated, drafts)
	if err != nil {
		return err
	}
	if indexOf(op.events, runtime.RunCreated) < 0 {
		op.events = append([]encoded{{kind: runtime.RunCreated, data: op.doc}}, op.events...)
	}
	op.create = true
	return l.queue.do(ctx, op, true, weigh(op.events)+len(op.doc))
}

// SaveRun implements runtime.RunJournal.
func (l *Ledger) SaveRun(ctx context.Context, run runtime.Run, drafts ...runtime.Draft) error {
	op, err := newRunOp(run, "", drafts)
	if err != nil {
		return err
	}
	return l.queue.do(ctx, op, true, weigh(op.events)+len(op.doc))
}

type runOp struct {
	run    runtime.Run
	doc    []byte
	events []encoded
	create bool
}

func newRunOp(run runtime.Run, own runtime.EventKind, drafts []runtime.Draft) (*runOp, error) {
	if run.RunID == "" {
		return nil, internal(errors.New("a run has no id"))
	}
	run.Spec.Secrets = nil // values are never recorded, whatever the caller forgot
	events, err := encodeDrafts(run.RunID, own, drafts)
	if err != nil {
		return nil, err
	}
	doc, err := encodeData(run)
	if err != nil {
		return nil, internal(err)
	}
	return &runOp{run: run, doc: doc, events: events}, nil
}

func (op *runOp) apply(tx *transaction) error {
	r := op.run
	h, err := op.row(tx)
	if err != nil {
		return err
	}
	if !op.create {
		if _, err := tx.stmts.dropLabels.ExecContext(tx.ctx, r.RunID); err != nil {
			return err
		}
	}
	for key, value := range r.Spec.Labels {
		if _, err := tx.stmts.insertLabel.ExecContext(tx.ctx, key, value, r.RunID); err != nil {
			return err
		}
	}
	h.spend(r.Usage)
	return tx.append(h, r.RunID, op.events...)
}

// row writes the run's row, new or in place of the old one.
func (op *runOp) row(tx *transaction) (*head, error) {
	r := op.run
	open := r.Status != runtime.RunEnded && r.Status != runtime.RunFailed
	if op.create {
		ok, err := changed(tx.ctx, tx.stmts.insertRun, r.RunID, r.Tenant, string(r.State), string(r.Status), open, op.doc)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, refuse(runtime.ProblemConflict, "The run %q exists already.", r.RunID)
		}
		return tx.begin(r.RunID)
	}
	h, err := tx.head(r.RunID)
	if err != nil {
		return nil, err
	}
	ok, err := changed(tx.ctx, tx.stmts.updateRun, r.Tenant, string(r.State), string(r.Status), open, op.doc, r.RunID)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, refuse(runtime.ProblemNotFound, "There is no run %q.", r.RunID)
	}
	return h, nil
}

// runColumns are what scanRun reads, of runs r joined with run_heads h.
const runColumns = `r.doc, h.calls, h.failed_calls, h.output_bytes, h.cpu_ms, h.wall_ms`

// scanRun reads a run; its usage is the head's, which every result raises.
func scanRun(row scanner, more ...any) (runtime.Run, error) {
	var run runtime.Run
	var doc []byte
	var u runtime.RunUsage
	dest := append([]any{&doc, &u.Calls, &u.FailedCalls, &u.OutputBytes, &u.CPUMs, &u.WallMs}, more...)
	if err := row.Scan(dest...); err != nil {
		return run, err
	}
	if err := json.Unmarshal(doc, &run); err != nil {
		return run, err
	}
	run.Usage = u
	return run, nil
}
