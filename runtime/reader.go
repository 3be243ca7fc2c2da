package runtime

import (
	"context"
	"errors"
	"io"

	"github.com/sandboxd/sandboxd/runtime/artifact"
)

// Reader is what the kernel reads of the ledger on behalf of the API. Unknown
// ids are a *Problem with ProblemNotFound.
type Reader interface {
	Runs(ctx context.Context, f RunFilter, p Page) (runs []Run, next string, err error)
	Calls(ctx context.Context, runID string, p Page) (calls []Call, next string, err error)
	Events(ctx context.Context, runID string, after int64, limit int) ([]Event, error)
	// Follow signals after each commit that holds events of the run; signals
	// coalesce. stop ends it.
	Follow(runID string) (signal <-chan struct{}, stop func())
	ArtifactReader
}

// ArtifactReader finds artifacts.
type ArtifactReader interface {
	Artifacts(ctx context.Context, runID string, p Page) (refs []ArtifactRef, next string, err error)
	Artifact(ctx context.Context, artifactID string) (ArtifactRef, error)
}

// Run returns a run as it is now. Errors are *Problem.
func (k *Kernel) Run(ctx context.Context, runID string) (Run, error) {
	if r := k.liveRun(runID); r != nil {
		return r.snapshot(), nil
	}
	return k.journal.Run(ctx, runID)
}

// Runs lists runs, newest first.
func (k *Kernel) Runs(ctx context.Context, f RunFilter, p Page) ([]Run, string, error) {
	runs, next, err := k.reader.Runs(ctx, f, p)
	for i := range runs {
		if r := k.liveRun(runs[i].RunID); r != nil {
			runs[i] = r.snapshot()
		}
	}
	return runs, next, err
}

// Call returns one call of a run as it is now.
func (k *Kernel) Call(ctx context.Context, runID, callID string) (Call, error) {
	if f := k.flightOf(runID, callID); f != nil {
		return f.snapshot(), nil
	}
	return k.journal.Call(ctx, runID, callID)
}

// Calls lists a run's calls in the order of their requests.
func (k *Kernel) Calls(ctx context.Context, runID string, p Page) ([]Call, string, error) {
	if _, err := k.Run(ctx, runID); err != nil {
		return nil, "", err
	}
	return k.reader.Calls(ctx, runID, p)
}

// Events returns up to limit events of a run after a sequence number.
func (k *Kernel) Events(ctx context.Context, runID string, after int64, limit int) ([]Event, error) {
	if _, err := k.Run(ctx, runID); err != nil {
		return nil, err
	}
	return k.reader.Events(ctx, runID, after, limit)
}

// Follow signals when a run may have new events.
func (k *Kernel) Follow(runID string) (<-chan struct{}, func()) { return k.reader.Follow(runID) }

// Artifacts lists a run's artifacts.
func (k *Kernel) Artifacts(ctx context.Context, runID string, p Page) ([]ArtifactRef, string, error) {
	if _, err := k.Run(ctx, runID); err != nil {
		return nil, "", err
	}
	return k.reader.Artifacts(ctx, runID, p)
}

// OpenArtifact opens an artifact's content: view "redacted" is for everybody,
// "raw" for those who may audit.
func (k *Kernel) OpenArtifact(ctx context.Context, artifactID, view string) (io.ReadSeekCloser, ArtifactRef, error) {
	ref, err := k.reader.Artifact(ctx, artifactID)
	if err != nil {
		return nil, ArtifactRef{}, err
	}
	content, err := k.artifacts.Open(ref.RunID, artifactID, artifact.View(view))
	if errors.Is(err, artifact.ErrNotFound) {
		return nil, ref, &Problem{Code: ProblemNotFound, Detail: "The artifact's content is not there any more.", Cause: err}
	}
	if err != nil {
		return nil, ref, err
	}
	return content, ref, nil
}

// Tools lists the registry.
func (k *Kernel) Tools() []ToolView {
	views := make([]ToolView, 0, len(k.tools.order))
	for _, t := range k.tools.order {
		views = append(views, t.view)
	}
	return views
}

// RunTools is what the run's model may see now. When the list differs from the
// one last shown, the ledger records it, schemas included.
func (k *Kernel) RunTools(ctx context.Context, runID string) (ToolList, error) {
	run, err := k.live(ctx, runID)
	if err != nil {
		return ToolList{}, err
	}
	list, err := toolList(k.project(run.view()))
	if err != nil {
		return ToolList{}, err
	}
	if run.expose(list.SchemaSetHash) {
		err = k.journal.Note(ctx, nil, Draft{RunID: runID, Kind: ToolsExposed, Data: list})
	}
	return list, err
}

// Ready tells whether the service can take calls.
func (k *Kernel) Ready(ctx context.Context) error {
	if k.ctx.Err() != nil {
		return Problemf(ProblemUnavailable, "The service is shutting down.")
	}
	_, err := k.journal.OpenCalls(ctx)
	return err
}

func (k *Kernel) liveRun(runID string) *liveRun {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.runs[runID]
}

// live returns a run that takes calls, or says why it does not.
func (k *Kernel) live(ctx context.Context, runID string) (*liveRun, error) {
	if r := k.liveRun(runID); r != nil {
		return r, nil
	}
	run, err := k.journal.Run(ctx, runID)
	if err != nil {
		return nil, err
	}
	return nil, Problemf(ProblemRunNotActive, "The run is %s and takes no calls. Create a new run.", run.Status)
}

func (k *Kernel) flightOf(runID, callID string) *flight {
	if r := k.liveRun(runID); r != nil {
		return r.flight(callID)
	}
	return nil
}
