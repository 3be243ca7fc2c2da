package runtime

import (
	"context"

	"github.com/sandboxd/sandboxd/sandbox"
)

// discard takes back a run that was never recorded.
func (k *Kernel) discard(r *liveRun, cause error) {
	r.settleBox(nil, cause)
	r.close(&CancelCause{Reason: ReasonRunEnded})
	r.cancel(nil)
	k.forget(r)
}

// furnish makes the box, fills the workspace and keeps its base; then the run
// is ready. What fails leaves no box behind.
func (k *Kernel) furnish(r *liveRun) {
	run := r.snapshot()
	box, err := k.driver.Create(r.ctx, boxSpec(r.id, run.Spec))
	if err == nil {
		err = k.fillWorkspace(r.ctx, r.id, run.Spec.Source, box)
	}
	if err != nil {
		k.failRun(r, box, err)
		return
	}
	facts := box.Facts()
	_, err = k.saveRun(context.WithoutCancel(r.ctx), r, func(run *Run) (Draft, error) {
		run.Status, run.ReadyAt, run.Image, run.Sandbox = RunReady, k.now(), facts.Image, boxFacts(facts, run.Spec)
		return Draft{RunID: r.id, Kind: RunBecameReady, Data: run.Sandbox}, nil
	})
	if err != nil {
		k.failRun(r, box, err)
		return
	}
	r.settleBox(box, nil)
	k.tasks.Go(func() { k.watch(r, box) })
}

// saveRun changes a run's record and writes it. One change of a run happens at
// a time and is in force when it is written: of two changes the later one is
// what the ledger keeps, and one that it refuses is none.
func (k *Kernel) saveRun(ctx context.Context, r *liveRun, edit func(*Run) (Draft, error)) (Run, error) {
	r.saving.Lock()
	defer r.saving.Unlock()
	run := r.snapshot()
	draft, err := edit(&run)
	if err != nil {
		return run, err
	}
	if err := k.journal.SaveRun(ctx, run, draft); err != nil {
		return run, err
	}
	return r.change(func(now *Run) {
		run.Usage, run.LastActive = now.Usage, now.LastActive // results were counted meanwhile
		*now = run
	}), nil
}

// failRun ends a run that never got its box, or was ended before it had one.
func (k *Kernel) failRun(r *liveRun, box sandbox.Box, cause error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), recordTimeout)
	defer cancel()
	status, kind := RunFailed, RunBecameFailed
	if r.ctx.Err() != nil {
		status, kind = RunEnded, RunEndedEvent
		cause = endedEarly(causeOf(context.Cause(r.ctx)))
	} else {
		k.log.Error("run has no box", "runId", r.id, "err", cause)
	}
	if box != nil {
		if err := box.Remove(ctx); err != nil {
			k.log.Error("box not removed", "runId", r.id, "err", err)
		}
	}
	r.settleBox(nil, cause)
	<-r.close(&CancelCause{Reason: ReasonBoxLost})
	k.closeRecord(ctx, r, status, kind, createProblem(cause).Detail)
	r.cancel(nil)
	k.forget(r)
}

// endedEarly says why a run never had a box though nothing failed.
func endedEarly(cause *CancelCause) *Problem {
	if cause.Reason == ReasonShutdown {
		return Problemf(ProblemUnavailable, "The service is shutting down.")
	}
	return Problemf(ProblemRunNotActive, "The run was ended before its box was made.")
}

// closeRecord writes the end of a run.
func (k *Kernel) closeRecord(ctx context.Context, r *liveRun, status RunStatus, kind EventKind, reason string) {
	ended := k.now()
	end := func(run *Run) (Draft, error) {
		run.Status, run.EndedAt, run.Reason = status, ended, reason
		return Draft{RunID: r.id, Kind: kind, Data: map[string]any{"reason": reason, "usage": run.Usage}}, nil
	}
	if _, err := k.saveRun(ctx, r, end); err != nil {
		k.log.Error("end of run not recorded", "runId", r.id, "status", status, "err", err)
		k.tasks.Go(func() {
			k.persist("end of run "+r.id, func(ctx context.Context) error {
				_, err := k.saveRun(ctx, r, end)
				return err
			})
		})
	}
	if err := k.spaces.Forget(r.id); err != nil {
		k.log.Error("base of run not removed", "runId", r.id, "err", err)
	}
}
