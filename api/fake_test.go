package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/sandboxd/sandboxd/api"
	"github.com/sandboxd/sandboxd/runtime"
)

// fakeKernel is a kernel in memory: it keeps runs, calls, events and
// artifacts, and its tools do what tests need.
//
//	echo   reads: answers its arguments
//	change mutates: answers its arguments
//	refuse is denied
//	hang   runs until it is cancelled
//	wait   is left waiting for an approval
//	panic  panics, in the kernel
type fakeKernel struct {
	mu        sync.Mutex
	runs      map[string]*runtime.Run
	order     []string
	calls     map[string]*fakeCall
	events    map[string][]runtime.Event
	followers map[string]map[chan struct{}]struct{}
	artifacts map[string]fakeArtifact

	specs     []runtime.RunSpec
	options   []runtime.CreateOptions
	patches   []runtime.RunPatch
	proposals []runtime.Proposal
	filters   []runtime.RunFilter
	pages     []runtime.Page
	uploads   [][]byte
	running   int
	together  int // most calls that ran at once
	meeting   int // echo waits for so many

	panicking  string // a tool that panics too
	failure    error  // of every method
	diff       func(w io.Writer) error
	unready    error
	eventReads int
}

type fakeCall struct {
	call   runtime.Call
	cancel chan struct{}
	reason string
	grace  time.Duration
}

type fakeArtifact struct {
	ref     runtime.ArtifactRef
	content map[string]string // by view
}

var _ api.Kernel = (*fakeKernel)(nil)
var _ api.Kernel = (*runtime.Kernel)(nil)

func newFakeKernel() *fakeKernel {
	return &fakeKernel{
		runs: map[string]*runtime.Run{}, calls: map[string]*fakeCall{}, events: map[string][]runtime.Event{},
		followers: map[string]map[chan struct{}]struct{}{}, artifacts: map[string]fakeArtifact{},
	}
}

func newID(prefix string) string { return prefix + uuid.Must(uuid.NewV7()).String() }

// addRun puts a ready run of a tenant there.
func (k *fakeKernel) addRun(tenant string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	run := &runtime.Run{
		RunID: newID("run_"), Tenant: tenant, State: runtime.Editing, Status: runtime.RunReady, Driver: "fake", Image: "fake/image",
		Spec: runtime.RunSpec{Workspace: runtime.WorkspaceSpec{Access: "rw", Path: "/workspace"}}, CreatedAt: time.Now().UTC(),
	}
	k.runs[run.RunID] = run
	k.order = append(k.order, run.RunID)
	k.record(run.RunID, runtime.RunCreated, "")
	return run.RunID
}

