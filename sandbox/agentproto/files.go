package agentproto

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/sandbox"
)

// files implements sandbox.Files over a session.
type files struct{ s *Session }

func (f files) Stat(ctx context.Context, path string) (sandbox.FileInfo, error) {
	op, err := f.s.begin(ctx)
	if err != nil {
		return sandbox.FileInfo{}, err
	}
	defer op.end()
	if err := op.w.Message(FrameStat, StatMessage{Path: Bytes(path)}); err != nil {
		return sandbox.FileInfo{}, op.failure(err)
	}
	info, err := op.info()
	op.clean = err == nil
	if err != nil {
		return sandbox.FileInfo{}, op.failure(err)
	}
	return info, nil
}

func (op *operation) info() (sandbox.FileInfo, error) {
	var m InfoMessage
	if err := op.r.Expect(FrameInfo, &m); err != nil {
		return sandbox.FileInfo{}, err
	}
	if m.Type == "" {
		return sandbox.FileInfo{}, broken("a file of no type")
	}
	return m.Info()
}

func (f files) Read(ctx context.Context, req sandbox.ReadRequest) (sandbox.ReadResult, error) {
	if req.Offset < 0 || req.Limit < 0 || req.Limit > sandbox.MaxReadBytes {
		return sandbox.ReadResult{}, invalid(req.Path, fmt.Sprintf("A read takes an offset from 0 and a limit from 0 to %d bytes.", sandbox.MaxReadBytes))
	}
	op, err := f.s.begin(ctx)
	if err != nil {
		return sandbox.ReadResult{}, err
	}
	defer op.end()
	res, err := op.read(req)
	if err != nil {
		return sandbox.ReadResult{}, op.failure(err)
	}
	op.clean = Reusable(res.Info.Bytes)
	return res, nil
}

// Reusable says whether the stream on which a file of that size was read can
// carry another operation. On that of a longer one the agent watches for the
// service's end meanwhile, and so cannot wait for a request.
func Reusable(bytes int64) bool { return bytes <= MaxChunk }

func (op *operation) read(req sandbox.ReadRequest) (sandbox.ReadResult, error) {
	var res sandbox.ReadResult
	err := op.w.Message(FrameRead, ReadMessage{Path: Bytes(req.Path), Offset: req.Offset, Limit: req.Limit, NoHash: req.NoHash})
	if err != nil {
		return res, err
	}
	if res.Info, err = op.info(); err != nil {
		return res, err
	}
	want := min(req.Limit, max(0, res.Info.Bytes-req.Offset))
	res.Data = make([]byte, 0, min(want, 1<<20))
	for {
		t, payload, err := op.r.Next()
		if err != nil {
			return res, err
		}
		if t == FrameContent {
			if int64(len(res.Data)+len(payload)) > req.Limit {
				return res, broken("more content than was asked for")
			}
			res.Data = append(res.Data, payload...)
			continue
		}
		var end ContentEndMessage
		if err := DecodeAs(t, payload, FrameContentEnd, &end); err != nil {
			return res, err
		}
		if end.Err != nil {
			return res, end.Err.Error()
		}
		res.Hash = end.Hash
		return res, nil
	}
}

func (f files) Apply(ctx context.Context, changes []sandbox.Change) ([]sandbox.Applied, error) {
	if len(changes) > maxList {
		return nil, tooMany("changes")
	}
	for _, c := range changes {
		if !utf8.ValidString(string(c.Op)) || !utf8.ValidString(c.Base.Hash) {
			return nil, invalid(c.Path, "The operation and the hash of a change are plain text.")
		}
	}
	op, err := f.s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer op.end()
	applied, err := op.apply(changes)
	if err != nil {
		return nil, op.failure(err)
	}
	op.clean = true
	return applied, nil
}

func (op *operation) apply(changes []sandbox.Change) ([]sandbox.Applied, error) {
	var m ApplyMessage
	for _, c := range changes {
		m.Changes = append(m.Changes, NewChange(c))
	}
	if err := op.w.Queue(FrameApply, m); err != nil {
		return nil, err
	}
	for i, c := range changes {
		if !m.Changes[i].Data {
			continue
		}
		if err := errors.Join(op.w.QueueRaw(FrameContent, c.Data), op.w.Queue(FrameContentEnd, nil)); err != nil {
			return nil, err
		}
	}
	if err := op.w.Message(FrameEnd, nil); err != nil {
		return nil, err
	}
	return op.applied(len(changes))
}

