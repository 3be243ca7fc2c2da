package runtime

// Status is how a call ended. Closed, append only.
type Status string

// The statuses. SUCCEEDED also holds for an empty but valid answer; PARTIAL
// means that some of several effects or answers exist and the result lists
// them.
const (
	Succeeded        Status = "SUCCEEDED"
	Failed           Status = "FAILED"
	Denied           Status = "DENIED"
	InvalidArguments Status = "INVALID_ARGUMENTS"
	TimedOut         Status = "TIMED_OUT"
	Cancelled        Status = "CANCELLED"
	Partial          Status = "PARTIAL"
)

// Class says what a model can do about a failure. Closed, append only.
type Class string

// The classes: the model can fix its input; the same input will fail again;
// the runtime already retried; stop; not allowed; the tool worked and what the
// command did is the answer.
const (
	ClassInvalidArgs Class = "invalid_args"
	ClassNotFound    Class = "not_found"
	ClassTransient   Class = "transient"
	ClassPermanent   Class = "permanent"
	ClassDenied      Class = "denied"
	ClassOutcome     Class = "outcome"
)

// Effect says what a mutation left behind.
type Effect string

// The effects. EffectUnknown is for an external call that was cancelled
// half-way.
const (
	EffectNone    Effect = "none"
	EffectApplied Effect = "applied"
	EffectUnknown Effect = "unknown"
)

// CallState is where a call is on its road.
type CallState string

// The states of a call.
const (
	CallQueued          CallState = "QUEUED"
	CallPendingApproval CallState = "PENDING_APPROVAL"
	CallRunning         CallState = "RUNNING"
	CallDone            CallState = "DONE"
)

// RunState is the phase of an agent's work; it decides which tools are shown.
type RunState string

// The phases of a run.
const (
	Planning  RunState = "PLANNING"
	Editing   RunState = "EDITING"
	Verifying RunState = "VERIFYING"
	Review    RunState = "REVIEW"
	Finished  RunState = "DONE"
)

// RunStatus is the condition of a run's box.
type RunStatus string

// The conditions of a run. Stopped needs a person: a budget is spent, or
// secrets are asked for again after a restart.
const (
	RunCreating RunStatus = "creating"
	RunReady    RunStatus = "ready"
	RunIdle     RunStatus = "idle"
	RunStopped  RunStatus = "stopped"
	RunEnded    RunStatus = "ended"
	RunFailed   RunStatus = "failed"
)
