package runtime

import (
	"encoding/json"
	"time"
)

// CreateOptions say who creates a run and whether the answer waits for its box.
type CreateOptions struct {
	Tenant, By string
	// Wait answers when the box takes calls; else at once, in status creating.
	Wait bool
}

// RunPatch changes a run; nil fields are left as they are.
type RunPatch struct {
	State *RunState `json:"state,omitempty"`
	// Labels are set one by one; nil removes a label.
	Labels map[string]*string `json:"labels,omitempty"`
	// Permissions narrow the profile: what a run may do never grows.
	Permissions *Permissions `json:"permissions,omitempty"`
	ExpiresAt   *time.Time   `json:"expiresAt,omitempty"`
}

// ToolView is a tool as a list shows it.
type ToolView struct {
	Name         string          `json:"name"`
	Version      string          `json:"version"`
	Title        string          `json:"title"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Mode         Mode            `json:"mode"`
	Mutating     bool            `json:"mutating"`
	Destructive  bool            `json:"destructive"`
	OpenWorld    bool            `json:"openWorld"`
	Idempotent   bool            `json:"idempotent"`
	TimeoutMs    int64           `json:"timeoutMs"`
	MaxTimeoutMs int64           `json:"maxTimeoutMs"`
	Needs        []string        `json:"needs"`
	Tags         []string        `json:"tags,omitempty"`
}

// ToolList is what a model may see of a run's tools now.
type ToolList struct {
	Tools []ToolView `json:"tools"`
	// SchemaSetHash is "sha256:" and the hex digest over the list; it changes
	// whenever anything that the model is shown changes.
	SchemaSetHash string `json:"schemaSetHash"`
	// TokenEstimate is the list's weight in a model's context, as bytes / 4.
	TokenEstimate int `json:"tokenEstimate"`
}

// UploadStats tell what an upload brought.
type UploadStats struct {
	Files       int   `json:"files"`
	Directories int   `json:"directories"`
	Symlinks    int   `json:"symlinks"`
	Bytes       int64 `json:"bytes"`
}
