package runtime

import (
	"encoding/json"
	"time"
)

// A Proposal is a tool call as somebody asked for it. Nothing is known of it
// yet.
type Proposal struct {
	RunID          string
	ToolName       string
	ToolVersion    string
	Arguments      json.RawMessage
	StepID         string
	ParentCallID   string
	IdempotencyKey string
	RequestedBy    string
	// Trace is the caller's W3C traceparent.
	Trace string
	// MaxResultChars caps the answer's inline text; 0 is the tool's default.
	MaxResultChars int
	// CancelWithCaller cancels the call when the context of Do ends; the
	// default is to carry on.
	CancelWithCaller bool
}

// A Call is a proposal that the ledger has recorded.
type Call struct {
	ToolCallID         string          `json:"toolCallId"`
	RunID              string          `json:"runId"`
	StepID             string          `json:"stepId,omitempty"`
	ParentCallID       string          `json:"parentCallId,omitempty"`
	ToolName           string          `json:"toolName"`
	ToolVersion        string          `json:"toolVersion,omitempty"`
	Arguments          json.RawMessage `json:"arguments"`
	EffectiveArguments json.RawMessage `json:"effectiveArguments,omitempty"`
	ArgumentsHash      string          `json:"argumentsHash"`
	IdempotencyKey     string          `json:"idempotencyKey,omitempty"`
	RequestedAt        time.Time       `json:"requestedAt"`
	RequestedBy        string          `json:"requestedBy,omitempty"`
	Trace              string          `json:"trace,omitempty"`

	State    CallState `json:"state"`
	Decision *Decision `json:"decision"`
	Result   *Result   `json:"result"`
}

// A Decision is what authorization answered, with the rule that decided.
type Decision struct {
	Allowed          bool   `json:"allowed"`
	ReasonCode       string `json:"reasonCode"`
	Rule             string `json:"rule"`
	SafeMessage      string `json:"safeMessage,omitempty"`
	RequiresApproval bool   `json:"requiresApproval"`
}

// A Result is what came of a call.
type Result struct {
	ToolCallID       string          `json:"toolCallId"`
	RunID            string          `json:"runId"`
	ToolName         string          `json:"toolName"`
	ToolVersion      string          `json:"toolVersion,omitempty"`
	Status           Status          `json:"status"`
	ErrorClass       Class           `json:"errorClass,omitempty"`
	ErrorCode        Code            `json:"errorCode,omitempty"`
	SafeMessage      string          `json:"safeMessage"`
	StructuredOutput json.RawMessage `json:"structuredOutput,omitempty"`
	Effect           Effect          `json:"effect,omitempty"`
	// Reason says why a call was cancelled: user, timeout, shutdown, ….
	Reason     string        `json:"reason,omitempty"`
	Artifacts  []ArtifactRef `json:"artifacts"`
	Redactions []Redaction   `json:"redactions"`
	Usage      ResultUsage   `json:"usage"`
	StartedAt  *time.Time    `json:"startedAt"`
	FinishedAt time.Time     `json:"finishedAt"`
	Retryable  bool          `json:"retryable"`
	Truncated  bool          `json:"truncated"`
}

// ResultUsage is what a call used; zero fields are unknown.
type ResultUsage struct {
	WallMs      int64 `json:"wallMs"`
	CPUMs       int64 `json:"cpuMs,omitempty"`
	MaxRSSBytes int64 `json:"maxRssBytes,omitempty"`
	OutputBytes int64 `json:"outputBytes,omitempty"`
	// ProcessesKilled counts what a cancel or timeout killed.
	ProcessesKilled int `json:"processesKilled,omitempty"`
}

// An ArtifactRef points from a result to stored output.
type ArtifactRef struct {
	ID          string    `json:"id"`
	RunID       string    `json:"runId"`
	ToolCallID  string    `json:"toolCallId"`
	Type        string    `json:"type"` // media type
	Name        string    `json:"name"`
	Bytes       int64     `json:"bytes"`
	SHA256      string    `json:"sha256"`
	Description string    `json:"description"`
	CreatedAt   time.Time `json:"createdAt"`
}

// A Redaction notes what was taken out, by kind and place, never by value.
type Redaction struct {
	Kind  string `json:"kind"`
	Field string `json:"field"` // JSON pointer into the result
	Count int    `json:"count"`
}
