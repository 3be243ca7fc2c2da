// Package client talks to a sandboxd service over its REST API.
//
// It needs nothing but the standard library. A [Client] creates runs, makes
// calls and reads what came of them; what a tool did or was refused is a
// [Result], and only a failure of the protocol is an error: a [*Problem] (RFC
// 9457) with the service's code, or the transport's own.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Client is a connection to one service. It is safe for concurrent use.
type Client struct {
	base string
	key  string
	http *http.Client
}

// New returns a client of the service at base ("http://127.0.0.1:8080"). key
// may be empty where the service takes calls without one.
func New(base, key string) *Client {
	return &Client{base: strings.TrimSuffix(base, "/"), key: key, http: &http.Client{}}
}

// Problem is a protocol failure as the service tells it (RFC 9457).
type Problem struct {
	Status    int    `json:"status"`
	Code      string `json:"code"`
	Title     string `json:"title"`
	Detail    string `json:"detail"`
	Pointer   string `json:"pointer,omitempty"`
	RequestID string `json:"requestId,omitempty"`
}

func (p *Problem) Error() string {
	return fmt.Sprintf("%d %s: %s", p.Status, p.Code, p.Detail)
}

// Run is a run as the service shows it.
type Run struct {
	RunID        string   `json:"runId"`
	State        string   `json:"state"`
	Status       string   `json:"status"`
	Reason       string   `json:"reason,omitempty"`
	Driver       string   `json:"driver"`
	Image        string   `json:"image"`
	ChangedFiles []string `json:"changedFiles"`
	Sandbox      struct {
		Runtime     string   `json:"runtime"`
		CgroupMode  string   `json:"cgroupMode"`
		KillStep    string   `json:"killStep"`
		Degraded    []string `json:"degraded"`
		StartedInMs int64    `json:"startedInMs"`
	} `json:"sandbox"`
	CreatedAt time.Time `json:"createdAt"`
}

// Call is one call of a run.
type Call struct {
	ToolCallID string  `json:"toolCallId"`
	ToolName   string  `json:"toolName"`
	State      string  `json:"state"`
	Result     *Result `json:"result"`
}

// Result is what came of a call.
type Result struct {
	ToolCallID       string          `json:"toolCallId"`
	RunID            string          `json:"runId"`
	ToolName         string          `json:"toolName"`
	Status           string          `json:"status"`
	ErrorClass       string          `json:"errorClass,omitempty"`
	ErrorCode        string          `json:"errorCode,omitempty"`
	SafeMessage      string          `json:"safeMessage"`
	StructuredOutput json.RawMessage `json:"structuredOutput,omitempty"`
	Effect           string          `json:"effect,omitempty"`
	Reason           string          `json:"reason,omitempty"`
	Artifacts        []Artifact      `json:"artifacts"`
	Redactions       []struct {
		Kind  string `json:"kind"`
		Field string `json:"field"`
		Count int    `json:"count"`
	} `json:"redactions"`
	Usage struct {
		WallMs          int64 `json:"wallMs"`
		CPUMs           int64 `json:"cpuMs"`
		MaxRSSBytes     int64 `json:"maxRssBytes"`
		OutputBytes     int64 `json:"outputBytes"`
		ProcessesKilled int   `json:"processesKilled"`
	} `json:"usage"`
	Retryable bool `json:"retryable"`
	Truncated bool `json:"truncated"`
}

