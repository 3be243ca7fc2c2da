package runtime

import (
	"context"
	"errors"
	"io"

	"github.com/sandboxd/sandboxd/sandbox"
)

// Workspaces fills workspaces and tells what came of them. Package
// runtime/workspace is the one that does. Errors are *Problem, *sandbox.Error,
// or ours.
type Workspaces interface {
	// Import unpacks a tar (plain, gzip or zstd); all of it or nothing.
	Import(ctx context.Context, files sandbox.Files, tar io.Reader) (UploadStats, error)
	// Export writes the workspace as a tar.
	Export(ctx context.Context, files sandbox.Files, w io.Writer) error
	// CopyDir copies a directory of the host into the workspace.
	CopyDir(ctx context.Context, files sandbox.Files, hostDir string) (UploadStats, error)
	// SaveBase keeps the workspace as it is now as the run's base.
	SaveBase(ctx context.Context, runID string, files sandbox.Files) error
	// Forget drops the run's base; a run without one is no error.
	Forget(runID string) error
	// Clear drops every base, and what an earlier process left half made.
	Clear() error
	// Diff writes a unified diff of the workspace against the run's base.
	Diff(ctx context.Context, runID string, files sandbox.Files, w io.Writer) error
}

// fillWorkspace brings the source into a new box and keeps it as the base.
func (k *Kernel) fillWorkspace(ctx context.Context, runID string, src Source, box sandbox.Box) error {
	if src.Type == "host" && src.Mode == "copy" {
		if _, err := k.spaces.CopyDir(ctx, box.Files(), src.Path); err != nil {
			return err
		}
	}
	return k.spaces.SaveBase(ctx, runID, box.Files())
}

// Upload unpacks a tar into the run's workspace; what is there afterwards is
// the run's new base. It waits for the mutations under way.
func (k *Kernel) Upload(ctx context.Context, runID string, tar io.Reader) (UploadStats, error) {
	run, err := k.live(ctx, runID)
	if err != nil {
		return UploadStats{}, err
	}
	box, err := run.awaitBox(ctx)
	if err != nil {
		return UploadStats{}, boxProblem(err)
	}
	lane := run.lanes[GroupWorkspace]
	if err := lane.Acquire(ctx, 1); err != nil {
		return UploadStats{}, err
	}
	defer lane.Release(1)
	stats, err := k.spaces.Import(ctx, box.Files(), tar)
	if err != nil {
		return UploadStats{}, boxProblem(err)
	}
	if err := k.spaces.SaveBase(ctx, runID, box.Files()); err != nil {
		return UploadStats{}, boxProblem(err)
	}
	return stats, k.journal.Note(ctx, nil, Draft{RunID: runID, Kind: WorkspaceUploaded, Data: stats})
}

// Download writes the run's workspace as a tar.
func (k *Kernel) Download(ctx context.Context, runID string, w io.Writer) error {
	_, box, err := k.openBox(ctx, runID)
	if err != nil {
		return err
	}
	return boxProblem(k.spaces.Export(ctx, box.Files(), w))
}

// Diff writes a unified diff of the run's workspace against its base.
func (k *Kernel) Diff(ctx context.Context, runID string, w io.Writer) error {
	_, box, err := k.openBox(ctx, runID)
	if err != nil {
		return err
	}
	return boxProblem(k.spaces.Diff(ctx, runID, box.Files(), w))
}

func (k *Kernel) openBox(ctx context.Context, runID string) (*liveRun, sandbox.Box, error) {
	run, err := k.live(ctx, runID)
	if err != nil {
		return nil, nil, err
	}
	box, err := run.awaitBox(ctx)
	return run, box, boxProblem(err)
}

// boxProblem turns what a box refused outside a call into a problem.
func boxProblem(err error) error {
	if _, isFault := errors.AsType[*Fault](err); err == nil || !isFault && sandbox.KindOf(err) == sandbox.KindInternal {
		return err
	}
	fault := AsFault(err)
	if fault.Code == CodeInternal {
		fault = BoxFault(err)
	}
	code := ProblemUnsupported
	switch fault.Code {
	case CodeSandboxUnavailable, CodeCancelled:
		code = ProblemSandbox
	case CodeDiskQuota:
		code = ProblemStorageFull
	case CodeReadOnlyWorkspace:
		code = ProblemForbidden
	}
	return &Problem{Code: code, Detail: fault.Message, Cause: err}
}
