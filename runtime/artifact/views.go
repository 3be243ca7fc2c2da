package artifact

import (
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
)

// A cleanSink takes the redacted view: hashed and counted only, until it
// differs from the raw one and gets its own file.
type cleanSink struct {
	hash  hash.Hash
	bytes int64
	split func() (*os.File, error)
	file  *os.File
	// changed is the filter's answer; set by Create through the writer.
	changed func() bool
}

func (c *cleanSink) Write(p []byte) (int, error) {
	if c.file == nil && c.changed != nil && c.changed() {
		f, err := c.split()
		if err != nil {
			return 0, err
		}
		c.file = f
	}
	if c.file != nil {
		if _, err := c.file.Write(p); err != nil {
			return 0, fmt.Errorf("write redacted artifact: %w", typed(err))
		}
	}
	c.hash.Write(p)
	c.bytes += int64(len(p))
	return len(p), nil
}

// split gives the redacted view a file of its own, which begins as the raw
// one does, up to the first difference.
func (w *Writer) split() (*os.File, error) {
	f, err := w.store.create(fileName(w.info.RunID, w.info.ID, Redacted))
	if err != nil {
		return nil, err
	}
	same := w.clean.bytes
	if _, err := io.Copy(f, io.NewSectionReader(w.raw, 0, same)); err != nil {
		return nil, errors.Join(fmt.Errorf("write redacted artifact: %w", typed(err)), f.Close())
	}
	w.rawHash, err = cloneHash(w.clean.hash)
	if err == nil {
		_, err = io.Copy(w.rawHash, io.NewSectionReader(w.raw, same, w.info.RawBytes-same))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("hash artifact: %w", err), f.Close())
	}
	return f, nil
}

func cloneHash(h hash.Hash) (hash.Hash, error) {
	c, ok := h.(hash.Cloner)
	if !ok {
		return nil, errors.New("sha256 cannot be cloned")
	}
	return c.Clone()
}

// settleViews makes sure that a redacted view without a file of its own is
// the raw one.
func (w *Writer) settleViews() error {
	if w.clean.file != nil || w.filter == nil {
		return nil
	}
	if !w.filter.Changed() && w.clean.bytes == w.info.RawBytes {
		return nil
	}
	f, err := w.split()
	w.clean.file = f
	return err
}
