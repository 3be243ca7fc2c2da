package runtime

import (
	"context"
	"slices"
	"time"

	"github.com/sandboxd/sandboxd/runtime/policy"
)

// PatchRun changes a run's state, labels or expiry, or narrows its
// permissions. Errors are *Problem.
func (k *Kernel) PatchRun(ctx context.Context, runID string, p RunPatch, by string) (Run, error) {
	r, err := k.live(ctx, runID)
	if err != nil {
		return Run{}, err
	}
	layer, err := k.checkPatch(p)
	if err != nil {
		return Run{}, err
	}
	run, err := k.saveRun(ctx, r, func(run *Run) (Draft, error) {
		if !run.EndedAt.IsZero() {
			return Draft{}, Problemf(ProblemRunNotActive, "The run has ended. Create a new run.")
		}
		applyPatch(run, p)
		if layer != nil {
			r.narrow(*layer)
		}
		return Draft{RunID: runID, Kind: RunChanged, Data: map[string]any{"change": p, "by": by}}, nil
	})
	select {
	case r.expires <- struct{}{}:
	default: // one is on its way, and will read the present time
	}
	return run, err
}

func (k *Kernel) checkPatch(p RunPatch) (*policy.Profile, error) {
	if p.State != nil && !slices.Contains([]RunState{Planning, Editing, Verifying, Review, Finished}, *p.State) {
		return nil, invalid("/state", "%q is not one of PLANNING, EDITING, VERIFYING, REVIEW, DONE.", clip(string(*p.State), 80))
	}
	if p.ExpiresAt != nil && !p.ExpiresAt.After(k.now()) {
		return nil, invalid("/expiresAt", "That time is past. Give one that lies ahead, or DELETE the run to end it now.")
	}
	if p.ExpiresAt != nil && p.ExpiresAt.After(k.now().Add(k.limits.MaxWall)) {
		return nil, invalid("/expiresAt", "A run lives at most %s from now.", k.limits.MaxWall)
	}
	for name, value := range p.Labels {
		if !labelFits(name, value) {
			return nil, invalid("/labels", labelRule)
		}
	}
	if p.Permissions == nil {
		return nil, nil
	}
	layer, err := compileProfile(*p.Permissions)
	if err != nil {
		return nil, err
	}
	// A switch that the patch leaves out leaves the run's as it is: this layer
	// then grants it, and the layers below decide.
	layer.Network = p.Permissions.Network == nil || *p.Permissions.Network
	return &layer, nil
}

func applyPatch(run *Run, p RunPatch) {
	if p.State != nil {
		run.State = *p.State
	}
	if p.ExpiresAt != nil {
		run.ExpiresAt = p.ExpiresAt.UTC().Round(time.Nanosecond)
	}
	if p.Permissions != nil {
		run.Spec.Permissions = narrowed(run.Spec.Permissions, *p.Permissions)
	}
	labels := map[string]string{}
	for name, value := range run.Spec.Labels {
		labels[name] = value
	}
	for name, value := range p.Labels {
		if delete(labels, name); value != nil {
			labels[name] = *value
		}
	}
	run.Spec.Labels = labels
}