// Artifact points to stored output.
type Artifact struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Type   string `json:"type"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Event is one row of a run's ledger.
type Event struct {
	Seq        int64           `json:"seq"`
	Kind       string          `json:"kind"`
	Time       time.Time       `json:"time"`
	ToolCallID string          `json:"toolCallId,omitempty"`
	Data       json.RawMessage `json:"data"`
	Hash       string          `json:"hash"`
}

// CreateRun creates a run from a body as the API takes it and waits for its
// box. body is anything that encodes to that JSON.
func (c *Client) CreateRun(ctx context.Context, body any) (Run, error) {
	var run Run
	return run, c.json(ctx, http.MethodPost, "/v1/runs", nil, body, &run)
}

// Run returns a run.
func (c *Client) Run(ctx context.Context, runID string) (Run, error) {
	var run Run
	return run, c.json(ctx, http.MethodGet, "/v1/runs/"+url.PathEscape(runID), nil, nil, &run)
}

// EndRun ends a run; its ledger and artifacts stay.
func (c *Client) EndRun(ctx context.Context, runID string) error {
	return c.json(ctx, http.MethodDelete, "/v1/runs/"+url.PathEscape(runID), nil, nil, nil)
}

// CallRequest is a tool call to make.
type CallRequest struct {
	ToolName       string `json:"toolName"`
	Arguments      any    `json:"arguments"`
	IdempotencyKey string `json:"idempotencyKey,omitempty"`
}

// Do makes a call and waits for its result.
func (c *Client) Do(ctx context.Context, runID, tool string, arguments any) (Result, error) {
	var r Result
	return r, c.json(ctx, http.MethodPost, callsPath(runID), nil, CallRequest{ToolName: tool, Arguments: arguments}, &r)
}

// Submit makes a call without waiting for its result.
func (c *Client) Submit(ctx context.Context, runID, tool string, arguments any) (Call, error) {
	var call Call
	header := http.Header{"Prefer": {"respond-async"}}
	return call, c.json(ctx, http.MethodPost, callsPath(runID), header, CallRequest{ToolName: tool, Arguments: arguments}, &call)
}

// Call returns one call.
func (c *Client) Call(ctx context.Context, runID, callID string) (Call, error) {
	var call Call
	return call, c.json(ctx, http.MethodGet, callsPath(runID)+"/"+url.PathEscape(callID), nil, nil, &call)
}

// Cancel asks a call to end, with grace between TERM and KILL.
func (c *Client) Cancel(ctx context.Context, runID, callID string, grace time.Duration) error {
	body := map[string]any{"reason": "user", "graceMs": grace.Milliseconds()}
	return c.json(ctx, http.MethodPost, callsPath(runID)+"/"+url.PathEscape(callID)+"/cancel", nil, body, nil)
}

// Events returns up to a thousand events after a sequence number.
func (c *Client) Events(ctx context.Context, runID string, after int64) ([]Event, error) {
	var page struct {
		Events []Event `json:"events"`
	}
	path := "/v1/runs/" + url.PathEscape(runID) + "/events?limit=1000&after=" + strconv.FormatInt(after, 10)
	return page.Events, c.json(ctx, http.MethodGet, path, nil, nil, &page)
}

// Upload unpacks a tar into the run's workspace.
func (c *Client) Upload(ctx context.Context, runID string, tar io.Reader) error {
	resp, err := c.send(ctx, http.MethodPut, "/v1/runs/"+url.PathEscape(runID)+"/workspace", http.Header{"Content-Type": {"application/x-tar"}}, tar)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// Diff returns the unified diff of the workspace against its base.
func (c *Client) Diff(ctx context.Context, runID string) (string, error) {
	resp, err := c.send(ctx, http.MethodGet, "/v1/runs/"+url.PathEscape(runID)+"/diff", nil, nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end or failed already
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// Ready tells whether the service takes calls.
func (c *Client) Ready(ctx context.Context) error {
	resp, err := c.send(ctx, http.MethodGet, "/readyz", nil, nil)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func callsPath(runID string) string { return "/v1/runs/" + url.PathEscape(runID) + "/calls" }

// json sends a body and decodes the answer.
func (c *Client) json(ctx context.Context, method, path string, header http.Header, body, out any) error {
	var content io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(raw)
		header = header.Clone()
		if header == nil {
			header = http.Header{}
		}
		header.Set("Content-Type", "application/json")
	}
	resp, err := c.send(ctx, method, path, header, content)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end or failed already
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("read the answer of %s %s: %w", method, path, err)
	}
	return nil
}

// send returns a response of the 2xx family; any other becomes a *Problem.
func (c *Client) send(ctx context.Context, method, path string, header http.Header, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }() // the problem is what matters
	problem := &Problem{Status: resp.StatusCode, Code: resp.Status}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && json.Unmarshal(raw, problem) != nil {
		problem.Detail = strings.TrimSpace(string(raw))
	}
	return nil, problem
}
