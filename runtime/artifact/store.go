package artifact

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// The errors that callers tell apart.
var (
	// ErrNotFound means that there is no such artifact, or not in this run.
	ErrNotFound = errors.New("artifact: not found")
	// ErrInvalidID means that an id does not have an id's form.
	ErrInvalidID = errors.New("artifact: invalid id")
	// ErrDiskFull means that the disk, a quota or the free space to be kept
	// does not allow it.
	ErrDiskFull = errors.New("artifact: disk full")
)

// A View says which bytes of an artifact are meant.
type View string

// The views.
const (
	Redacted View = "redacted"
	Raw      View = "raw"
)

// Meta says what an artifact is of.
type Meta struct {
	RunID, CallID string
	// Name is the stream's or file's name, Type its media type, Description a
	// sentence for people.
	Name, Type, Description string
}

// Info describes a committed artifact.
type Info struct {
	Meta
	ID string
	// Bytes and SHA256 (hex) are of the redacted view, so that they tell
	// nothing of what was taken out; those of the raw view are apart.
	Bytes     int64
	SHA256    string
	RawBytes  int64
	RawSHA256 string
	// Truncated is set where the stream was longer than the store takes.
	Truncated bool
	CreatedAt time.Time
}

// Options bound a store.
type Options struct {
	// MaxBytes is the longest raw view; what comes after it is counted and
	// dropped. 0 means no bound.
	MaxBytes int64
	// KeepFreeBytes is the space on the disk that artifacts leave alone.
	KeepFreeBytes int64
}

// A Store keeps artifacts below one directory. It is safe for concurrent use.
type Store struct {
	root *os.Root
	opts Options
}

// Open opens the store in dir, which it makes if it is missing (mode 0700),
// and removes what an earlier process left unfinished. Only one process may
// have it open.
func Open(dir string, opts Options) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open artifact store: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open artifact store: %w", err)
	}
	s := &Store{root: root, opts: opts}
	if err := s.sweep(); err != nil {
		return nil, errors.Join(fmt.Errorf("clean artifact store: %w", err), root.Close())
	}
	return s, nil
}

// Close releases the store's directory.
func (s *Store) Close() error { return s.root.Close() }

const unfinished = ".part"

// sweep removes the files of writers that never committed.
func (s *Store) sweep() error {
	return fs.WalkDir(s.root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, unfinished) {
			return err
		}
		return s.root.Remove(path)
	})
}

// Ids have a closed form, so that one can be a file's name.
var (
	artifactID = regexp.MustCompile(`^art_[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	runID      = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
)

// ValidID tells whether id has the form of an artifact's: "art_" and a UUIDv7
// (RFC 9562).
func ValidID(id string) bool { return artifactID.MatchString(id) }

func newID() (string, error) {
	u, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make artifact id: %w", err)
	}
	return "art_" + u.String(), nil
}

func fileName(run, id string, view View) string {
	return run + "/" + id + "." + string(view)
}

// A File is an open view of an artifact.
type File struct {
	f *os.File
	// Bytes is the view's size.
	Bytes int64
}

var _ io.ReadSeekCloser = (*File)(nil)

// Read implements io.Reader.
func (f *File) Read(p []byte) (int, error) { return f.f.Read(p) }

// ReadAt implements io.ReaderAt.
func (f *File) ReadAt(p []byte, off int64) (int, error) { return f.f.ReadAt(p, off) }

// Seek implements io.Seeker.
func (f *File) Seek(off int64, whence int) (int64, error) { return f.f.Seek(off, whence) }

// Close implements io.Closer.
func (f *File) Close() error { return f.f.Close() }

// Open opens one view of a run's artifact. The caller has checked that it may
// be read. Errors: ErrInvalidID, ErrNotFound.
func (s *Store) Open(run, id string, view View) (*File, error) {
	if !runID.MatchString(run) || !ValidID(id) || view != Raw && view != Redacted {
		return nil, fmt.Errorf("%w: %q of %q (%q)", ErrInvalidID, id, run, view)
	}
	f, err := s.root.OpenFile(fileName(run, id, view), os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", ErrNotFound, id)
	}
	if err != nil {
		return nil, fmt.Errorf("open artifact: %w", err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: %s is no regular file", ErrNotFound, id)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &File{f: f, Bytes: info.Size()}, nil
}

// ReadRange returns at most limit bytes of a view from offset on, and the
// view's size. An offset behind the end gives no bytes.
func (s *Store) ReadRange(run, id string, view View, offset int64, limit int) ([]byte, int64, error) {
	f, err := s.Open(run, id, view)
	if err != nil {
		return nil, 0, err
	}
	offset = min(max(offset, 0), f.Bytes)
	buf := make([]byte, min(int64(limit), f.Bytes-offset))
	n, err := f.ReadAt(buf, offset)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return buf[:n], f.Bytes, errors.Join(err, f.Close())
}

// DeleteRun removes all artifacts of a run. It is idempotent.
func (s *Store) DeleteRun(run string) error {
	if !runID.MatchString(run) {
		return fmt.Errorf("%w: run %q", ErrInvalidID, run)
	}
	if err := s.root.RemoveAll(run); err != nil {
		return fmt.Errorf("delete artifacts of %s: %w", run, err)
	}
	return nil
}

// typed gives a full disk its own error.
func typed(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG) {
		return fmt.Errorf("%w: %w", ErrDiskFull, err)
	}
	return err
}
