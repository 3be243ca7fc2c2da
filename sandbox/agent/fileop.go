package agent

import (
	"errors"
	"io"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/agent/workspace"
	"github.com/sandboxd/sandboxd/sandbox/agentproto"
)

// file runs a file operation on a thread that has the user's rights.
func (o *op) file(t agentproto.FrameType, payload []byte) error {
	run, err := o.prepare(t, payload)
	if err != nil {
		return err
	}
	o.box.files.do(func() { err = run() })
	if err != nil {
		return err
	}
	if err := o.w.Flush(); err != nil {
		return err
	}
	if o.watched {
		return errOver
	}
	return nil
}

// prepare decodes the request. The function it returns queues its answer; it
// returns an error only if the conversation failed.
func (o *op) prepare(t agentproto.FrameType, payload []byte) (func() error, error) {
	switch t {
	case agentproto.FrameStat:
		var m agentproto.StatMessage
		err := agentproto.Decode(payload, &m)
		return func() error { return o.stat(m) }, err
	case agentproto.FrameRead:
		var m agentproto.ReadMessage
		err := agentproto.Decode(payload, &m)
		return func() error { return o.read(m) }, err
	case agentproto.FrameWalk:
		var m agentproto.WalkMessage
		if err := agentproto.Decode(payload, &m); err != nil {
			return nil, err
		}
		names, err := o.names(m)
		return func() error { return o.walk(m, names) }, err
	case agentproto.FrameApply:
		var m agentproto.ApplyMessage
		err := agentproto.Decode(payload, &m)
		return func() error { return o.apply(m) }, err
	case agentproto.FrameFill:
		return o.fill, nil
	}
	return nil, agentproto.Unexpected(t)
}

func (o *op) stat(m agentproto.StatMessage) error {
	info, err := o.box.root.Stat(string(m.Path))
	if err != nil {
		return o.w.Queue(agentproto.FrameError, agentproto.NewError(err))
	}
	return o.w.Queue(agentproto.FrameInfo, agentproto.NewInfo(info))
}

func (o *op) read(m agentproto.ReadMessage) error {
	reading, err := o.box.root.Read(sandbox.ReadRequest{Path: string(m.Path), Offset: m.Offset, Limit: m.Limit, NoHash: m.NoHash})
	if err != nil {
		return o.w.Queue(agentproto.FrameError, agentproto.NewError(err))
	}
	defer reading.Close()
	if err := o.w.Queue(agentproto.FrameInfo, agentproto.NewInfo(reading.Info)); err != nil {
		return err
	}
	if !agentproto.Reusable(reading.Info.Bytes) {
		o.watch()
	}
	buf := make([]byte, min(agentproto.MaxChunk, max(reading.Info.Bytes, 1)))
	var sent error
	hash, err := reading.Copy(buf, func(p []byte) error {
		sent = o.w.QueueRaw(agentproto.FrameContent, p)
		return sent
	})
	if sent != nil {
		return sent
	}
	end := agentproto.ContentEndMessage{Hash: hash}
	if err != nil {
		e := agentproto.NewError(err)
		end.Err = &e
	}
	return o.w.Queue(agentproto.FrameContentEnd, end)
}

// apply takes the changes and then, as they are made, their data.
func (o *op) apply(m agentproto.ApplyMessage) error {
	changes := make([]sandbox.Change, len(m.Changes))
	hasData := make([]bool, len(m.Changes))
	for i, c := range m.Changes {
		changes[i], hasData[i] = c.Change(), c.Data
		if c.Data && changes[i].Op == sandbox.OpDelete {
			return agentproto.Unexpected(agentproto.FrameContent)
		}
	}
	var last *content
	applied, err := o.box.root.Apply(changes, hasData, func(int) io.Reader {
		last = &content{o: o}
		return last
	})
	if last != nil && last.failed() {
		return last.err // the conversation broke; nothing was changed
	}
	if err != nil {
		return errors.Join(o.w.Message(agentproto.FrameError, agentproto.NewError(err)), o.discard())
	}
	if err := o.r.Expect(agentproto.FrameEnd, nil); err != nil {
		return err
	}
	var answer agentproto.AppliedMessage
	for _, a := range applied {
		answer.Applied = append(answer.Applied, agentproto.AppliedEntry{
			Path: agentproto.Bytes(a.Path), Created: a.Created, OldHash: a.OldHash, Hash: a.Hash, Bytes: a.Bytes})
	}
	return o.w.Queue(agentproto.FrameApplied, answer)
}

// discard reads what the service still sends for an operation that was
// refused, so that it is not held up before it reads the refusal.
func (o *op) discard() error {
	for {
		t, _, err := o.r.Next()
		if err != nil || t == agentproto.FrameEnd {
			return ignoreEOF(err)
		}
	}
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// content reads the content frames of one file.
type content struct {
	o    *op
	rest []byte
	err  error // io.EOF at the end
}

func (c *content) failed() bool { return c.err != nil && !errors.Is(c.err, io.EOF) }

func (c *content) Read(p []byte) (int, error) {
	for len(c.rest) == 0 {
		if c.err != nil {
			return 0, c.err
		}
		t, payload, err := c.o.r.Next()
		switch {
		case errors.Is(err, io.EOF):
			c.err = io.ErrUnexpectedEOF
		case err != nil:
			c.err = err
		case t == agentproto.FrameContent:
			c.rest = payload
		case t == agentproto.FrameContentEnd:
			c.err = io.EOF
		default:
			c.err = agentproto.Unexpected(t)
		}
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// fill makes entries as they come.
func (o *op) fill() error {
	made := 0
	for {
		t, payload, err := o.r.Next()
		if err != nil {
			return err
		}
		if t == agentproto.FrameEnd {
			return o.w.Queue(agentproto.FrameFilled, agentproto.FilledMessage{Made: made})
		}
		var m agentproto.EntryMessage
		if err := agentproto.DecodeAs(t, payload, agentproto.FrameEntry, &m); err != nil {
			return err
		}
		refused, err := o.fillOne(m)
		if err != nil {
			return err
		}
		if refused != nil {
			e := agentproto.NewError(refused)
			return errors.Join(o.w.Message(agentproto.FrameFilled, agentproto.FilledMessage{Made: made, Err: &e}), o.discard())
		}
		made++
	}
}

// fillOne makes one entry. refused is the file system's answer, err the
// conversation's failure.
func (o *op) fillOne(m agentproto.EntryMessage) (refused, err error) {
	e, err := m.Entry()
	if err != nil {
		return nil, err
	}
	if !m.Content {
		return o.box.fill.Fill(e, nil), nil
	}
	c := &content{o: o}
	refused = o.box.fill.Fill(e, c)
	if refused == nil && !c.failed() {
		_, _ = io.Copy(io.Discard, c) // an entry without use for content
	}
	if c.failed() {
		return nil, c.err
	}
	return refused, nil
}

var _ workspace.Visitor = (*walker)(nil)
