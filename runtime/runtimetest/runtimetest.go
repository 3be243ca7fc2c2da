// Package runtimetest gives tests a whole kernel: the real road, the real
// ledger in a temporary directory, and a box without a container whose agent
// runs in this process. What a tool's test sees is what a client would get.
package runtimetest

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/runtime/artifact"
	"github.com/sandboxd/sandboxd/runtime/ledger"
	"github.com/sandboxd/sandboxd/runtime/workspace"
	"github.com/sandboxd/sandboxd/sandbox"
)

// Bench is a kernel with one run that is ready.
type Bench struct {
	t      testing.TB
	Kernel *runtime.Kernel
	Ledger *ledger.Ledger
	// Run is the run that Call uses, Dir its workspace on the host.
	Run runtime.Run
	Dir string

	driver  *localDriver
	brittle *brittleLedger
}

// New makes a kernel with these tools and a run with the default permissions.
func New(t testing.TB, tools ...*runtime.Tool) *Bench {
	t.Helper()
	return NewRun(t, runtime.RunSpec{}, tools...)
}

// NewRun is New for a run of one's own.
func NewRun(t testing.TB, spec runtime.RunSpec, tools ...*runtime.Tool) *Bench {
	t.Helper()
	b := NewKernel(t, tools...)
	run, err := b.Kernel.CreateRun(context.Background(), spec, runtime.CreateOptions{By: "test", Wait: true})
	require.NoError(t, err)
	b.Run, b.Dir = run, b.Workspace(run.RunID)
	return b
}

// NewKernel makes a kernel without a run.
func NewKernel(t testing.TB, tools ...*runtime.Tool) *Bench {
	t.Helper()
	dir := t.TempDir()
	l, err := ledger.Open(context.Background(), ledger.Config{Path: filepath.Join(dir, "ledger.db")})
	require.NoError(t, err)
	store, err := artifact.Open(filepath.Join(dir, "artifacts"), artifact.Options{})
	require.NoError(t, err)
	driver := &localDriver{t: t, boxes: map[string]sandbox.Box{}}
	brittle := &brittleLedger{Ledger: l}
	k, err := runtime.New(runtime.Config{
		Driver: driver, Ledger: brittle, Artifacts: store, Tools: tools,
		Workspaces: workspace.NewStore(filepath.Join(dir, "bases"), workspace.DefaultLimits()),
		Policy:     runtime.RunPolicy{MaxWall: time.Hour, HostRoots: []string{dir}},
		HostPaths:  []string{dir},
	})
	require.NoError(t, err)
	b := &Bench{t: t, Kernel: k, Ledger: l, Dir: dir, driver: driver, brittle: brittle}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, k.Close(ctx))
		require.NoError(t, l.Close())
	})
	return b
}

// Workspace is where the workspace of a run is on the host.
func (b *Bench) Workspace(runID string) string {
	b.t.Helper()
	return b.driver.box(runID).Facts().WorkspacePath
}

// Call makes a call and returns its result. args is encoded as JSON, or taken
// as it is if it is a json.RawMessage.
func (b *Bench) Call(tool string, args any) runtime.Result {
	b.t.Helper()
	call, err := b.Kernel.Do(context.Background(), b.Proposal(tool, args))
	require.NoError(b.t, err)
	require.NotNil(b.t, call.Result)
	return *call.Result
}

// Proposal makes a proposal for the bench's run.
func (b *Bench) Proposal(tool string, args any) runtime.Proposal {
	b.t.Helper()
	raw, err := json.Marshal(args)
	require.NoError(b.t, err)
	return runtime.Proposal{RunID: b.Run.RunID, ToolName: tool, Arguments: raw, RequestedBy: "test"}
}

// Write puts a file into the workspace, past the kernel.
func (b *Bench) Write(path, content string) {
	b.t.Helper()
	full := filepath.Join(b.Dir, path)
	require.NoError(b.t, os.MkdirAll(filepath.Dir(full), 0o755))
	require.NoError(b.t, os.WriteFile(full, []byte(content), 0o644))
}

// Read returns a file of the workspace, past the kernel.
func (b *Bench) Read(path string) string {
	b.t.Helper()
	content, err := os.ReadFile(filepath.Join(b.Dir, path))
	require.NoError(b.t, err)
	return string(content)
}

// Events returns all events of the bench's run.
func (b *Bench) Events() []runtime.Event {
	b.t.Helper()
	events, err := b.Kernel.Events(context.Background(), b.Run.RunID, 0, 1000)
	require.NoError(b.t, err)
	return events
}

// Kinds returns the kinds of the run's events in order, for one call or, with
// an empty id, for all.
func (b *Bench) Kinds(callID string) []runtime.EventKind {
	b.t.Helper()
	var kinds []runtime.EventKind
	for _, e := range b.Events() {
		if callID == "" || e.ToolCallID == callID {
			kinds = append(kinds, e.Kind)
		}
	}
	return kinds
}

// Output decodes a result's structured output.
func Output[T any](t testing.TB, r runtime.Result) T {
	t.Helper()
	var out T
	require.NoError(t, json.Unmarshal(r.StructuredOutput, &out), "output of %s: %s", r.ToolName, r.SafeMessage)
	return out
}
