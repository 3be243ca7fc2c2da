package runtime

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/sandboxd/sandboxd/runtime/policy"
	"github.com/sandboxd/sandboxd/runtime/redact"
	"github.com/sandboxd/sandboxd/sandbox"
)

// CreateRun records a run and makes its box. With opt.Wait it returns when the
// box takes calls; a box that cannot be made is then the error, and the run
// stays listed as failed. Errors are *Problem.
func (k *Kernel) CreateRun(ctx context.Context, spec RunSpec, opt CreateOptions) (Run, error) {
	settled, profile, err := k.limits.settleSpec(spec)
	if err != nil {
		return Run{}, err
	}
	r, err := k.openRun(settled, profile, opt)
	if err != nil {
		return Run{}, err
	}
	run := r.snapshot()
	err = k.journal.CreateRun(ctx, run, Draft{RunID: r.id, Kind: RunCreated, Data: map[string]any{"spec": run.Spec, "by": opt.By, "secretNames": run.Secrets}})
	if err != nil {
		r.close(&CancelCause{Reason: ReasonShutdown})
		k.forget(r)
		return Run{}, err
	}
	k.tasks.Go(func() { k.furnish(r) })
	if !opt.Wait {
		return r.snapshot(), nil
	}
	select {
	case <-r.ready:
	case <-ctx.Done():
		return r.snapshot(), context.Cause(ctx)
	}
	if r.failure != nil {
		return Run{}, createProblem(r.failure)
	}
	return r.snapshot(), nil
}

// openRun makes the run in memory and admits it under the service's bound.
func (k *Kernel) openRun(spec RunSpec, profile policy.Profile, opt CreateOptions) (*liveRun, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	r := &liveRun{
		id: "run_" + id.String(), lanes: newLanes(spec.Limits.Commands), profiles: policy.Profiles{profile},
		ready: make(chan struct{}), idle: make(chan struct{}), flights: map[string]*flight{},
	}
	r.ctx, r.cancel = context.WithCancelCause(k.ctx)
	for _, name := range slices.Sorted(maps.Keys(spec.Secrets)) {
		r.secrets = append(r.secrets, name+"="+spec.Secrets[name])
	}
	r.redactor = redact.New(redact.Config{Values: spec.Secrets, HostPaths: k.hostPaths, KnownFormats: true})
	now := k.now()
	r.run = Run{
		RunID: r.id, Tenant: opt.Tenant, State: spec.State, Status: RunCreating, Driver: k.driver.Name(),
		Image: spec.Image, Spec: spec, Secrets: slices.Sorted(maps.Keys(spec.Secrets)), Changed: []string{},
		CreatedAt: now, LastActive: now, ExpiresAt: now.Add(time.Duration(spec.Limits.WallMs) * time.Millisecond),
	}
	r.run.Spec.Secrets = nil
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.ctx.Err() != nil:
		return nil, Problemf(ProblemUnavailable, "The service is shutting down.")
	case k.limits.MaxRuns > 0 && len(k.runs) >= k.limits.MaxRuns:
		return nil, &Problem{Code: ProblemRateLimited, Detail: "The service holds as many runs as it may. End one, or try again later.", RetryAfterSeconds: 5}
	}
	k.runs[r.id] = r
	return r, nil
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
	ready := r.change(func(run *Run) {
		run.Status, run.ReadyAt, run.Image, run.Sandbox = RunReady, k.now(), facts.Image, boxFacts(facts, run.Spec)
	})
	if err := k.journal.SaveRun(context.WithoutCancel(r.ctx), ready, Draft{RunID: r.id, Kind: RunBecameReady, Data: ready.Sandbox}); err != nil {
		k.failRun(r, box, err)
		return
	}
	r.settleBox(box, nil)
	k.tasks.Go(func() { k.watch(r, box) })
}

func (k *Kernel) failRun(r *liveRun, box sandbox.Box, cause error) {
	k.log.Error("run has no box", "runId", r.id, "err", cause)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), recordTimeout)
	defer cancel()
	if box != nil {
		if err := box.Remove(ctx); err != nil {
			k.log.Error("box not removed", "runId", r.id, "err", err)
		}
	}
	r.settleBox(nil, cause)
	<-r.close(&CancelCause{Reason: ReasonBoxLost})
	failed := r.change(func(run *Run) {
		run.Status, run.EndedAt, run.Reason = RunFailed, k.now(), createProblem(cause).Detail
	})
	if err := k.journal.SaveRun(ctx, failed, Draft{RunID: r.id, Kind: RunBecameFailed, Data: map[string]any{"reason": failed.Reason}}); err != nil {
		k.log.Error("failed run not recorded", "runId", r.id, "err", err)
	}
	k.forget(r)
}

