package workspace

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/sandbox"
)

// A base file holds the kept contents one after the other, then the manifest,
// a JSON object a line, then where the manifest starts (8 bytes, big-endian)
// and baseMagic. It is written beside its place and renamed.
const baseMagic = "sbxbase1"

// state is what a base, or the workspace now, knows of one path.
type state struct {
	// Path is bytes, because it need not be UTF-8.
	Path   []byte           `json:"path"`
	Type   sandbox.FileType `json:"type"`
	Exec   bool             `json:"exec,omitempty"`
	Hash   string           `json:"hash,omitempty"` // "" if it could not be read
	Bytes  int64            `json:"bytes,omitempty"`
	Target []byte           `json:"target,omitempty"`
	// Kept says that the content is in the base file, at Offset.
	Kept   bool  `json:"kept,omitempty"`
	Offset int64 `json:"offset,omitempty"`
}

// stateOf describes a walked entry; ok is false for what no diff shows
// (directories, special files, and what git keeps for itself).
func stateOf(e sandbox.Entry) (s state, ok bool) {
	if isGit(e.Path) {
		return state{}, false
	}
	switch e.Info.Type {
	case sandbox.TypeFile, sandbox.TypeSymlink:
	default:
		return state{}, false
	}
	return state{
		Path: []byte(e.Path), Type: e.Info.Type, Exec: e.Info.Mode&0o100 != 0 && e.Info.Type == sandbox.TypeFile,
		Hash: e.Hash, Bytes: e.Info.Bytes, Target: []byte(e.Info.Target),
	}, true
}

// isGit tells whether a path is, or is below, something named .git.
func isGit(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if part == ".git" {
			return true
		}
	}
	return false
}

// walkStates is the walk that bases and comparisons share.
func walkStates(ctx context.Context, files sandbox.Files, contentMax int64, limits Limits,
	visit func(s state, content io.Reader) error,
) error {
	n := 0
	req := sandbox.WalkRequest{Prune: []string{".git"}, Hash: true, ContentMax: contentMax}
	return files.Walk(ctx, req, func(e sandbox.Entry, content io.Reader) error {
		if n++; n > limits.BaseEntries {
			return runtime.Problemf(runtime.ProblemTooLarge,
				"The workspace has more than %d entries; it cannot be compared.", limits.BaseEntries)
		}
		s, ok := stateOf(e)
		if !ok {
			return nil
		}
		return visit(s, content)
	})
}

// saveBase writes the base of the workspace as it is now.
func saveBase(ctx context.Context, files sandbox.Files, path string, limits Limits) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	err = writeBase(ctx, files, f, limits)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

func writeBase(ctx context.Context, files sandbox.Files, f io.Writer, limits Limits) error {
	w := &baseWriter{out: bufio.NewWriterSize(f, 256<<10), limits: limits, kept: make(map[string]int64)}
	if err := walkStates(ctx, files, limits.BaseFileBytes, limits, w.add); err != nil {
		return err
	}
	start := w.size
	enc := json.NewEncoder(w.out)
	for _, s := range w.states {
		if err := enc.Encode(s); err != nil {
			return err
		}
	}
	trailer := append(binary.BigEndian.AppendUint64(nil, uint64(start)), baseMagic...)
	if _, err := w.out.Write(trailer); err != nil {
		return err
	}
	return w.out.Flush()
}

type baseWriter struct {
	out    *bufio.Writer
	limits Limits
	size   int64
	states []state
	kept   map[string]int64 // hash → offset: the same content is kept once
}

// add notes one path, and keeps its content if a diff could show it.
func (w *baseWriter) add(s state, content io.Reader) error {
	defer func() { w.states = append(w.states, s) }()
	if s.Type != sandbox.TypeFile || s.Hash == "" || content == nil || s.Bytes > w.limits.BaseFileBytes {
		return nil
	}
	if at, ok := w.kept[s.Hash]; ok {
		s.Kept, s.Offset = true, at
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(content, w.limits.BaseFileBytes+1))
	if err != nil {
		return err
	}
	// A file that changed between its hash and its content is kept by hash only.
	if int64(len(data)) != s.Bytes || isBinary(data) || w.size+s.Bytes > w.limits.BaseBytes {
		return nil
	}
	if _, err := w.out.Write(data); err != nil {
		return err
	}
	w.kept[s.Hash] = w.size
	s.Kept, s.Offset = true, w.size
	w.size += s.Bytes
	return nil
}

// isBinary is git's rule: a NUL among the first 8,000 bytes.
func isBinary(data []byte) bool {
	return bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0
}

// base is an open base file.
type base struct {
	file   *os.File
	states map[string]state
}

func openBase(path string) (*base, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	b := &base{file: f, states: make(map[string]state)}
	if err := b.readManifest(); err != nil {
		return nil, errors.Join(fmt.Errorf("workspace: base %s is damaged: %w", filepath.Base(path), err), f.Close())
	}
	return b, nil
}

func (b *base) readManifest() error {
	info, err := b.file.Stat()
	if err != nil {
		return err
	}
	const trailer = 8 + len(baseMagic)
	end := info.Size() - int64(trailer)
	if end < 0 {
		return io.ErrUnexpectedEOF
	}
	tail := make([]byte, trailer)
	if _, err := b.file.ReadAt(tail, end); err != nil {
		return err
	}
	start := int64(binary.BigEndian.Uint64(tail))
	if string(tail[8:]) != baseMagic || start < 0 || start > end {
		return errors.New("it has no trailer")
	}
	dec := json.NewDecoder(bufio.NewReader(io.NewSectionReader(b.file, start, end-start)))
	for {
		var s state
		switch err := dec.Decode(&s); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		b.states[string(s.Path)] = s
	}
}

// content reads what the base kept of a path.
func (b *base) content(s state) ([]byte, error) {
	data := make([]byte, s.Bytes)
	if _, err := b.file.ReadAt(data, s.Offset); err != nil && s.Bytes > 0 {
		return nil, fmt.Errorf("workspace: read base: %w", err)
	}
	return data, nil
}

// Close closes the file.
func (b *base) Close() error { return b.file.Close() }

// mode is git's mode of a path.
func (s state) mode() string {
	switch {
	case s.Type == sandbox.TypeSymlink:
		return "120000"
	case s.Exec:
		return "100755"
	}
	return "100644"
}
