package agentproto

import (
	"context"
	"errors"
	"io"

	"github.com/sandboxd/sandboxd/sandbox"
)

// Walk streams: visit runs while the agent goes on reading.
func (f files) Walk(ctx context.Context, req sandbox.WalkRequest, visit func(sandbox.Entry, io.Reader) error) error {
	if len(req.Prune) > maxList {
		return tooMany("names to prune")
	}
	op, err := f.s.begin(ctx)
	if err != nil {
		return err
	}
	defer op.end()
	if err := op.sendWalk(req); err != nil {
		return op.failure(err)
	}
	err = op.visitAll(visit)
	var stop *visitError
	if errors.As(err, &stop) {
		return stop.err
	}
	if err != nil {
		return op.failure(err)
	}
	return nil
}

// visitError is an error of the caller's visit, to be returned as it is.
type visitError struct{ err error }

func (e *visitError) Error() string { return e.err.Error() }

// namesPerMessage keeps a message of names below the limit of a frame: a path
// has at most 4096 bytes.
const namesPerMessage = 128

func (op *operation) sendWalk(req sandbox.WalkRequest) error {
	m := WalkMessage{
		Path: Bytes(req.Path), Depth: max(req.Depth, 0), Prune: toBytes(req.Prune),
		Hash: req.Hash, ContentMax: req.ContentMax, Names: req.Names != nil,
	}
	if err := op.w.Queue(FrameWalk, m); err != nil {
		return err
	}
	var batch []Bytes
	for name, wanted := range req.Names {
		if !wanted {
			continue
		}
		if batch = append(batch, Bytes(name)); len(batch) < namesPerMessage {
			continue
		}
		if err := op.w.Queue(FrameNames, NamesMessage{Paths: batch}); err != nil {
			return err
		}
		batch = batch[:0]
	}
	if len(batch) > 0 {
		if err := op.w.Queue(FrameNames, NamesMessage{Paths: batch}); err != nil {
			return err
		}
	}
	if req.Names != nil {
		return op.w.Message(FrameEnd, nil)
	}
	return op.w.Flush()
}

func (op *operation) visitAll(visit func(sandbox.Entry, io.Reader) error) error {
	for {
		t, payload, err := op.r.Next()
		if err != nil {
			return err
		}
		if t == FrameEnd {
			return DecodeAs(t, payload, FrameEnd, nil)
		}
		var m EntriesMessage
		if err := DecodeAs(t, payload, FrameEntries, &m); err != nil {
			return err
		}
		for i, em := range m.Entries {
			if em.Content && i != len(m.Entries)-1 {
				return broken("content in the middle of a list")
			}
			if err := op.visitOne(em, visit); err != nil {
				return err
			}
		}
	}
}

func (op *operation) visitOne(m EntryMessage, visit func(sandbox.Entry, io.Reader) error) error {
	e, err := m.Entry()
	if err != nil {
		return err
	}
	if e.Err == nil && e.Info.Type == "" {
		return broken("an entry of no type")
	}
	if !m.Content {
		if err := visit(e, nil); err != nil {
			return &visitError{err}
		}
		return nil
	}
	content := &contentReader{op: op}
	if err := visit(e, content); err != nil {
		if content.err != nil && !content.ours {
			return content.err
		}
		return &visitError{err}
	}
	return content.drain()
}

// contentReader reads one file's content frames.
type contentReader struct {
	op   *operation
	rest []byte
	err  error // io.EOF at the content's end
	ours bool  // err is the file's, not the conversation's
}

func (c *contentReader) Read(p []byte) (int, error) {
	for len(c.rest) == 0 {
		if c.err != nil {
			return 0, c.err
		}
		c.next()
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func (c *contentReader) next() {
	t, payload, err := c.op.r.Next()
	if err != nil {
		c.err = err
		if errors.Is(err, io.EOF) {
			c.err = io.ErrUnexpectedEOF
		}
		return
	}
	if t == FrameContent {
		c.rest = payload
		return
	}
	var end ContentEndMessage
	if err := DecodeAs(t, payload, FrameContentEnd, &end); err != nil {
		c.err = err
		return
	}
	c.err, c.ours = io.EOF, true
	if end.Err != nil {
		c.err = end.Err.Error()
		var refused *sandbox.Error
		c.ours = errors.As(c.err, &refused)
	}
}

// drain reads what visit left.
func (c *contentReader) drain() error {
	c.rest = nil
	for c.err == nil {
		c.next()
		c.rest = nil
	}
	if c.ours {
		return nil
	}
	return c.err
}
