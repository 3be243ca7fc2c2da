package artifact

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A Filter redacts a stream. Changed tells whether what it passed on differs
// from what was written to it, at the latest when it passes on the difference.
type Filter interface {
	io.WriteCloser
	Changed() bool
}

// A Writer is an artifact being written. It is for one goroutine; Commit or
// Abort ends it.
type Writer struct {
	store     *Store
	info      Info
	raw       *os.File
	filter    Filter // nil when there is only one view
	clean     *cleanSink
	rawHash   hash.Hash // nil as long as both views are one
	flushed   int64     // raw bytes whose writing to disk was started
	checked   int64     // raw bytes at the last look at the free space
	err       error
	truncated bool
	done      bool
}

// Create begins an artifact. The filter is put in front of the redacted view;
// nil means that both views are the same. Errors: ErrInvalidID for the run's
// id, ErrDiskFull.
func (s *Store) Create(meta Meta, filter func(io.Writer) Filter) (*Writer, error) {
	if !runID.MatchString(meta.RunID) {
		return nil, fmt.Errorf("%w: run %q", ErrInvalidID, meta.RunID)
	}
	if err := s.enoughSpace(); err != nil {
		return nil, err
	}
	id, err := newID()
	if err != nil {
		return nil, err
	}
	if err := s.root.Mkdir(meta.RunID, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("create artifact: %w", typed(err))
	}
	raw, err := s.create(fileName(meta.RunID, id, Raw))
	if err != nil {
		return nil, err
	}
	w := &Writer{
		store: s,
		info:  Info{Meta: meta, ID: id, CreatedAt: time.Now().UTC()},
		raw:   raw,
		clean: &cleanSink{hash: sha256.New()},
	}
	if filter != nil {
		w.filter = filter(w.clean)
		w.clean.split, w.clean.changed = w.split, w.filter.Changed
	}
	return w, nil
}

func (s *Store) create(name string) (*os.File, error) {
	f, err := s.root.OpenFile(name+unfinished, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create artifact: %w", typed(err))
	}
	return f, nil
}

// enoughSpace refuses to write into the space that is to be kept free.
func (s *Store) enoughSpace() error {
	if s.opts.KeepFreeBytes <= 0 {
		return nil
	}
	dir, err := s.root.Open(".")
	if err != nil {
		return fmt.Errorf("look at free space: %w", err)
	}
	var st unix.Statfs_t
	if err := errors.Join(unix.Fstatfs(int(dir.Fd()), &st), dir.Close()); err != nil {
		return fmt.Errorf("look at free space: %w", err)
	}
	if free := int64(st.Bavail) * st.Bsize; free < s.opts.KeepFreeBytes {
		return fmt.Errorf("%w: %d bytes free, %d are to be kept", ErrDiskFull, free, s.opts.KeepFreeBytes)
	}
	return nil
}

// ID is the artifact's id, which is valid once it is committed.
func (w *Writer) ID() string { return w.info.ID }

// Write adds to the stream. What goes beyond the store's bound is dropped and
// flagged; an error is final.
func (w *Writer) Write(p []byte) (int, error) {
	if w.done {
		return 0, fs.ErrClosed
	}
	if w.err != nil {
		return 0, w.err
	}
	kept := p
	if limit := w.store.opts.MaxBytes; limit > 0 && w.info.RawBytes+int64(len(p)) > limit {
		kept = p[:limit-w.info.RawBytes]
		w.truncated = true
	}
	if w.err = w.write(kept); w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

func (w *Writer) write(p []byte) error {
	n, err := w.raw.Write(p)
	w.info.RawBytes += int64(n)
	if err != nil {
		return fmt.Errorf("write artifact: %w", typed(err))
	}
	if w.rawHash != nil {
		w.rawHash.Write(p)
	}
	if w.filter == nil {
		_, err = w.clean.Write(p)
	} else {
		_, err = w.filter.Write(p)
	}
	if err != nil {
		return err
	}
	return w.flushEarly()
}

// Steps of early writing, and of looking at the free space.
const (
	flushStep = 8 << 20
	checkStep = 64 << 20
)

// flushEarly starts the writing of full pages now, so that Commit need not wait
// for all of them.
func (w *Writer) flushEarly() error {
	if n := w.info.RawBytes - w.flushed; n >= flushStep {
		// Advice only: Commit is what guarantees.
		_ = unix.SyncFileRange(int(w.raw.Fd()), w.flushed, n, unix.SYNC_FILE_RANGE_WRITE)
		w.flushed = w.info.RawBytes
	}
	if w.info.RawBytes-w.checked >= checkStep {
		w.checked = w.info.RawBytes
		return w.store.enoughSpace()
	}
	return nil
}

// Commit ends the stream, makes it durable and gives it its name. After an
// error nothing of the artifact is left.
func (w *Writer) Commit() (Info, error) {
	if w.done {
		return Info{}, fs.ErrClosed
	}
	if w.err == nil && w.filter != nil {
		w.err = w.filter.Close()
	}
	if w.err == nil {
		w.err = w.settleViews()
	}
	if w.err == nil {
		w.err = w.publish()
	}
	if w.err != nil {
		return Info{}, errors.Join(w.err, w.Abort())
	}
	w.done = true
	w.info.Bytes, w.info.SHA256 = w.clean.bytes, hexSum(w.clean.hash)
	w.info.RawSHA256 = w.info.SHA256
	if w.rawHash != nil {
		w.info.RawSHA256 = hexSum(w.rawHash)
	}
	w.info.Truncated = w.truncated
	return w.info, nil
}

func hexSum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// publish syncs the data, names the files, the redacted view first, and syncs
// the directory.
func (w *Writer) publish() error {
	root := w.store.root
	raw, redacted := fileName(w.info.RunID, w.info.ID, Raw), fileName(w.info.RunID, w.info.ID, Redacted)
	if err := syncClose(w.raw); err != nil {
		return err
	}
	if w.clean.file != nil {
		if err := syncClose(w.clean.file); err != nil {
			return err
		}
		if err := root.Rename(redacted+unfinished, redacted); err != nil {
			return fmt.Errorf("name artifact: %w", typed(err))
		}
	} else if err := root.Link(raw+unfinished, redacted); err != nil {
		return fmt.Errorf("name artifact: %w", typed(err))
	}
	if err := root.Rename(raw+unfinished, raw); err != nil {
		return fmt.Errorf("name artifact: %w", typed(err))
	}
	dir, err := root.Open(w.info.RunID)
	if err != nil {
		return fmt.Errorf("sync artifact directory: %w", err)
	}
	return errors.Join(typed(dir.Sync()), dir.Close())
}

// syncClose makes a file's data durable; its times do not matter.
func syncClose(f *os.File) error {
	err := unix.Fdatasync(int(f.Fd()))
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("sync artifact: %w", typed(err))
	}
	return nil
}

// Abort ends the stream and leaves nothing of it. It is idempotent, and does
// nothing after Commit.
func (w *Writer) Abort() error {
	if w.done {
		return nil
	}
	w.done = true
	// A file may be closed already; what counts is that the names are gone.
	_ = w.raw.Close()
	if w.clean.file != nil {
		_ = w.clean.file.Close()
	}
	var all error
	for _, view := range []View{Raw, Redacted} {
		name := fileName(w.info.RunID, w.info.ID, view)
		for _, n := range []string{name + unfinished, name} {
			if err := w.store.root.Remove(n); err != nil && !errors.Is(err, fs.ErrNotExist) {
				all = errors.Join(all, fmt.Errorf("remove artifact: %w", err))
			}
		}
	}
	return all
}