// createProblem says why a box could not be made, without inner detail.
func createProblem(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	e, ok := errors.AsType[*sandbox.Error](err)
	switch {
	case !ok:
		return &Problem{Code: ProblemSandbox, Detail: "The box could not be made; the service's log says why.", Cause: err}
	case e.Kind == sandbox.KindImageMissing:
		return &Problem{Code: ProblemImageMissing, Pointer: "/image", Detail: e.Error(), Cause: err}
	case e.Kind == sandbox.KindUnsupported || e.Kind == sandbox.KindInvalid:
		return &Problem{Code: ProblemUnsupported, Detail: e.Error(), Cause: err}
	default:
		return &Problem{Code: ProblemSandbox, Detail: "The box could not be made: " + e.Error(), Cause: err}
	}
}

func boxFacts(f sandbox.Facts, spec RunSpec) BoxFacts {
	degraded := slices.Clone(f.Degraded)
	if spec.Limits.IdleMs > 0 {
		degraded = append(degraded, "limits.idleMs is recorded but no idle run is stopped yet.")
	}
	return BoxFacts{
		Runtime: f.Runtime, ImageDigest: f.ImageDigest, WorkspacePath: f.WorkspacePath, UserID: f.UserID,
		CgroupMode: f.CgroupMode, KillStep: f.KillStep, Degraded: degraded, StartedInMs: f.StartedIn.Milliseconds(),
	}
}

// watch ends a run whose box died or whose time is over.
func (k *Kernel) watch(r *liveRun, box sandbox.Box) {
	expiry := time.NewTimer(time.Until(r.snapshot().ExpiresAt))
	defer expiry.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-box.Done():
			if r.ctx.Err() == nil {
				k.loseBox(r, "the box's agent or container went away")
			}
			return
		case <-expiry.C:
			if left := time.Until(r.snapshot().ExpiresAt); left > 0 {
				expiry.Reset(left)
				continue
			}
			k.tasks.Go(func() { k.finishRun(r, RunEnded, "expired", &CancelCause{Reason: ReasonTimeout, Grace: -1}) })
			return
		}
	}
}

// loseBox ends a run whose box cannot be used any more: its calls are answered
// at once with SANDBOX_UNAVAILABLE.
func (k *Kernel) loseBox(r *liveRun, why string) {
	k.tasks.Go(func() { k.finishRun(r, RunFailed, why, &CancelCause{Reason: ReasonBoxLost, Grace: 0}) })
}

// EndRun cancels the run's calls and removes its box; ledger and artifacts
// stay. It is idempotent.
func (k *Kernel) EndRun(ctx context.Context, runID, by string) error {
	r := k.liveRun(runID)
	if r == nil {
		_, err := k.journal.Run(ctx, runID)
		return err
	}
	k.finishRun(r, RunEnded, "ended by "+by, &CancelCause{Reason: ReasonRunEnded, Grace: 0})
	return nil
}

func (k *Kernel) shutRun(ctx context.Context, r *liveRun) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.finishRun(r, RunEnded, "the service was shut down", &CancelCause{Reason: ReasonShutdown, Grace: 0})
	}()
	select {
	case <-done:
	case <-ctx.Done():
		k.log.Error("run not ended in time", "runId", r.id)
	}
}

// finishRun ends a run once; later callers wait for the first. The box goes
// first when it is lost, so that nothing waits for it.
func (k *Kernel) finishRun(r *liveRun, status RunStatus, reason string, cause *CancelCause) {
	r.end.Do(func() {
		idle := r.close(cause)
		<-r.ready
		if r.failure != nil {
			return // failRun records it
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), endTimeout)
		defer cancel()
		if cause.Reason == ReasonBoxLost {
			k.removeBox(ctx, r)
		}
		select {
		case <-idle:
		case <-time.After(stuckAfter):
			k.removeBox(ctx, r)
			<-idle
		}
		k.removeBox(ctx, r)
		ended := r.change(func(run *Run) { run.Status, run.EndedAt, run.Reason = status, k.now(), reason })
		kind := RunEndedEvent
		if status == RunFailed {
			kind = RunBecameFailed
		}
		if err := k.journal.SaveRun(ctx, ended, Draft{RunID: r.id, Kind: kind, Data: map[string]any{"reason": reason, "usage": ended.Usage}}); err != nil {
			k.log.Error("end of run not recorded", "runId", r.id, "err", err)
		}
		r.cancel(cause)
		k.forget(r)
	})
}

// endTimeout bounds the ending of a run.
const endTimeout = 2 * time.Minute

func (k *Kernel) removeBox(ctx context.Context, r *liveRun) {
	if err := r.box.Remove(ctx); err != nil {
		k.log.Error("box not removed; the next reconcile will", "runId", r.id, "err", err)
	}
}

func (k *Kernel) forget(r *liveRun) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.runs, r.id)
}
