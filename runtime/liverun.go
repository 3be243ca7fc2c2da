package runtime

import (
	"context"
	"slices"
	"sync"

	"github.com/sandboxd/sandboxd/runtime/policy"
	"github.com/sandboxd/sandboxd/runtime/redact"
	"github.com/sandboxd/sandboxd/sandbox"
)

// liveRun is a run that has not ended, in memory: its box, its secrets, its
// calls on their way.
type liveRun struct {
	id       string
	ctx      context.Context
	cancel   context.CancelCauseFunc
	lanes    lanes
	redactor *redact.Redactor
	secrets  []string // NAME=VALUE

	ready   chan struct{} // closed when box or failure is set
	expires chan struct{} // tells watch that ExpiresAt was changed

	gone chan struct{} // closed when the run has ended and that was recorded

	saving sync.Mutex // one change of the record at a time; before mu

	mu       sync.Mutex
	run      Run
	profiles policy.Profiles
	box      sandbox.Box
	failure  error // why there is no box
	flights  map[string]*flight
	admitted int64 // calls that were let in and are not counted yet
	closing  bool
	idle     chan struct{} // closed when closing and no flight is left
	exposed  string        // hash of the tool list last shown

	end sync.Once // finishRun
}

// maxFlights bounds the calls of one run that are on their way.
const maxFlights = 512

func (r *liveRun) view() runView {
	r.mu.Lock()
	defer r.mu.Unlock()
	return runView{
		state: r.run.State, readOnly: r.run.Spec.Workspace.Access == "ro", network: r.run.Spec.Network.Policy,
		profiles: r.profiles, approval: r.run.Spec.Permissions.Approvals,
		budgets: r.run.Spec.Budgets, usage: r.run.Usage,
	}
}

func (r *liveRun) snapshot() Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.run
}

// change edits the run's record under its lock and returns the new one.
func (r *liveRun) change(edit func(*Run)) Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	edit(&r.run)
	return r.run
}

// narrow lays a further profile over the run's. It holds at once, also should
// the change then not be recorded: what a run may do never grows.
func (r *liveRun) narrow(layer policy.Profile) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.profiles = append(slices.Clone(r.profiles), layer)
}

// enter admits a call; a run that is ending or overfull refuses it.
func (r *liveRun) enter(f *flight) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closing:
		return Problemf(ProblemRunNotActive, "The run has ended. Create a new run.")
	case len(r.flights) >= maxFlights:
		return &Problem{Code: ProblemRateLimited, Detail: "The run has too many calls under way. Wait for some of them to end.", RetryAfterSeconds: 1}
	}
	r.flights[f.call.ToolCallID] = f
	return nil
}

// leave takes a call that has ended off the run.
func (r *liveRun) leave(f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.flights, f.call.ToolCallID)
	if r.closing && len(r.flights) == 0 {
		close(r.idle)
	}
}

// abandon takes off a call that was never recorded.
func (r *liveRun) abandon(f *flight) {
	r.leave(f)
	f.cancel(nil)
}

func (r *liveRun) flight(callID string) *flight {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.flights[callID]
}

// close refuses new calls, cancels those under way, and returns a channel that
// is closed when the last has been recorded.
func (r *liveRun) close(cause *CancelCause) <-chan struct{} {
	r.mu.Lock()
	first := !r.closing
	flights := make([]*flight, 0, len(r.flights))
	if first {
		r.closing = true
		for _, f := range r.flights {
			flights = append(flights, f)
		}
		if len(r.flights) == 0 {
			close(r.idle)
		}
	}
	r.mu.Unlock()
	for _, f := range flights {
		f.stop(cause)
	}
	return r.idle
}

// settleBox publishes the box, or why there is none, once.
func (r *liveRun) settleBox(box sandbox.Box, failure error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.box, r.failure = box, failure
	close(r.ready)
}

// awaitBox waits until the run's box takes calls.
func (r *liveRun) awaitBox(ctx context.Context) (sandbox.Box, error) {
	select {
	case <-r.ready:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure != nil {
		return nil, Faultf(CodeSandboxUnavailable, "The run has no box: it could not be made. Create a new run.")
	}
	return r.box, nil
}

// admit lets a call in that every rule allows, unless those that were let in
// before it take all that is left of the budget.
func (r *liveRun) admit(f *flight) *Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	usage := r.run.Usage
	usage.Calls += r.admitted
	if fault := judgeCallBudget(runView{budgets: r.run.Spec.Budgets, usage: usage}, nil); fault != nil {
		return fault
	}
	r.admitted++
	f.admitted = true
	return nil
}

// count adds a call's result to the run's usage.
func (r *liveRun) count(f *flight, res Result) RunUsage {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.admitted {
		r.admitted--
	}
	u := &r.run.Usage
	u.Calls++
	switch res.ErrorClass {
	case ClassInvalidArgs, ClassNotFound, ClassTransient, ClassPermanent:
		u.FailedCalls++
	}
	u.OutputBytes += res.Usage.OutputBytes
	u.CPUMs += res.Usage.CPUMs
	u.WallMs += res.Usage.WallMs
	r.run.LastActive = res.FinishedAt
	return *u
}

// expose remembers the list last shown, and tells whether this one is new.
func (r *liveRun) expose(hash string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := r.exposed != hash
	r.exposed = hash
	return changed
}
