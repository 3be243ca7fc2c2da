package agent

import (
	"errors"
	"time"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/agentproto"
)

// maxNames bounds the paths that a walk may be restricted to.
const maxNames = 1 << 20

// names reads the paths that follow a walk's request.
func (o *op) names(m agentproto.WalkMessage) (map[string]bool, error) {
	if !m.Names {
		return nil, nil
	}
	names := map[string]bool{}
	for {
		t, payload, err := o.r.Next()
		if err != nil {
			return nil, err
		}
		if t == agentproto.FrameEnd {
			return names, nil
		}
		var list agentproto.NamesMessage
		if err := agentproto.DecodeAs(t, payload, agentproto.FrameNames, &list); err != nil {
			return nil, err
		}
		for _, p := range list.Paths {
			names[string(p)] = true
		}
		if len(names) > maxNames {
			return nil, &agentproto.ProtocolError{Reason: "too many names"}
		}
	}
}

func (o *op) walk(m agentproto.WalkMessage, names map[string]bool) error {
	req := sandbox.WalkRequest{Path: string(m.Path), Depth: m.Depth, Hash: m.Hash, ContentMax: m.ContentMax, Names: names}
	for _, p := range m.Prune {
		req.Prune = append(req.Prune, string(p))
	}
	o.watch()
	w := &walker{o: o}
	err := o.box.root.Walk(req, w)
	if w.err != nil {
		return w.err
	}
	if flushed := w.flush(); flushed != nil {
		return flushed
	}
	if err != nil {
		return o.w.Queue(agentproto.FrameError, agentproto.NewError(err))
	}
	return o.w.Queue(agentproto.FrameEnd, nil)
}

// watch ends an operation whose stream the service has closed. Nothing more is
// to come from it, so the read returns only then; the stream cannot be used
// again.
func (o *op) watch() {
	o.watched = true
	go func() {
		_, _, _ = o.r.Next()
		_ = o.stream.SetWriteDeadline(time.Unix(1, 0))
	}()
}

// walker sends a walk.
type walker struct {
	o     *op
	batch agentproto.EntriesMessage
	bytes int
	err   error // the conversation's failure
}

// entriesPerMessage and bytesPerMessage bound a part of a walk.
const (
	entriesPerMessage = 256
	bytesPerMessage   = 32 << 10
)

func (w *walker) Entry(e sandbox.Entry, content bool) error {
	m := agentproto.EntryMessage{Path: agentproto.Bytes(e.Path), Info: agentproto.NewInfo(e.Info), Hash: e.Hash, Content: content}
	if e.Err != nil {
		refused := agentproto.NewError(e.Err)
		m.Err = &refused
	}
	w.batch.Entries = append(w.batch.Entries, m)
	w.bytes += len(e.Path) + len(e.Info.Target) + len(e.Hash)
	if content || len(w.batch.Entries) >= entriesPerMessage || w.bytes >= bytesPerMessage {
		return w.flush()
	}
	return nil
}

func (w *walker) flush() error {
	if len(w.batch.Entries) == 0 {
		return nil
	}
	err := w.o.w.Queue(agentproto.FrameEntries, w.batch)
	w.batch.Entries, w.bytes = w.batch.Entries[:0], 0
	return w.keep(err)
}

func (w *walker) keep(err error) error {
	w.err = errors.Join(w.err, err)
	return err
}

func (w *walker) Content(p []byte) error {
	return w.keep(w.o.w.QueueRaw(agentproto.FrameContent, p))
}

func (w *walker) ContentEnd(err error) error {
	var end agentproto.ContentEndMessage
	if err != nil {
		e := agentproto.NewError(err)
		end.Err = &e
	}
	return w.keep(w.o.w.Queue(agentproto.FrameContentEnd, end))
}
