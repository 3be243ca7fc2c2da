package workspace

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/sandbox"
)

// A Store keeps the bases of runs in a directory of the service, one file
// each, and uses it for uploads under way. It is safe for concurrent use.
type Store struct {
	dir    string
	limits Limits
}

var _ runtime.Workspaces = (*Store)(nil)

// NewStore keeps bases in dir, which is made when it is first needed.
func NewStore(dir string, limits Limits) *Store {
	return &Store{dir: dir, limits: limits}
}

// Import implements runtime.Workspaces; see ImportTar.
func (s *Store) Import(ctx context.Context, files sandbox.Files, tar io.Reader) (runtime.UploadStats, error) {
	if err := s.makeDir(); err != nil {
		return runtime.UploadStats{}, err
	}
	stats, err := ImportTar(ctx, files, tar, s.dir, s.limits)
	return stats.UploadStats, err
}

// Export implements runtime.Workspaces; see ExportTar.
func (s *Store) Export(ctx context.Context, files sandbox.Files, w io.Writer) error {
	_, err := ExportTar(ctx, files, w)
	return err
}

// CopyDir implements runtime.Workspaces; see the function of that name.
func (s *Store) CopyDir(ctx context.Context, files sandbox.Files, hostDir string) (runtime.UploadStats, error) {
	stats, err := CopyDir(ctx, files, hostDir, s.limits)
	return stats.UploadStats, err
}

// SaveBase implements runtime.Workspaces. The new base takes the old one's
// place when it is whole.
func (s *Store) SaveBase(ctx context.Context, runID string, files sandbox.Files) error {
	path, err := s.path(runID)
	if err != nil {
		return err
	}
	if err := s.makeDir(); err != nil {
		return err
	}
	return saveBase(ctx, files, path, s.limits)
}

// Diff implements runtime.Workspaces.
func (s *Store) Diff(ctx context.Context, runID string, files sandbox.Files, w io.Writer) error {
	_, err := s.DiffSummary(ctx, runID, files, w)
	return err
}

// DiffSummary is Diff, and counts what it wrote.
func (s *Store) DiffSummary(ctx context.Context, runID string, files sandbox.Files, w io.Writer) (Summary, error) {
	b, err := s.open(runID)
	if err != nil {
		return Summary{}, err
	}
	defer func() { _ = b.Close() }() // opened for reading
	return diff(ctx, files, b, w, s.limits)
}

// Changed lists the files that differ from the base: added, removed, or with
// another content, type or executable bit. Paths are in byte order.
func (s *Store) Changed(ctx context.Context, runID string, files sandbox.Files) ([]string, error) {
	b, err := s.open(runID)
	if err != nil {
		return nil, err
	}
	defer func() { _ = b.Close() }() // opened for reading
	changes, err := compare(ctx, files, b, s.limits)
	if err != nil {
		return nil, err
	}
	paths := make([]string, len(changes))
	for i, c := range changes {
		paths[i] = c.path
	}
	return paths, nil
}

// Forget implements runtime.Workspaces.
func (s *Store) Forget(runID string) error {
	path, err := s.path(runID)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Clear implements runtime.Workspaces.
func (s *Store) Clear() error { return os.RemoveAll(s.dir) }

func (s *Store) open(runID string) (*base, error) {
	path, err := s.path(runID)
	if err != nil {
		return nil, err
	}
	b, err := openBase(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, runtime.Problemf(runtime.ProblemNotFound, "The run has no base to compare with.")
	}
	return b, err
}

func (s *Store) makeDir() error { return os.MkdirAll(s.dir, 0o700) }

// path is where a run's base is. Run ids are ours, yet never trusted as names.
func (s *Store) path(runID string) (string, error) {
	if !filepath.IsLocal(runID) || filepath.Base(runID) != runID {
		return "", runtime.Problemf(runtime.ProblemBadRequest, "The run id %q is not one.", runID)
	}
	return filepath.Join(s.dir, runID+".base"), nil
}
