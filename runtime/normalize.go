package runtime

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/sandbox"
)

// maxSafeMessage is the most characters that a safeMessage holds (R1.6).
const maxSafeMessage = 4000

// refuse makes the result of a call that never reached a box, and marks the
// refusal.
func (k *Kernel) refuse(f *flight, kind EventKind, err error) Result {
	fault := k.explain(f, err)
	f.update(func(c *Call) {
		if c.Decision == nil {
			c.Decision = &Decision{ReasonCode: string(fault.Code), Rule: "check", SafeMessage: fault.Message}
		}
	})
	err = k.note(f, kind, &CallUpdate{Decision: f.snapshot().Decision}, map[string]any{
		"errorCode": fault.Code, "safeMessage": f.run.redactText(fault.Message),
	})
	if err != nil {
		// The result is refused by the same ledger in a moment and tells then.
		k.log.Warn("refusal not noted", "runId", f.run.id, "toolCallId", f.call.ToolCallID, "err", err)
	}
	return k.normalize(f, nil, Output{}, fault)
}

// explain turns any error into a fault; what is not one already goes to the
// log whole, and to the model as a template.
func (k *Kernel) explain(f *flight, err error) *Fault {
	fault := AsFault(err)
	if fault.Code != CodeInternal {
		return fault
	}
	if kind := sandbox.KindOf(err); kind != sandbox.KindInternal {
		return BoxFault(err)
	}
	k.log.Error("call failed", "runId", f.run.id, "toolCallId", f.call.ToolCallID, "tool", f.call.ToolName, "err", err)
	return fault
}

// normalize makes the one result of a call out of what the handler returned:
// status and code from the fault or the cancel, the output held against its
// contract, artifacts settled, everything redacted. g is nil for a call that
// was refused.
func (k *Kernel) normalize(f *flight, g *Grant, out Output, err error) Result {
	cancelled := f.settle()
	call := f.snapshot()
	r := Result{
		ToolCallID: call.ToolCallID, RunID: call.RunID, ToolName: call.ToolName, ToolVersion: call.ToolVersion,
		Status: Succeeded, SafeMessage: out.Message, Effect: out.Effect, Usage: out.Usage,
		Truncated: out.Truncated, Artifacts: []ArtifactRef{}, Redactions: []Redaction{},
		FinishedAt: k.now(),
	}
	if !f.started.IsZero() {
		started := f.started
		r.StartedAt = &started
		r.Usage.WallMs = r.FinishedAt.Sub(started).Milliseconds()
	}
	structured := out.Structured
	switch {
	case cancelled != nil:
		r.fail(endOf(causeOf(cancelled), r))
	case err != nil:
		fault := k.explain(f, err)
		r.fail(fault)
		if structured == nil {
			structured = fault.Structured
		}
	case out.Partial:
		r.Status, r.ErrorCode, r.ErrorClass = Partial, CodeOutcomePartial, ClassOutcome
	}
	if cancelled != nil {
		r.Reason = causeOf(cancelled).Reason
	}
	r.StructuredOutput = k.encode(f, structured)
	if g != nil {
		k.holdContract(f, g, &r, out.Structured != nil)
		k.attach(f, g, &r)
	}
	f.run.redactResult(&r)
	return r
}

func (r *Result) fail(fault *Fault) {
	info := fault.Code.Info()
	r.Status, r.ErrorCode, r.ErrorClass, r.Retryable = info.Status, fault.Code, info.Class, info.Retryable
	r.SafeMessage = fault.Message
}

// endOf reads the cause of an ended call in one place: a deadline is
// TIMED_OUT, a lost box SANDBOX_UNAVAILABLE, anything else CANCELLED.
func endOf(cause *CancelCause, r Result) *Fault {
	switch {
	case cause.Reason == ReasonBoxLost:
		return Faultf(CodeSandboxUnavailable, "The box of this run was lost. Create a new run and start again from its workspace.")
	case r.StartedAt == nil:
		return Faultf(CodeCancelled, "The call was cancelled (%s) before it was started; it had no effect.", cause.Reason)
	}
	killed := ""
	switch n := r.Usage.ProcessesKilled; {
	case n == 1:
		killed = " 1 process was killed; it is gone."
	case n > 1:
		killed = fmt.Sprintf(" %d processes were killed; none of them is left.", n)
	}
	if cause.Reason == ReasonTimeout {
		return Faultf(CodeTimeout, "The call ran into its time limit after %d ms and was ended.%s Do less in one call, or ask for a longer timeoutMs.", r.Usage.WallMs, killed)
	}
	return Faultf(CodeCancelled, "The call was cancelled (%s).%s", cause.Reason, killed)
}

// holdContract withholds an output that does not fit the schema that the tool
// states. own is false for a fault's structure, which is not the tool's output.
func (k *Kernel) holdContract(f *flight, g *Grant, r *Result, own bool) {
	if !own {
		return
	}
	if violations := g.tool.breaksContract(r.StructuredOutput); len(violations) > 0 {
		k.log.Error("output breaks the tool's contract", "tool", g.tool.Name, "toolCallId", f.call.ToolCallID, "violations", violations)
		r.fail(Faultf(CodeResultContract, "The tool's answer broke its own contract and is withheld. Report it with the call's id."))
		r.StructuredOutput = nil
	}
}

// attach settles the streams of the call and points to their artifacts.
func (k *Kernel) attach(f *flight, g *Grant, r *Result) {
	refs, redactions, err := g.captures.settle()
	r.Artifacts = append(r.Artifacts, refs...)
	r.Redactions = append(r.Redactions, redactions...)
	if err != nil {
		k.log.Error("artifact not stored", "toolCallId", f.call.ToolCallID, "err", err)
		const lost = "The output could not be stored in full. Ask for less output, and have an operator look at the service's disk."
		if r.Status == Succeeded || r.Status == Partial {
			r.fail(Faultf(CodeDiskQuota, lost))
			return
		}
		// How the call ended stays what is told of it.
		r.SafeMessage, r.Truncated = r.SafeMessage+" "+lost, true
	}
}

// encode renders structured output without HTML escapes.
func (k *Kernel) encode(f *flight, structured any) json.RawMessage {
	if structured == nil {
		return nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(structured); err != nil {
		k.log.Error("output cannot be encoded", "toolCallId", f.call.ToolCallID, "err", err)
		return nil
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// clip cuts text to at most n characters, on a character's boundary.
func clip(text string, n int) string {
	if len(text) <= n || utf8.RuneCountInString(text) <= n {
		return text
	}
	runes := []rune(text)
	return string(runes[:n-1]) + "…"
}
