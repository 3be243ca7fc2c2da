package runtime

import "context"

// Journal is what the kernel needs of the ledger. Package runtime/ledger is
// the one that keeps it; each method is one atomic step.
type Journal interface {
	CallJournal
	RunJournal
}

// CallJournal records calls.
type CallJournal interface {
	// Request records TOOL_CALL_REQUEST and the call, before anything else
	// happens to it; it survives a killed service once it returns. If the call
	// carries an idempotency key that an earlier call of this run and tool has
	// bound, nothing is written and that call is returned: it has the same
	// argumentsHash, or the error is a *Problem with ProblemIdempotency. A key
	// is bound by a call that is not yet done, and by one that was started;
	// a refusal before STARTED does not bind it.
	Request(ctx context.Context, call Call) (prior *Call, err error)
	// Note records events that lead from one station to the next. It does not
	// wait for the disk: they are in the ledger, in order, before any later
	// event of the run, and at the latest with the call's result. decision and
	// effective arguments of the call are kept with it when update is not nil.
	Note(ctx context.Context, update *CallUpdate, drafts ...Draft) error
	// Result records TOOL_CALL_RESULT, the call's end and the run's usage, and
	// returns when that is on disk (synced). A second result for one call is an
	// error, and changes nothing. artifacts become findable by it.
	Result(ctx context.Context, call Call, usage RunUsage, drafts ...Draft) error
	// Bound returns the call that has bound a key, or a *Problem with
	// ProblemNotFound.
	Bound(ctx context.Context, runID, toolName, key string) (Call, error)
	// Call returns one call of a run, or a *Problem with ProblemNotFound.
	Call(ctx context.Context, runID, callID string) (Call, error)
}

// CallUpdate is what is known of a call on its way.
type CallUpdate struct {
	ToolCallID         string
	State              CallState // "" leaves it
	ToolVersion        string    // "" leaves it
	EffectiveArguments []byte    // nil leaves it
	Decision           *Decision // nil leaves it
	Started            bool      // binds the idempotency key
}

// RunJournal records runs.
type RunJournal interface {
	// CreateRun records a new run with its RUN_CREATED event, synced.
	CreateRun(ctx context.Context, run Run, drafts ...Draft) error
	// SaveRun replaces the run's row and records the events, synced.
	SaveRun(ctx context.Context, run Run, drafts ...Draft) error
	// Run returns a run, or a *Problem with ProblemNotFound.
	Run(ctx context.Context, runID string) (Run, error)
	// OpenRuns returns the runs that have not ended, and OpenCalls the calls
	// that are not done: what a restart has to settle.
	OpenRuns(ctx context.Context) ([]Run, error)
	OpenCalls(ctx context.Context) ([]Call, error)
}

// Page bounds a listing: at most Limit rows after the opaque Cursor.
type Page struct {
	Limit  int
	Cursor string
}

// RunFilter selects runs of a listing; empty fields select all.
type RunFilter struct {
	Tenant string
	State  RunState
	Status RunStatus
	Labels map[string]string
}
