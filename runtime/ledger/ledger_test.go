package ledger_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/runtime/ledger"
)

func TestMain(m *testing.M) { testMain(m) }

func open(t testing.TB, path string) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(t.Context(), ledger.Config{Path: path})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

func fresh(t testing.TB) (*ledger.Ledger, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	return open(t, path), path
}

func newRun(id string) runtime.Run {
	return runtime.Run{
		RunID: id, Tenant: "acme", State: runtime.Editing, Status: runtime.RunReady,
		Driver: "oci", Image: "host", CreatedAt: time.Now().UTC(), Changed: []string{},
	}
}

func newCall(runID, id string) runtime.Call {
	return runtime.Call{
		ToolCallID: id, RunID: runID, ToolName: "shell.run", Arguments: json.RawMessage(`{"argv":["true"]}`),
		ArgumentsHash: "sha256:aa", RequestedAt: time.Now().UTC(), RequestedBy: "tester",
		State: runtime.CallQueued, Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
}

func done(c runtime.Call, started bool) runtime.Call {
	c.State = runtime.CallDone
	c.Result = &runtime.Result{
		ToolCallID: c.ToolCallID, RunID: c.RunID, ToolName: c.ToolName, Status: runtime.Succeeded,
		Artifacts: []runtime.ArtifactRef{}, Redactions: []runtime.Redaction{}, FinishedAt: time.Now().UTC(),
		StructuredOutput: json.RawMessage(`{"exitCode":0,"stdout":"<a> & b"}`),
	}
	if started {
		now := time.Now().UTC()
		c.Result.StartedAt = &now
	}
	return c
}

func note(runID, callID string, kind runtime.EventKind) runtime.Draft {
	return runtime.Draft{RunID: runID, ToolCallID: callID, Kind: kind, Data: map[string]any{"note": string(kind)}}
}

// whole carries one call down its road.
func whole(ctx context.Context, l *ledger.Ledger, runID, callID string) error {
	c := newCall(runID, callID)
	if _, err := l.Request(ctx, c); err != nil {
		return err
	}
	for _, kind := range []runtime.EventKind{runtime.CallValidated, runtime.CallAuthorized} {
		if err := l.Note(ctx, nil, note(runID, callID, kind)); err != nil {
			return err
		}
	}
	err := l.Note(ctx, &runtime.CallUpdate{ToolCallID: callID, State: runtime.CallRunning, Started: true},
		note(runID, callID, runtime.CallStarted))
	if err != nil {
		return err
	}
	return l.Result(ctx, done(c, true), runtime.RunUsage{Calls: 1})
}

func problem(t testing.TB, err error, code runtime.ProblemCode) {
	t.Helper()
	var p *runtime.Problem
	require.ErrorAs(t, err, &p)
	require.Equal(t, code, p.Code, p.Detail)
}

func kinds(events []runtime.Event) []runtime.EventKind {
	out := make([]runtime.EventKind, len(events))
	for i, e := range events {
		out[i] = e.Kind
	}
	return out
}

func raw(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestACallLeavesItsEventsInOrderAndCanBeReadBack(t *testing.T) {
	l, _ := fresh(t)
	ctx := t.Context()
	require.NoError(t, l.CreateRun(ctx, newRun("run_1"), runtime.Draft{RunID: "run_1", Kind: runtime.RunBecameReady}))

	c := newCall("run_1", "call_1")
	prior, err := l.Request(ctx, c)
	require.NoError(t, err)
	require.Nil(t, prior)
	decision := &runtime.Decision{Allowed: true, ReasonCode: "OK", Rule: "profile"}
	require.NoError(t, l.Note(ctx, &runtime.CallUpdate{
		ToolCallID: "call_1", ToolVersion: "1.0", Decision: decision,
		EffectiveArguments: []byte(`{"argv":["true"],"timeoutMs":1}`),
	}, note("run_1", "call_1", runtime.CallAuthorized)))
	require.NoError(t, l.Note(ctx, &runtime.CallUpdate{ToolCallID: "call_1", State: runtime.CallRunning, Started: true},
		note("run_1", "call_1", runtime.CallStarted)))
	c = done(c, true)
	c.ToolVersion = "1.0"
	c.Result.Artifacts = []runtime.ArtifactRef{{
		ID: "art_1", RunID: "run_1", ToolCallID: "call_1", Type: "text/plain", Name: "stdout", Bytes: 5,
		SHA256: "ab", Description: "output", CreatedAt: time.Now().UTC(),
	}}
	require.NoError(t, l.Result(ctx, c, runtime.RunUsage{Calls: 1, CPUMs: 7},
		note("run_1", "call_1", runtime.CallProgress)))

	events, err := l.Events(ctx, "run_1", 0, 0)
	require.NoError(t, err)
	require.Equal(t, []runtime.EventKind{
		runtime.RunCreated, runtime.RunBecameReady, runtime.CallRequested, runtime.CallAuthorized,
		runtime.CallStarted, runtime.CallProgress, runtime.CallResulted,
	}, kinds(events))
	prev := ledger.Genesis("run_1")
	for i, e := range events {
		require.Equal(t, int64(i+1), e.Seq)
		require.Equal(t, prev, e.PrevHash)
		// As a client sees it: through JSON and back.
		doc, err := json.Marshal(e)
		require.NoError(t, err)
		var seen runtime.Event
		require.NoError(t, json.Unmarshal(doc, &seen))
		hash, err := ledger.Hash(seen)
		require.NoError(t, err)
		require.Equal(t, e.Hash, hash)
		prev = e.Hash
	}

	got, err := l.Call(ctx, "run_1", "call_1")
	require.NoError(t, err)
	require.Equal(t, runtime.CallDone, got.State)
	require.Equal(t, decision, got.Decision)
	require.JSONEq(t, `{"argv":["true"],"timeoutMs":1}`, string(got.EffectiveArguments))
	require.Equal(t, c.Result.FinishedAt, got.Result.FinishedAt)
	require.Equal(t, c.RequestedAt, got.RequestedAt)
	run, err := l.Run(ctx, "run_1")
	require.NoError(t, err)
	require.Equal(t, runtime.RunUsage{Calls: 1, CPUMs: 7}, run.Usage)
	art, err := l.Artifact(ctx, "art_1")
	require.NoError(t, err)
	require.Equal(t, c.Result.Artifacts[0], art)
	_, err = l.Artifact(ctx, "art_2")
	problem(t, err, runtime.ProblemNotFound)
	_, err = l.Call(ctx, "run_2", "call_1")
	problem(t, err, runtime.ProblemNotFound)
	_, err = l.Run(ctx, "run_2")
	problem(t, err, runtime.ProblemNotFound)
}

func TestASecondResultIsAnErrorAndChangesNothing(t *testing.T) {
	l, _ := fresh(t)
	ctx := t.Context()
	require.NoError(t, l.CreateRun(ctx, newRun("run_1")))
	require.NoError(t, whole(ctx, l, "run_1", "call_1"))
	before, err := l.Events(ctx, "run_1", 0, 0)
	require.NoError(t, err)

	problem(t, l.Result(ctx, done(newCall("run_1", "call_1"), true), runtime.RunUsage{Calls: 9}), runtime.ProblemConflict)
	problem(t, l.Result(ctx, done(newCall("run_1", "call_2"), true), runtime.RunUsage{}), runtime.ProblemNotFound)
	problem(t, l.Result(ctx, done(newCall("run_2", "call_1"), true), runtime.RunUsage{}), runtime.ProblemNotFound)
	problem(t, l.Result(ctx, newCall("run_1", "call_1"), runtime.RunUsage{}), runtime.ProblemInternal)

	after, err := l.Events(ctx, "run_1", 0, 0)
	require.NoError(t, err)
	require.Equal(t, before, after)
	run, err := l.Run(ctx, "run_1")
	require.NoError(t, err)
	require.EqualValues(t, 1, run.Usage.Calls)
}

func TestWhatComesOnceIsTakenWithItsOwnOperationOnly(t *testing.T) {
	l, _ := fresh(t)
	ctx := t.Context()
	require.NoError(t, l.CreateRun(ctx, newRun("run_1")))
	for _, kind := range []runtime.EventKind{runtime.RunCreated, runtime.CallRequested, runtime.CallResulted, ""} {
		problem(t, l.Note(ctx, nil, note("run_1", "call_1", kind)), runtime.ProblemInternal)
	}
	problem(t, l.Note(ctx, nil, runtime.Draft{RunID: "run_1", Kind: runtime.CallStarted, Data: []int{1}}), runtime.ProblemInternal)
	created := runtime.Draft{RunID: "run_2", Kind: runtime.RunCreated, Data: map[string]any{"by": "me"}}
	problem(t, l.CreateRun(ctx, newRun("run_2"), created, created), runtime.ProblemInternal)
	require.NoError(t, l.CreateRun(ctx, newRun("run_2"), created))
	events, err := l.Events(ctx, "run_2", 0, 0)
	require.NoError(t, err)
	require.Len(t, events, 1)
	require.JSONEq(t, `{"by":"me"}`, string(events[0].Data))
	problem(t, l.SaveRun(ctx, newRun("run_2"), created), runtime.ProblemInternal)

	c := newCall("run_2", "call_1")
	_, err = l.Request(ctx, c)
	require.NoError(t, err)
	resulted := runtime.Draft{RunID: "run_2", Kind: runtime.CallResulted, Data: map[string]any{"status": "forged"}}
	problem(t, l.Result(ctx, done(c, true), runtime.RunUsage{}, resulted, resulted), runtime.ProblemInternal)
	require.NoError(t, l.Result(ctx, done(c, true), runtime.RunUsage{}, resulted,
		note("run_2", "", runtime.RunStoppedEvent)))
	events, err = l.Events(ctx, "run_2", 1, 0)
	require.NoError(t, err)
	require.Equal(t, []runtime.EventKind{runtime.CallRequested, runtime.CallResulted, runtime.RunStoppedEvent}, kinds(events))
	require.Contains(t, string(events[1].Data), `"SUCCEEDED"`)
	require.Equal(t, "call_1", events[1].ToolCallID)
	report, err := l.Verify(ctx)
	require.NoError(t, err)
	require.Empty(t, report.Faults)

	problem(t, l.CreateRun(ctx, newRun("run_1")), runtime.ProblemConflict)
	_, err = l.Request(ctx, newCall("run_9", "call_1"))
	problem(t, err, runtime.ProblemNotFound)
	problem(t, l.SaveRun(ctx, newRun("run_9")), runtime.ProblemNotFound)
}

func TestSecretValuesAreNeverRecordedWithARun(t *testing.T) {
	l, _ := fresh(t)
	ctx := t.Context()
	run := newRun("run_1")
	run.Secrets = []string{"TOKEN"}
	run.Spec.Secrets = map[string]string{"TOKEN": "hunter2"}
	require.NoError(t, l.CreateRun(ctx, run))
	require.Equal(t, "hunter2", run.Spec.Secrets["TOKEN"], "the caller's run is left alone")
	got, err := l.Run(ctx, "run_1")
	require.NoError(t, err)
	require.Nil(t, got.Spec.Secrets)
	require.Equal(t, []string{"TOKEN"}, got.Secrets)
	events, err := l.Events(ctx, "run_1", 0, 0)
	require.NoError(t, err)
	require.NotContains(t, string(events[0].Data), "hunter2")
}

func TestOpenRunsAndOpenCallsAreWhatARestartHasToSettle(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dir with ? and # and %41", "ledger.db")
	require.NoError(t, mkdir(path))
	l, err := ledger.Open(t.Context(), ledger.Config{Path: path})
	require.NoError(t, err)
	ctx := t.Context()
	for i, status := range []runtime.RunStatus{runtime.RunReady, runtime.RunEnded, runtime.RunFailed, runtime.RunStopped} {
		id := fmt.Sprintf("run_%d", i)
		require.NoError(t, l.CreateRun(ctx, newRun(id)))
		_, err := l.Request(ctx, newCall(id, "call_open_"+id))
		require.NoError(t, err)
		require.NoError(t, whole(ctx, l, id, "call_done_"+id))
		run := newRun(id)
		run.Status = status
		require.NoError(t, l.SaveRun(ctx, run, runtime.Draft{RunID: id, Kind: runtime.RunChanged}))
	}
	require.NoError(t, l.Close())
	problem(t, l.SaveRun(ctx, newRun("run_0")), runtime.ProblemUnavailable)
	problem(t, l.Note(ctx, nil, note("run_0", "", runtime.RunChanged)), runtime.ProblemUnavailable)

	l = open(t, path)
	runs, err := l.OpenRuns(ctx)
	require.NoError(t, err)
	require.Len(t, runs, 2)
	require.Equal(t, "run_0", runs[0].RunID)
	require.Equal(t, "run_3", runs[1].RunID)
	require.EqualValues(t, 1, runs[0].Usage.Calls, "a run saved with older usage keeps the larger one")
	calls, err := l.OpenCalls(ctx)
	require.NoError(t, err)
	require.Len(t, calls, 4)
	require.Equal(t, "call_open_run_0", calls[0].ToolCallID)
}
