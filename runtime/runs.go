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
		k.discard(r, err)
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
		ready: make(chan struct{}), expires: make(chan struct{}, 1), idle: make(chan struct{}), gone: make(chan struct{}), flights: map[string]*flight{},
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
	case k.closing:
		r.cancel(nil)
		return nil, Problemf(ProblemUnavailable, "The service is shutting down.")
	case k.limits.MaxRuns > 0 && len(k.runs) >= k.limits.MaxRuns:
		r.cancel(nil)
		return nil, &Problem{Code: ProblemRateLimited, Detail: "The service holds as many runs as it may. End one, or try again later.", RetryAfterSeconds: 5}
	}
	k.runs[r.id] = r
	return r, nil
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
		return &Problem{Code: ProblemImageMissing, Pointer: "/image", Detail: "The image is missing: " + e.Error() + ".", Cause: err}
	case e.Kind == sandbox.KindUnsupported || e.Kind == sandbox.KindInvalid:
		return &Problem{Code: ProblemUnsupported, Detail: "Such a box cannot be made: " + e.Error() + ".", Cause: err}
	default:
		return &Problem{Code: ProblemSandbox, Detail: "The box could not be made: " + e.Error() + ".", Cause: err}
	}
}

func boxFacts(f sandbox.Facts, spec RunSpec) BoxFacts {
	degraded := slices.Clone(f.Degraded)
	if spec.Limits.IdleMs > 0 {
		degraded = append(degraded, "limits.idleMs is recorded but no idle run is stopped yet")
	}
	if len(spec.Verify) > 0 {
		degraded = append(degraded, "verify is recorded but no check is run by the service yet; run them with shell.run")
	}
	return BoxFacts{
		Runtime: f.Runtime, ImageDigest: f.ImageDigest, WorkspacePath: f.WorkspacePath, UserID: f.UserID,
		CgroupMode: f.CgroupMode, KillStep: f.KillStep, Degraded: degraded, StartedInMs: f.StartedIn.Milliseconds(),
	}
}
