package runtime

import (
	"encoding/json"
	"time"
)

// EventKind names what an event tells. Closed, append only.
type EventKind string

// The kinds of event.
const (
	RunCreated        EventKind = "RUN_CREATED"
	RunBecameReady    EventKind = "RUN_READY"
	RunBecameFailed   EventKind = "RUN_FAILED"
	RunChanged        EventKind = "RUN_CHANGED"
	RunStoppedEvent   EventKind = "RUN_STOPPED"
	RunResumed        EventKind = "RUN_RESUMED"
	RunEndedEvent     EventKind = "RUN_ENDED"
	WorkspaceUploaded EventKind = "RUN_WORKSPACE_UPLOADED"

	CallRequested       EventKind = "TOOL_CALL_REQUEST"
	CallRepaired        EventKind = "TOOL_CALL_REPAIRED"
	CallValidated       EventKind = "TOOL_CALL_VALIDATED"
	CallRejected        EventKind = "TOOL_CALL_REJECTED"
	CallAuthorized      EventKind = "TOOL_CALL_AUTHORIZED"
	CallDenied          EventKind = "TOOL_CALL_DENIED"
	CallStarted         EventKind = "TOOL_CALL_STARTED"
	CallProgress        EventKind = "TOOL_CALL_PROGRESS"
	CallRetried         EventKind = "TOOL_CALL_RETRIED"
	CallCancelRequested EventKind = "TOOL_CALL_CANCEL_REQUESTED"
	CallResulted        EventKind = "TOOL_CALL_RESULT"

	ApprovalRequested EventKind = "APPROVAL_REQUESTED"
	ApprovalDecided   EventKind = "APPROVAL_DECIDED"
	ApprovalExpired   EventKind = "APPROVAL_EXPIRED"

	ToolsExposed    EventKind = "TOOLS_EXPOSED"
	MCPToolRejected EventKind = "MCP_TOOL_REJECTED"

	SecurityEgressAllowed EventKind = "SECURITY_EGRESS_ALLOWED"
	SecurityEgressDenied  EventKind = "SECURITY_EGRESS_DENIED"
	SecurityBoxLost       EventKind = "SECURITY_BOX_LOST"
)

// EventKinds lists every kind, for the API's document and round-trip tests.
func EventKinds() []EventKind {
	return []EventKind{
		RunCreated, RunBecameReady, RunBecameFailed, RunChanged, RunStoppedEvent,
		RunResumed, RunEndedEvent, WorkspaceUploaded,
		CallRequested, CallRepaired, CallValidated, CallRejected, CallAuthorized,
		CallDenied, CallStarted, CallProgress, CallRetried, CallCancelRequested,
		CallResulted, ApprovalRequested, ApprovalDecided, ApprovalExpired,
		ToolsExposed, MCPToolRejected, SecurityEgressAllowed, SecurityEgressDenied,
		SecurityBoxLost,
	}
}

// An Event is one row of a run's ledger.
type Event struct {
	// Seq counts from 1 within the run, without gaps.
	Seq        int64           `json:"seq"`
	RunID      string          `json:"runId"`
	Kind       EventKind       `json:"kind"`
	Time       time.Time       `json:"time"`
	ToolCallID string          `json:"toolCallId,omitempty"`
	Trace      string          `json:"trace,omitempty"` // W3C traceparent
	Data       json.RawMessage `json:"data"`
	PrevHash   string          `json:"prevHash"`
	Hash       string          `json:"hash"`
}

// A Draft is an event before the ledger has given it a place.
type Draft struct {
	RunID      string
	Kind       EventKind
	ToolCallID string
	Trace      string
	// Data is encoded as one JSON object; nil is {}.
	Data any
}
