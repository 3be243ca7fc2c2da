package api

import (
	"context"
	"io"
	"time"

	"github.com/sandboxd/sandboxd/runtime"
)

// Kernel is what the API needs of the tool kernel; *runtime.Kernel is one.
// Errors are *runtime.Problem where the client is to know, anything else is a
// failure of the service.
type Kernel interface {
	Runs
	Calls
	Events
	Artifacts
	Tools
	Workspaces
	// Ready is nil when the service can take calls.
	Ready(ctx context.Context) error
}

// Runs makes, shows, changes and ends runs.
type Runs interface {
	CreateRun(ctx context.Context, spec runtime.RunSpec, opt runtime.CreateOptions) (runtime.Run, error)
	Run(ctx context.Context, runID string) (runtime.Run, error)
	Runs(ctx context.Context, f runtime.RunFilter, p runtime.Page) (runs []runtime.Run, next string, err error)
	PatchRun(ctx context.Context, runID string, p runtime.RunPatch, by string) (runtime.Run, error)
	// EndRun is idempotent.
	EndRun(ctx context.Context, runID, by string) error
}

// Calls takes and shows calls.
type Calls interface {
	// Do returns when the call is done, or waits for an approval.
	Do(ctx context.Context, p runtime.Proposal) (runtime.Call, error)
	// Submit returns once the call is recorded.
	Submit(ctx context.Context, p runtime.Proposal) (runtime.Call, error)
	// Cancel asks a call to end; a negative grace is the kernel's default.
	Cancel(ctx context.Context, runID, callID, reason string, grace time.Duration) (runtime.Call, error)
	Call(ctx context.Context, runID, callID string) (runtime.Call, error)
	Calls(ctx context.Context, runID string, p runtime.Page) (calls []runtime.Call, next string, err error)
}

// Events reads a run's ledger.
type Events interface {
	// Events returns at most limit events with a sequence number above after.
	Events(ctx context.Context, runID string, after int64, limit int) ([]runtime.Event, error)
	// Follow signals when the run may have new events; stop ends it.
	Follow(runID string) (signal <-chan struct{}, stop func())
}

// Artifacts finds and opens stored output.
type Artifacts interface {
	Artifacts(ctx context.Context, runID string, p runtime.Page) (refs []runtime.ArtifactRef, next string, err error)
	// OpenArtifact opens view "redacted" or "raw" of an artifact.
	OpenArtifact(ctx context.Context, artifactID, view string) (io.ReadSeekCloser, runtime.ArtifactRef, error)
}

// Tools lists the registry, and what the model of a run may see of it.
type Tools interface {
	Tools() []runtime.ToolView
	RunTools(ctx context.Context, runID string) (runtime.ToolList, error)
}

// Workspaces moves the files of a run in and out.
type Workspaces interface {
	// Upload unpacks a tar (plain, gzip or zstd), all of it or nothing.
	Upload(ctx context.Context, runID string, tar io.Reader) (runtime.UploadStats, error)
	// Download writes the workspace as a tar, Diff as a unified diff against
	// its base.
	Download(ctx context.Context, runID string, w io.Writer) error
	Diff(ctx context.Context, runID string, w io.Writer) error
}
