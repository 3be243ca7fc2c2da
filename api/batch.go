package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"

	"github.com/sandboxd/sandboxd/runtime"
)

// batchBody is several calls (batch.json); each is held against call.json.
type batchBody struct {
	Calls []json.RawMessage `json:"calls"`
}

// makeBatch makes several calls and answers their results in the same order.
// Neighbours that only read run side by side; any other call waits for those
// before it and is waited for by those after it. The whole batch is checked
// before its first call is made.
func (s *service) makeBatch(w http.ResponseWriter, r *http.Request) error {
	if _, err := query(r); err != nil {
		return err
	}
	if len(r.Header.Values("Idempotency-Key")) > 0 {
		return badRequest("A batch takes no Idempotency-Key header. Give each call its idempotencyKey.")
	}
	var body batchBody
	if err := s.readJSON(w, r, s.limits.CallBytes, s.bodies.batch, &body); err != nil {
		return err
	}
	proposals := make([]runtime.Proposal, len(body.Calls))
	for i, raw := range body.Calls {
		var err error
		if proposals[i], err = s.batchProposal(r, raw, "/calls/"+strconv.Itoa(i)); err != nil {
			return err
		}
	}
	return s.writeJSON(w, http.StatusOK, map[string]any{"results": s.doBatch(r, proposals)})
}

func (s *service) batchProposal(r *http.Request, raw json.RawMessage, at string) (runtime.Proposal, error) {
	var call callBody
	if err := decode(raw, s.bodies.call, at, &call); err != nil {
		return runtime.Proposal{}, err
	}
	p, err := proposal(r, call)
	if field, ok := errors.AsType[*runtime.Problem](err); ok {
		return p, &runtime.Problem{Code: field.Code, Pointer: at + field.Pointer, Detail: at + field.Detail}
	}
	return p, err
}

// doBatch makes the calls, barrier by barrier.
func (s *service) doBatch(r *http.Request, proposals []runtime.Proposal) []any {
	reads := s.readingTools()
	items := make([]any, len(proposals))
	var side sync.WaitGroup
	for i, p := range proposals {
		if reads[p.ToolName] {
			side.Go(func() { items[i] = s.doItem(r, p) })
			continue
		}
		side.Wait()
		items[i] = s.doItem(r, p)
	}
	side.Wait()
	return items
}

// readingTools are the names of the tools that cannot be in each other's way.
func (s *service) readingTools() map[string]bool {
	reads := map[string]bool{}
	for _, t := range s.kernel.Tools() {
		reads[t.Name] = t.Mode == runtime.ModeSandboxReadOnly && !t.Mutating
	}
	return reads
}

// itemProblem stands in a batch's results for a call that was not made.
type itemProblem struct {
	Problem problemBody `json:"problem"`
}

// doItem returns the result of a call; the call where it waits for an
// approval; or the problem that kept it from being made.
//
// A client that goes away ends the calls that say so, and no other: the rest
// of the batch is made as it would have been.
func (s *service) doItem(r *http.Request, p runtime.Proposal) (item any) {
	defer func() {
		if p := recover(); p != nil { // beside others, nobody else would catch it
			s.log.Error("call of a batch panicked", "requestId", exchangeOf(r).id, "panic", p, "stack", string(debug.Stack()))
			item = itemProblem{newProblemBody(r, asProblem(errPanicked))}
		}
	}()
	ctx := r.Context()
	if !p.CancelWithCaller {
		ctx = context.WithoutCancel(ctx)
	}
	call, err := s.kernel.Do(ctx, p)
	switch {
	case err == nil && call.Result != nil:
		return call.Result
	case err == nil:
		return viewCall(call)
	}
	problem := asProblem(err)
	if problem.Cause != nil && r.Context().Err() == nil {
		s.log.Error("call of a batch failed", "requestId", exchangeOf(r).id, "err", problem.Cause)
	}
	return itemProblem{newProblemBody(r, problem)}
}
