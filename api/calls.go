package api

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/runtime"
)

// callBody is a call as a client proposes it (call.json). Arguments stay the
// bytes that came: whether they fit the tool is the kernel's to say.
type callBody struct {
	ToolName       string          `json:"toolName"`
	ToolVersion    string          `json:"toolVersion"`
	Arguments      json.RawMessage `json:"arguments"`
	StepID         string          `json:"stepId"`
	ParentCallID   string          `json:"parentCallId"`
	IdempotencyKey string          `json:"idempotencyKey"`
	MaxResultChars int             `json:"maxResultChars"`
	OnDisconnect   string          `json:"onDisconnect"`
}

// makeCall makes one call and answers its result, whatever that is. A call
// that waits for an approval, or that the client does not wait for (Prefer:
// respond-async, RFC 7240), is answered with 202 and the call.
func (s *service) makeCall(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, "format")
	if err != nil {
		return err
	}
	if _, err := choice(q, "format", "native"); err != nil {
		return err
	}
	var body callBody
	if err := s.readJSON(w, r, s.limits.CallBytes, s.bodies.call, &body); err != nil {
		return err
	}
	p, err := proposal(r, body)
	if err != nil {
		return err
	}
	if prefersAsync(r.Header) {
		return s.submitCall(w, r, p)
	}
	call, err := s.kernel.Do(r.Context(), p)
	if err != nil {
		return err
	}
	if call.Result == nil {
		return s.acceptedCall(w, r, call)
	}
	return s.writeJSON(w, http.StatusOK, call.Result)
}

func (s *service) submitCall(w http.ResponseWriter, r *http.Request, p runtime.Proposal) error {
	if p.CancelWithCaller {
		return fieldProblem("/onDisconnect", "cannot be cancel with Prefer: respond-async, where nobody stays connected; leave one of them out")
	}
	call, err := s.kernel.Submit(r.Context(), p)
	if err != nil {
		return err
	}
	w.Header().Set("Preference-Applied", "respond-async")
	return s.acceptedCall(w, r, call)
}

// acceptedCall answers with a call that may not be done, and where to ask.
func (s *service) acceptedCall(w http.ResponseWriter, r *http.Request, call runtime.Call) error {
	w.Header().Set("Location", "/v1/runs/"+call.RunID+"/calls/"+call.ToolCallID)
	return s.writeJSON(w, http.StatusAccepted, viewCall(call))
}

// proposal makes the kernel's form of a call out of body and headers.
func proposal(r *http.Request, body callBody) (runtime.Proposal, error) {
	x := exchangeOf(r)
	key, err := idempotencyKey(r.Header, body.IdempotencyKey)
	if err == nil && body.ParentCallID != "" && !idForms["call"].MatchString(body.ParentCallID) {
		err = fieldProblem("/parentCallId", "must be the id of a call")
	}
	return runtime.Proposal{
		RunID: x.run.RunID, ToolName: body.ToolName, ToolVersion: body.ToolVersion, Arguments: body.Arguments,
		StepID: body.StepID, ParentCallID: body.ParentCallID, IdempotencyKey: key, RequestedBy: x.who.KeyID,
		Trace: traceparent(r.Header), MaxResultChars: body.MaxResultChars, CancelWithCaller: body.OnDisconnect == "cancel",
	}, err
}

var sayableKey = regexp.MustCompile(`^[\x21-\x7e]{1,255}$`)

// idempotencyKey reads the key from the header or the field. As a structured
// header the key stands in quotes; they are not part of it.
func idempotencyKey(h http.Header, field string) (string, error) {
	values := h.Values("Idempotency-Key")
	if field != "" && !sayableKey.MatchString(field) {
		return "", fieldProblem("/idempotencyKey", "must be 1 to 255 visible ASCII characters")
	}
	if len(values) == 0 {
		return field, nil
	}
	key := values[0]
	if len(key) > 2 && strings.HasPrefix(key, `"`) && strings.HasSuffix(key, `"`) {
		key = key[1 : len(key)-1]
	}
	switch {
	case len(values) > 1:
		return "", badRequest("The Idempotency-Key header is given %d times.", len(values))
	case !sayableKey.MatchString(key):
		return "", badRequest("The Idempotency-Key header must hold 1 to 255 visible ASCII characters.")
	case field != "" && field != key:
		return "", fieldProblem("/idempotencyKey", "differs from the Idempotency-Key header; give one of them")
	}
	return key, nil
}

// prefersAsync tells whether the client does not want to wait.
func prefersAsync(h http.Header) bool {
	for part := range strings.SplitSeq(strings.Join(h.Values("Prefer"), ","), ",") {
		name, _, _ := strings.Cut(part, ";")
		if strings.EqualFold(strings.TrimSpace(name), "respond-async") {
			return true
		}
	}
	return false
}

