package ledger

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/sandboxd/sandboxd/runtime"
)

// encoded is an event whose data is already the bytes that will be hashed.
type encoded struct {
	kind   runtime.EventKind
	callID string
	trace  string
	data   []byte
}

// weight is what an event costs the group's budget of bytes.
func (e encoded) weight() int { return len(e.data) + 256 }

// encodeData makes the bytes of an event's data: one JSON object, compact, with
// <, > and & escaped. In this form encoding/json passes it on unchanged, so
// that the bytes in an answer are the bytes under the hash.
func encodeData(data any) ([]byte, error) {
	if data == nil {
		return []byte("{}"), nil
	}
	b, err := json.Marshal(data)
	if err != nil {
		return nil, fmt.Errorf("encode event data: %w", err)
	}
	if len(b) == 0 || b[0] != '{' {
		return nil, fmt.Errorf("event data is not a JSON object but %.20q", b)
	}
	return b, nil
}

// encodeDrafts encodes the events of one run. The kinds that come once a run or
// call are taken in no operation but their own, which names its kind as own,
// and there at most once.
func encodeDrafts(runID string, own runtime.EventKind, drafts []runtime.Draft) ([]encoded, error) {
	out := make([]encoded, 0, len(drafts)+1)
	seen := false
	for _, d := range drafts {
		if d.RunID != "" && d.RunID != runID {
			return nil, internal(fmt.Errorf("event %s of run %q in an operation of run %q", d.Kind, d.RunID, runID))
		}
		switch d.Kind {
		case runtime.RunCreated, runtime.CallRequested, runtime.CallResulted:
			if d.Kind != own || seen {
				return nil, internal(fmt.Errorf("event %s does not belong into this operation", d.Kind))
			}
			seen = true
		case "":
			return nil, internal(fmt.Errorf("an event of run %q has no kind", runID))
		}
		data, err := encodeData(d.Data)
		if err != nil {
			return nil, internal(err)
		}
		out = append(out, encoded{kind: d.Kind, callID: d.ToolCallID, trace: d.Trace, data: data})
	}
	return out, nil
}

// indexOf finds the event of a kind, or -1.
func indexOf(events []encoded, kind runtime.EventKind) int {
	return slices.IndexFunc(events, func(e encoded) bool { return e.kind == kind })
}

func weigh(events []encoded) int {
	n := 0
	for _, e := range events {
		n += e.weight()
	}
	return n
}

// internal is the problem of an operation that no ledger could record.
func internal(cause error) error {
	return &runtime.Problem{
		Code: runtime.ProblemInternal, Detail: "The record could not be made.", Cause: cause,
	}
}

// requestData is the data of TOOL_CALL_REQUEST.
type requestData struct {
	ToolName       string          `json:"toolName"`
	ToolVersion    string          `json:"toolVersion,omitempty"`
	StepID         string          `json:"stepId,omitempty"`
	ParentCallID   string          `json:"parentCallId,omitempty"`
	Arguments      json.RawMessage `json:"arguments"`
	ArgumentsHash  string          `json:"argumentsHash"`
	IdempotencyKey string          `json:"idempotencyKey,omitempty"`
	RequestedBy    string          `json:"requestedBy,omitempty"`
}

func requestEvent(c runtime.Call) (encoded, error) {
	args := c.Arguments
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	data, err := encodeData(requestData{
		ToolName: c.ToolName, ToolVersion: c.ToolVersion, StepID: c.StepID,
		ParentCallID: c.ParentCallID, Arguments: args, ArgumentsHash: c.ArgumentsHash,
		IdempotencyKey: c.IdempotencyKey, RequestedBy: c.RequestedBy,
	})
	if err != nil {
		return encoded{}, internal(err)
	}
	return encoded{kind: runtime.CallRequested, callID: c.ToolCallID, trace: c.Trace, data: data}, nil
}