func (op *operation) applied(want int) ([]sandbox.Applied, error) {
	var m AppliedMessage
	if err := op.r.Expect(FrameApplied, &m); err != nil {
		return nil, err
	}
	if len(m.Applied) != want {
		return nil, broken("%d changes answered for %d", len(m.Applied), want)
	}
	out := make([]sandbox.Applied, 0, want)
	for _, a := range m.Applied {
		out = append(out, sandbox.Applied{Path: string(a.Path), Created: a.Created, OldHash: a.OldHash, Hash: a.Hash, Bytes: a.Bytes})
	}
	return out, nil
}

func (f files) Fill(ctx context.Context, next func() (sandbox.Entry, io.Reader, error)) (int, error) {
	op, err := f.s.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer op.end()
	answer := make(chan FilledMessage, 1)
	failed := make(chan error, 1)
	// The answer may come early, when an entry is refused: sending stops then.
	go func() {
		var m FilledMessage
		if err := op.r.Expect(FrameFilled, &m); err != nil {
			failed <- err
			// Ends a write that waits for the agent to read on.
			_ = op.stream.SetWriteDeadline(time.Unix(1, 0))
			return
		}
		answer <- m
		_ = op.stream.SetWriteDeadline(time.Unix(1, 0))
	}()
	sendErr := op.sendEntries(next)
	if sendErr != nil && isSource(sendErr) {
		// The caller's stream failed: the agent keeps what it has made.
		if err := op.w.Message(FrameEnd, nil); err != nil {
			sendErr = errors.Join(sendErr, err)
		}
	}
	select {
	case m := <-answer:
		return op.filled(m, sendErr)
	case err := <-failed:
		return 0, op.failure(err)
	}
}

func (op *operation) filled(m FilledMessage, sendErr error) (int, error) {
	if m.Made < 0 {
		return 0, op.failure(broken("%d entries made", m.Made))
	}
	if m.Err != nil {
		return m.Made, op.failure(m.Err.Error())
	}
	var source *sourceError
	if errors.As(sendErr, &source) {
		return m.Made, source.err
	}
	return m.Made, nil
}

// sourceError is a failure of the stream that Fill reads.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return e.err.Error() }

func isSource(err error) bool {
	var source *sourceError
	return errors.As(err, &source)
}

func (op *operation) sendEntries(next func() (sandbox.Entry, io.Reader, error)) error {
	if err := op.w.Queue(FrameFill, nil); err != nil {
		return err
	}
	buf := make([]byte, 32<<10)
	for {
		e, content, err := next()
		if errors.Is(err, io.EOF) {
			return op.w.Message(FrameEnd, nil)
		}
		if err != nil {
			return &sourceError{err}
		}
		m := EntryMessage{Path: Bytes(e.Path), Info: NewInfo(e.Info), Content: content != nil}
		if _, err := m.Info.Info(); err != nil {
			return &sourceError{invalid(e.Path, "An entry has a type from the list and no negative size.")}
		}
		if err := op.w.Queue(FrameEntry, m); err != nil {
			return err
		}
		if content == nil {
			continue
		}
		if err := op.sendContent(content, buf); err != nil {
			return err
		}
	}
}

func (op *operation) sendContent(content io.Reader, buf []byte) error {
	for {
		n, err := content.Read(buf)
		if n > 0 {
			if err := op.w.QueueRaw(FrameContent, buf[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return op.w.Queue(FrameContentEnd, nil)
		}
		if err != nil {
			return &sourceError{err}
		}
	}
}

// maxList bounds the elements of one list, as the other end's decoder does.
const maxList = maxElements

func tooMany(what string) error {
	return &sandbox.Error{Kind: sandbox.KindTooLarge, Message: fmt.Sprintf("At most %d %s go into one request.", maxList, what)}
}

func invalid(path, message string) error {
	return &sandbox.Error{Kind: sandbox.KindInvalid, Path: path, Message: message}
}