var traceForm = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// traceparent reads the caller's trace (W3C Trace Context, section 3.2.2); one
// that is not well formed counts as none.
func traceparent(h http.Header) string {
	v := h.Get("Traceparent")
	if !traceForm.MatchString(v) || v[:2] == "ff" || v[3:35] == strings.Repeat("0", 32) || v[36:52] == strings.Repeat("0", 16) {
		return ""
	}
	return v
}

func (s *service) listCalls(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, "limit", "cursor")
	if err != nil {
		return err
	}
	p, err := page(q)
	if err != nil {
		return err
	}
	views, next, err := s.readCalls(r, p)
	if err != nil {
		return err
	}
	return s.writeJSON(w, http.StatusOK, list("calls", views, next))
}

// readCalls reads a page of calls; one that grows heavy ends early.
func (s *service) readCalls(r *http.Request, p runtime.Page) ([]callView, string, error) {
	views, limit := []callView{}, p.Limit
	for weight := 0; len(views) < limit && weight < heavyPage; {
		p.Limit = min(pageStep, limit-len(views))
		calls, next, err := s.kernel.Calls(r.Context(), exchangeOf(r).run.RunID, p)
		if err != nil {
			return nil, "", err
		}
		for _, call := range calls {
			views = append(views, viewCall(call))
			weight += len(call.Arguments) + len(call.EffectiveArguments)
			if call.Result != nil {
				weight += len(call.Result.StructuredOutput)
			}
		}
		if p.Cursor = next; next == "" {
			break
		}
	}
	return views, p.Cursor, nil
}

func (s *service) getCall(w http.ResponseWriter, r *http.Request) error {
	if _, err := query(r); err != nil {
		return err
	}
	id, err := pathID(r, "call")
	if err != nil {
		return err
	}
	call, err := s.kernel.Call(r.Context(), exchangeOf(r).run.RunID, id)
	if err != nil {
		return hideMissing(err, "call")
	}
	return s.writeJSON(w, http.StatusOK, viewCall(call))
}

// cancelBody is a cancel as a client asks for it (cancel.json).
type cancelBody struct {
	Reason  string `json:"reason"`
	GraceMs *int64 `json:"graceMs"`
}

// cancelCall asks a call to end. One that is done already is answered as it
// is.
func (s *service) cancelCall(w http.ResponseWriter, r *http.Request) error {
	if _, err := query(r); err != nil {
		return err
	}
	id, err := pathID(r, "call")
	if err != nil {
		return err
	}
	body := cancelBody{Reason: runtime.ReasonUser}
	if err := s.readJSON(w, r, s.limits.JSONBytes, s.bodies.cancel, &body); err != nil {
		return err
	}
	grace := time.Duration(-1)
	if body.GraceMs != nil {
		grace = time.Duration(*body.GraceMs) * time.Millisecond
	}
	call, err := s.kernel.Cancel(r.Context(), exchangeOf(r).run.RunID, id, body.Reason, grace)
	if err != nil {
		return hideMissing(err, "call")
	}
	return s.acceptedCall(w, r, call)
}

// callView is a call as clients see it.
type callView struct {
	ToolCallID string            `json:"toolCallId"`
	RunID      string            `json:"runId"`
	ToolName   string            `json:"toolName"`
	State      runtime.CallState `json:"state"`
	Request    callRequest       `json:"request"`
	Decision   *runtime.Decision `json:"decision"`
	Result     *runtime.Result   `json:"result"`
}

// callRequest is what was asked for.
type callRequest struct {
	Arguments          json.RawMessage `json:"arguments"`
	EffectiveArguments json.RawMessage `json:"effectiveArguments,omitempty"`
	ArgumentsHash      string          `json:"argumentsHash"`
	ToolVersion        string          `json:"toolVersion,omitempty"`
	StepID             string          `json:"stepId,omitempty"`
	ParentCallID       string          `json:"parentCallId,omitempty"`
	IdempotencyKey     string          `json:"idempotencyKey,omitempty"`
	RequestedAt        time.Time       `json:"requestedAt"`
	RequestedBy        string          `json:"requestedBy,omitempty"`
	Trace              string          `json:"traceparent,omitempty"`
}

func viewCall(c runtime.Call) callView {
	return callView{
		ToolCallID: c.ToolCallID, RunID: c.RunID, ToolName: c.ToolName, State: c.State, Decision: c.Decision, Result: c.Result,
		Request: callRequest{
			Arguments: c.Arguments, EffectiveArguments: c.EffectiveArguments, ArgumentsHash: c.ArgumentsHash,
			ToolVersion: c.ToolVersion, StepID: c.StepID, ParentCallID: c.ParentCallID, IdempotencyKey: c.IdempotencyKey,
			RequestedAt: c.RequestedAt, RequestedBy: c.RequestedBy, Trace: c.Trace,
		},
	}
}