// record appends an event; the lock is held.
func (k *fakeKernel) record(runID string, kind runtime.EventKind, callID string) {
	seq := int64(len(k.events[runID])) + 1
	k.events[runID] = append(k.events[runID], runtime.Event{
		Seq: seq, RunID: runID, Kind: kind, Time: time.Unix(seq, 5).UTC(), ToolCallID: callID, Data: json.RawMessage(`{"n": 1}`),
	})
	for ch := range k.followers[runID] {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

func (k *fakeKernel) note(runID string, kind runtime.EventKind) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.record(runID, kind, "")
}

func (k *fakeKernel) CreateRun(_ context.Context, spec runtime.RunSpec, opt runtime.CreateOptions) (runtime.Run, error) {
	if k.failure != nil {
		return runtime.Run{}, k.failure
	}
	id := k.addRun(opt.Tenant)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.specs, k.options = append(k.specs, spec), append(k.options, opt)
	run := k.runs[id]
	run.Secrets = slices.Sorted(maps.Keys(spec.Secrets))
	run.Spec = spec
	run.Spec.Secrets = nil
	return *run, nil
}

func (k *fakeKernel) Run(_ context.Context, runID string) (runtime.Run, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if run, ok := k.runs[runID]; ok {
		return *run, nil
	}
	return runtime.Run{}, runtime.Problemf(runtime.ProblemNotFound, "the kernel does not know %s", runID)
}

func (k *fakeKernel) Runs(_ context.Context, f runtime.RunFilter, p runtime.Page) ([]runtime.Run, string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.filters, k.pages = append(k.filters, f), append(k.pages, p)
	if k.failure != nil {
		return nil, "", k.failure
	}
	var runs []runtime.Run
	for _, id := range k.order {
		if run := k.runs[id]; run.Tenant == f.Tenant {
			runs = append(runs, *run)
		}
	}
	from, _ := strconv.Atoi(p.Cursor)
	runs = runs[min(from, len(runs)):]
	if len(runs) > p.Limit {
		return runs[:p.Limit], strconv.Itoa(from + p.Limit), nil
	}
	return runs, "", nil
}

func (k *fakeKernel) PatchRun(_ context.Context, runID string, p runtime.RunPatch, _ string) (runtime.Run, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.patches = append(k.patches, p)
	if p.State != nil {
		k.runs[runID].State = *p.State
	}
	return *k.runs[runID], k.failure
}

func (k *fakeKernel) EndRun(_ context.Context, runID, _ string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if run := k.runs[runID]; run.Status != runtime.RunEnded {
		run.Status = runtime.RunEnded
		k.record(runID, runtime.RunEndedEvent, "")
	}
	return nil
}

func (k *fakeKernel) Submit(_ context.Context, p runtime.Proposal) (runtime.Call, error) {
	c, err := k.receive(p)
	if err != nil {
		return runtime.Call{}, err
	}
	go k.carry(context.Background(), c, p)
	k.mu.Lock()
	defer k.mu.Unlock()
	return c.call, nil
}

func (k *fakeKernel) Do(ctx context.Context, p runtime.Proposal) (runtime.Call, error) {
	if p.ToolName == "panic" || p.ToolName == k.panicking {
		panic("secret text of a panic")
	}
	c, err := k.receive(p)
	if err != nil {
		return runtime.Call{}, err
	}
	if p.ToolName == "wait" {
		k.mu.Lock()
		defer k.mu.Unlock()
		c.call.State = runtime.CallPendingApproval
		return c.call, nil
	}
	done := make(chan struct{})
	go func() { defer close(done); k.carry(ctx, c, p) }()
	select {
	case <-done:
		k.mu.Lock()
		defer k.mu.Unlock()
		return c.call, nil
	case <-ctx.Done():
		return runtime.Call{}, context.Cause(ctx)
	}
}

func (k *fakeKernel) receive(p runtime.Proposal) (*fakeCall, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.proposals = append(k.proposals, p)
	if k.failure != nil {
		return nil, k.failure
	}
	c := &fakeCall{cancel: make(chan struct{}), call: runtime.Call{
		ToolCallID: newID("call_"), RunID: p.RunID, ToolName: p.ToolName, Arguments: p.Arguments, ArgumentsHash: "sha256:0",
		RequestedAt: time.Now().UTC(), RequestedBy: p.RequestedBy, IdempotencyKey: p.IdempotencyKey, State: runtime.CallQueued,
	}}
	k.calls[c.call.ToolCallID] = c
	k.record(p.RunID, runtime.CallRequested, c.call.ToolCallID)
	return c, nil
}

func (k *fakeKernel) carry(ctx context.Context, c *fakeCall, p runtime.Proposal) {
	gone := make(<-chan struct{})
	if p.CancelWithCaller {
		gone = ctx.Done()
	}
	k.mu.Lock()
	k.running++
	k.together = max(k.together, k.running)
	k.mu.Unlock()
	result := runtime.Result{
		ToolCallID: c.call.ToolCallID, RunID: p.RunID, ToolName: p.ToolName, Status: runtime.Succeeded,
		StructuredOutput: p.Arguments, Artifacts: []runtime.ArtifactRef{}, Redactions: []runtime.Redaction{},
	}
	switch p.ToolName {
	case "hang":
		select {
		case <-c.cancel:
		case <-gone:
			c.reason = runtime.ReasonClientGone
		}
		result.Status, result.ErrorCode, result.Reason = runtime.Cancelled, runtime.CodeCancelled, c.reason
	case "refuse":
		result.Status, result.ErrorCode = runtime.Denied, runtime.CodeToolDenied
	case "change":
		time.Sleep(20 * time.Millisecond) // so that neighbours would meet
	case "echo":
		k.meet()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.running--
	c.call.State, c.call.Result = runtime.CallDone, &result
	k.record(p.RunID, runtime.CallResulted, c.call.ToolCallID)
}

// meet waits until as many calls run at once as the test wants to see.
func (k *fakeKernel) meet() {
	for range 2000 {
		k.mu.Lock()
		met := k.together >= k.meeting
		k.mu.Unlock()
		if met {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func (k *fakeKernel) Cancel(_ context.Context, _, callID, reason string, grace time.Duration) (runtime.Call, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c, ok := k.calls[callID]
	if !ok {
		return runtime.Call{}, runtime.Problemf(runtime.ProblemNotFound, "the kernel does not know %s", callID)
	}
	if c.call.State != runtime.CallDone && c.reason == "" {
		c.reason, c.grace = reason, grace
		close(c.cancel)
	}
	return c.call, nil
}

func (k *fakeKernel) Call(_ context.Context, runID, callID string) (runtime.Call, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c, ok := k.calls[callID]; ok && c.call.RunID == runID {
		return c.call, nil
	}
	return runtime.Call{}, runtime.Problemf(runtime.ProblemNotFound, "the kernel does not know %s", callID)
}

func (k *fakeKernel) Calls(_ context.Context, runID string, p runtime.Page) ([]runtime.Call, string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pages = append(k.pages, p)
	var calls []runtime.Call
	for _, c := range k.calls {
		if c.call.RunID == runID {
			calls = append(calls, c.call)
		}
	}
	return calls, "", k.failure
}

func (k *fakeKernel) Events(_ context.Context, runID string, after int64, limit int) ([]runtime.Event, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.eventReads++
	if k.failure != nil {
		return nil, k.failure
	}
	events := k.events[runID]
	if after >= int64(len(events)) {
		return nil, nil
	}
	events = events[after:]
	return slices.Clone(events[:min(limit, len(events))]), nil
}

func (k *fakeKernel) Follow(runID string) (<-chan struct{}, func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	ch := make(chan struct{}, 1)
	if k.followers[runID] == nil {
		k.followers[runID] = map[chan struct{}]struct{}{}
	}
	k.followers[runID][ch] = struct{}{}
	return ch, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.followers[runID], ch)
	}
}

func (k *fakeKernel) following(runID string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.followers[runID])
}

func (k *fakeKernel) addArtifact(runID, name, media string, content map[string]string) runtime.ArtifactRef {
	k.mu.Lock()
	defer k.mu.Unlock()
	ref := runtime.ArtifactRef{
		ID: newID("art_"), RunID: runID, ToolCallID: newID("call_"), Type: media, Name: name,
		Bytes: int64(len(content["redacted"])), SHA256: "abc123", CreatedAt: time.Unix(1_700_000_000, 0).UTC(),
	}
	k.artifacts[ref.ID] = fakeArtifact{ref: ref, content: content}
	return ref
}

func (k *fakeKernel) Artifacts(_ context.Context, runID string, p runtime.Page) ([]runtime.ArtifactRef, string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pages = append(k.pages, p)
	var refs []runtime.ArtifactRef
	for _, a := range k.artifacts {
		if a.ref.RunID == runID {
			refs = append(refs, a.ref)
		}
	}
	return refs, "", nil
}

func (k *fakeKernel) OpenArtifact(_ context.Context, id, view string) (io.ReadSeekCloser, runtime.ArtifactRef, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	a, ok := k.artifacts[id]
	if !ok {
		return nil, runtime.ArtifactRef{}, runtime.Problemf(runtime.ProblemNotFound, "the kernel does not know %s", id)
	}
	return seekCloser{bytes.NewReader([]byte(a.content[view]))}, a.ref, nil
}

type seekCloser struct{ *bytes.Reader }

func (seekCloser) Close() error { return nil }

func (k *fakeKernel) Tools() []runtime.ToolView {
	return []runtime.ToolView{
		{Name: "echo", Version: "1.0", Mode: runtime.ModeSandboxReadOnly, InputSchema: json.RawMessage(`{"type": "object"}`)},
		{Name: "change", Version: "1.0", Mode: runtime.ModeSandboxWrite, Mutating: true, InputSchema: json.RawMessage(`{"type": "object"}`)},
	}
}

func (k *fakeKernel) RunTools(context.Context, string) (runtime.ToolList, error) {
	return runtime.ToolList{Tools: k.Tools(), SchemaSetHash: "sha256:feed", TokenEstimate: 7}, k.failure
}

func (k *fakeKernel) Upload(_ context.Context, _ string, tar io.Reader) (runtime.UploadStats, error) {
	raw, err := io.ReadAll(tar)
	if err != nil {
		return runtime.UploadStats{}, errors.New("the tar is broken") // as a kernel would say it
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.uploads = append(k.uploads, raw)
	return runtime.UploadStats{Files: 1, Bytes: int64(len(raw))}, k.failure
}

func (k *fakeKernel) Download(_ context.Context, _ string, w io.Writer) error {
	if k.failure != nil {
		return k.failure
	}
	_, err := io.WriteString(w, "a tar")
	return err
}

func (k *fakeKernel) Diff(_ context.Context, _ string, w io.Writer) error { return k.diff(w) }

func (k *fakeKernel) Ready(context.Context) error { return k.unready }
