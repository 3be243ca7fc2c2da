package runtime

import (
	"context"
	"fmt"
)

// Recover settles what an earlier process left: calls that were under way are
// closed as FAILED / SERVICE_RESTARTED, runs are ended, and whatever remains
// of their boxes is removed. Call it once, before any proposal.
func (k *Kernel) Recover(ctx context.Context) error {
	calls, err := k.journal.OpenCalls(ctx)
	if err != nil {
		return fmt.Errorf("read open calls: %w", err)
	}
	for _, call := range calls {
		if err := k.closeCall(ctx, call); err != nil {
			return fmt.Errorf("close call %s: %w", call.ToolCallID, err)
		}
	}
	runs, err := k.journal.OpenRuns(ctx)
	if err != nil {
		return fmt.Errorf("read open runs: %w", err)
	}
	for _, run := range runs {
		run.Status, run.EndedAt, run.Reason = RunFailed, k.now(), "the service restarted; the box is gone"
		if err := k.journal.SaveRun(ctx, run, Draft{RunID: run.RunID, Kind: RunBecameFailed, Data: map[string]any{"reason": run.Reason}}); err != nil {
			return fmt.Errorf("close run %s: %w", run.RunID, err)
		}
	}
	if err := k.spaces.Clear(); err != nil {
		return fmt.Errorf("drop the bases of dead runs: %w", err)
	}
	removed, err := k.driver.Reconcile(ctx, nil)
	if err != nil {
		return fmt.Errorf("remove boxes of dead runs: %w", err)
	}
	if len(calls)+len(runs)+len(removed) > 0 {
		k.log.Info("settled what an earlier process left", "calls", len(calls), "runs", len(runs), "boxes", len(removed))
	}
	return nil
}

func (k *Kernel) closeCall(ctx context.Context, call Call) error {
	run, err := k.journal.Run(ctx, call.RunID)
	if err != nil {
		return err
	}
	info := CodeServiceRestarted.Info()
	r := Result{
		ToolCallID: call.ToolCallID, RunID: call.RunID, ToolName: call.ToolName, ToolVersion: call.ToolVersion,
		Status: info.Status, ErrorCode: info.Code, ErrorClass: info.Class, Retryable: info.Retryable,
		SafeMessage: "The service restarted while this call was under way; what it had done is unknown. Look before you repeat it, in a new run.",
		Effect:      EffectUnknown, Artifacts: []ArtifactRef{}, Redactions: []Redaction{}, FinishedAt: k.now(),
	}
	usage := run.Usage
	usage.Calls++
	usage.FailedCalls++
	call.State, call.Result = CallDone, &r
	return k.journal.Result(ctx, call, usage, Draft{RunID: call.RunID, Kind: CallResulted, ToolCallID: call.ToolCallID, Trace: call.Trace, Data: r})
}
