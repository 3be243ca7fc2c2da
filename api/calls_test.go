package api_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/api"
	"github.com/sandboxd/sandboxd/runtime"
)

func TestACallIsAnsweredWithItsResult(t *testing.T) {
	w := newWorld(t, api.Limits{})
	run := w.kernel.addRun("a")
	parent := newID("call_")
	a := w.do("POST", "/v1/runs/"+run+"/calls", `{
		"toolName": "echo", "toolVersion": "1.0", "arguments": {"z": 1.50, "a": [1e2, "<&>"]}, "stepId": "s1", "parentCallId": "`+parent+`",
		"maxResultChars": 100, "onDisconnect": "cancel"
	}`, "Idempotency-Key: k-1", "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	require.Equal(t, 200, a.status, a.body)
	result := a.object()
	require.Equal(t, "SUCCEEDED", result["status"])
	require.Equal(t, run, result["runId"])
	require.Contains(t, a.body, `{"z":1.50,"a":[1e2,"<&>"]}`)
	p := w.kernel.proposals[0]
	require.JSONEq(t, `{"z": 1.50, "a": [1e2, "<&>"]}`, string(p.Arguments))
	p.Arguments = nil
	require.Equal(t, runtime.Proposal{
		RunID: run, ToolName: "echo", ToolVersion: "1.0", StepID: "s1", ParentCallID: parent, IdempotencyKey: "k-1", RequestedBy: "alice",
		Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", MaxResultChars: 100, CancelWithCaller: true,
	}, p)
}

func TestArgumentsReachTheKernelAsTheyCame(t *testing.T) {
	w := newWorld(t, api.Limits{})
	path := "/v1/runs/" + w.kernel.addRun("a") + "/calls"
	for _, arguments := range []string{
		`{"b":  1.10, "a": 12345678901234567890}`, `null`, `[]`, `"text"`, `7`, `true`, `{"x": "\u00e9\u2028"}`, `{"n": 9007199254740993}`,
	} {
		require.Equal(t, 200, w.do("POST", path, `{"toolName": "refuse", "arguments": `+arguments+`}`).status, arguments)
		require.Equal(t, arguments, string(w.kernel.proposals[len(w.kernel.proposals)-1].Arguments))
	}
	require.Equal(t, 200, w.do("POST", path, `{"toolName": "refuse"}`).status)
	require.Nil(t, w.kernel.proposals[len(w.kernel.proposals)-1].Arguments)
}

func TestWhatAToolWasRefusedIsNoHTTPError(t *testing.T) {
	w := newWorld(t, api.Limits{})
	path := "/v1/runs/" + w.kernel.addRun("a") + "/calls"
	a := w.do("POST", path, `{"toolName": "refuse"}`)
	require.Equal(t, 200, a.status)
	require.Equal(t, "DENIED", a.object()["status"])
	require.Equal(t, "TOOL_DENIED", a.object()["errorCode"])
	w.kernel.failure = runtime.Problemf(runtime.ProblemRunNotActive, "The run is ended.")
	w.do("POST", path, `{"toolName": "echo"}`).problem(409, "RUN_NOT_ACTIVE")
}

func TestACallThatNobodyWaitsForIsAcceptedAndFound(t *testing.T) {
	w := newWorld(t, api.Limits{})
	run := "/v1/runs/" + w.kernel.addRun("a")
	for _, prefer := range []string{"respond-async", "wait=5, Respond-Async; x=1"} {
		a := w.do("POST", run+"/calls", `{"toolName": "echo", "arguments": {"n": 1}}`, "Prefer: "+prefer)
		require.Equal(t, 202, a.status, a.body)
		require.Equal(t, "respond-async", a.head.Get("Preference-Applied"))
		call := a.object()
		require.Equal(t, run+"/calls/"+call["toolCallId"].(string), a.head.Get("Location"))
		// The fake may be done before the answer is written; a result then belongs
		// to the state DONE, and to no other.
		require.Equal(t, call["state"] == "DONE", call["result"] != nil)
		require.Contains(t, call, "decision")
		require.Equal(t, map[string]any{"n": 1.0}, call["request"].(map[string]any)["arguments"])
		eventually(t, func() bool { return w.do("GET", a.head.Get("Location"), "").object()["state"] == "DONE" }, "the call is not done")
		require.NotNil(t, w.do("GET", a.head.Get("Location"), "").object()["result"])
	}
	listed := w.do("GET", run+"/calls", "").object()
	require.Len(t, listed["calls"], 2)
	require.Nil(t, listed["next"])
}

func TestACallThatNobodyWaitsForCannotEndWithItsClient(t *testing.T) {
	w := newWorld(t, api.Limits{})
	path := "/v1/runs/" + w.kernel.addRun("a") + "/calls"
	p := w.do("POST", path, `{"toolName": "echo", "onDisconnect": "cancel"}`, "Prefer: respond-async").problem(400, "BAD_REQUEST")
	require.Equal(t, "/onDisconnect", p["pointer"])
	require.Empty(t, w.kernel.proposals)
}

func TestACallThatWaitsForAPersonIsAccepted(t *testing.T) {
	w := newWorld(t, api.Limits{})
	a := w.do("POST", "/v1/runs/"+w.kernel.addRun("a")+"/calls", `{"toolName": "wait"}`)
	require.Equal(t, 202, a.status)
	require.Equal(t, "PENDING_APPROVAL", a.object()["state"])
	require.NotEmpty(t, a.head.Get("Location"))
}

func TestAnIdempotencyKeyComesByHeaderOrFieldAndMayNotDiffer(t *testing.T) {
	w := newWorld(t, api.Limits{})
	path := "/v1/runs/" + w.kernel.addRun("a") + "/calls"
	for _, row := range []struct{ header, field, key string }{
		{"", "", ""}, {"", "k", "k"}, {"k", "", "k"}, {"k", "k", "k"}, {`"k"`, "k", "k"}, {`"`, "", `"`},
	} {
		body := `{"toolName": "refuse"}`
		if row.field != "" {
			body = `{"toolName": "refuse", "idempotencyKey": "` + row.field + `"}`
		}
		require.Equal(t, 200, w.do("POST", path, body, "Idempotency-Key: "+row.header).status)
		require.Equal(t, row.key, w.kernel.proposals[len(w.kernel.proposals)-1].IdempotencyKey)
	}
	before := len(w.kernel.proposals)
	p := w.do("POST", path, `{"toolName": "echo", "idempotencyKey": "a"}`, "Idempotency-Key: b").problem(400, "BAD_REQUEST")
	require.Equal(t, "/idempotencyKey", p["pointer"])
	for _, key := range []string{"a b", strings.Repeat("k", 256), "\u00e4"} {
		w.do("POST", path, `{"toolName": "echo"}`, "Idempotency-Key: "+key).problem(400, "BAD_REQUEST")
	}
	w.kernel.failure = runtime.Problemf(runtime.ProblemIdempotency, "bound")
	w.do("POST", path, `{"toolName": "echo"}`, "Idempotency-Key: k").problem(409, "IDEMPOTENCY_CONFLICT")
	require.Len(t, w.kernel.proposals, before+1)
}

func TestATraceThatIsNotWellFormedCountsAsNone(t *testing.T) {
	w := newWorld(t, api.Limits{})
	path := "/v1/runs/" + w.kernel.addRun("a") + "/calls"
	for _, trace := range []string{
		"x", "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
	} {
		require.Equal(t, 200, w.do("POST", path, `{"toolName": "refuse"}`, "Traceparent: "+trace).status)
		require.Empty(t, w.kernel.proposals[len(w.kernel.proposals)-1].Trace, trace)
	}
}

func TestACancelReachesTheCallWithReasonAndGrace(t *testing.T) {
	w := newWorld(t, api.Limits{})
	run := "/v1/runs/" + w.kernel.addRun("a")
	for _, row := range []struct {
		body, reason string
		grace        time.Duration
	}{
		{`{"reason": "budget", "graceMs": 0}`, "budget", 0}, {`{"graceMs": 2500}`, "user", 2500 * time.Millisecond}, {``, "user", -1},
	} {
		call := w.do("POST", run+"/calls", `{"toolName": "hang"}`, "Prefer: respond-async").object()["toolCallId"].(string)
		a := w.do("POST", run+"/calls/"+call+"/cancel", row.body)
		require.Equal(t, 202, a.status, a.body)
		require.Equal(t, call, a.object()["toolCallId"])
		eventually(t, func() bool { return w.do("GET", run+"/calls/"+call, "").object()["state"] == "DONE" }, "not cancelled")
		w.kernel.mu.Lock()
		require.Equal(t, row.reason, w.kernel.calls[call].reason)
		require.Equal(t, row.grace, w.kernel.calls[call].grace)
		w.kernel.mu.Unlock()
		again := w.do("POST", run+"/calls/"+call+"/cancel", row.body) // changes nothing
		require.Equal(t, 202, again.status)
		require.Equal(t, "DONE", again.object()["state"])
	}
	for _, body := range []string{`{"graceMs": -1}`, `{"graceMs": 60001}`, `{"reason": "timeout"}`, `{"why": "x"}`} {
		w.do("POST", run+"/calls/"+newID("call_")+"/cancel", body).problem(400, "BAD_REQUEST")
	}
	w.do("POST", run+"/calls/"+newID("call_")+"/cancel", "").problem(404, "NOT_FOUND")
}

func TestAClientThatGoesAwayEndsItsCallOnlyWhereItSaidSo(t *testing.T) {
	for _, row := range []struct {
		disconnect string
		ended      bool
	}{{"continue", false}, {"cancel", true}} {
		w := newWorld(t, api.Limits{})
		run := w.kernel.addRun("a")
		ctx, leave := context.WithCancel(t.Context())
		req := w.request("POST", "/v1/runs/"+run+"/calls", strings.NewReader(`{"toolName": "hang", "onDisconnect": "`+row.disconnect+`"}`)).WithContext(ctx)
		answered := make(chan error, 1)
		go func() {
			resp, err := w.client.Do(req)
			if err == nil {
				err = resp.Body.Close()
			}
			answered <- err
		}()
		calls := func() []any { return w.do("GET", "/v1/runs/"+run+"/calls", "").object()["calls"].([]any) }
		eventually(t, func() bool { return len(calls()) == 1 }, "the call did not arrive")
		leave()
		require.ErrorIs(t, <-answered, context.Canceled)
		call := calls()[0].(map[string]any)["toolCallId"].(string)
		state := func() any { return w.do("GET", "/v1/runs/"+run+"/calls/"+call, "").object()["state"] }
		if row.ended {
			eventually(t, func() bool { return state() == "DONE" }, "the call goes on")
			continue
		}
		eventually(t, func() bool { return strings.Contains(w.log.text(), `"clientGone":true`) }, "the service did not notice")
		require.NotEqual(t, "DONE", state())
		require.NotContains(t, w.log.text(), `"level":"ERROR"`)
		require.Equal(t, 202, w.do("POST", "/v1/runs/"+run+"/calls/"+call+"/cancel", "").status)
		eventually(t, func() bool { return state() == "DONE" }, "not cancelled")
	}
}

func TestABatchIsAnsweredInItsOrderWithReadersSideBySide(t *testing.T) {
	w := newWorld(t, api.Limits{})
	w.kernel.meeting = 2
	path := "/v1/runs/" + w.kernel.addRun("a") + "/batches"
	body := `{"calls": [
		{"toolName": "echo", "arguments": 0}, {"toolName": "echo", "arguments": 1}, {"toolName": "change", "arguments": 2},
		{"toolName": "change", "arguments": 3}, {"toolName": "refuse"}, {"toolName": "echo", "arguments": 5}
	]}`
	a := w.do("POST", path, body)
	require.Equal(t, 200, a.status, a.body)
	results := a.object()["results"].([]any)
	require.Len(t, results, 6)
	for i, r := range results {
		if i == 4 {
			require.Equal(t, "DENIED", r.(map[string]any)["status"])
			continue
		}
		require.EqualValues(t, i, r.(map[string]any)["structuredOutput"])
	}
	require.Equal(t, 2, w.kernel.together)
}

func TestMutationsOfABatchHappenOneAfterTheOther(t *testing.T) {
	w := newWorld(t, api.Limits{})
	path := "/v1/runs/" + w.kernel.addRun("a") + "/batches"
	a := w.do("POST", path, `{"calls": [`+strings.TrimSuffix(strings.Repeat(`{"toolName": "change"},`, 5), ",")+`]}`)
	require.Equal(t, 200, a.status)
	require.Equal(t, 1, w.kernel.together)
}

func TestABatchWithOneBadCallMakesNone(t *testing.T) {
	w := newWorld(t, api.Limits{})
	path := "/v1/runs/" + w.kernel.addRun("a") + "/batches"
	for _, bad := range []badBody{
		{"empty", `{"calls": []}`, "/calls", "at least 1"},
		{"too many", `{"calls": [` + strings.TrimSuffix(strings.Repeat(`{},`, 65), ",") + `]}`, "/calls", "at most 64"},
		{"no call", `{"calls": [{"toolName": "echo"}, 7]}`, "/calls/1", "object"},
		{"bad field", `{"calls": [{"toolName": "echo"}, {"toolname": "echo"}]}`, "/calls/1", "toolName"},
		{"bad key", `{"calls": [{"toolName": "echo"}, {"toolName": "echo", "idempotencyKey": "a b"}]}`, "/calls/1/idempotencyKey", "/calls/1/idempotencyKey must"},
	} {
		p := w.do("POST", path, bad.body).problem(400, "BAD_REQUEST")
		require.Equal(t, bad.pointer, p["pointer"], bad.name)
		require.Contains(t, p["detail"], bad.says, bad.name)
	}
	w.do("POST", path, `{"calls": [{"toolName": "echo"}]}`, "Idempotency-Key: k").problem(400, "BAD_REQUEST")
	require.Empty(t, w.kernel.proposals)
}

func TestAPanicOfOneCallOfABatchIsItsProblemAlone(t *testing.T) {
	w := newWorld(t, api.Limits{})
	w.kernel.panicking = "echo" // runs side by side
	path := "/v1/runs/" + w.kernel.addRun("a") + "/batches"
	a := w.do("POST", path, `{"calls": [{"toolName": "echo"}, {"toolName": "change"}]}`)
	require.Equal(t, 200, a.status, a.body)
	results := a.object()["results"].([]any)
	require.Equal(t, "INTERNAL", results[0].(map[string]any)["problem"].(map[string]any)["code"])
	require.Equal(t, "SUCCEEDED", results[1].(map[string]any)["status"])
	require.NotContains(t, a.body, "secret text")
}

func TestACallOfABatchThatCouldNotBeMadeHasItsProblemInItsPlace(t *testing.T) {
	w := newWorld(t, api.Limits{})
	path := "/v1/runs/" + w.kernel.addRun("a") + "/batches"
	w.kernel.failure = runtime.Problemf(runtime.ProblemIdempotency, "The key is bound.")
	a := w.do("POST", path, `{"calls": [{"toolName": "echo"}]}`)
	require.Equal(t, 200, a.status)
	problem := a.object()["results"].([]any)[0].(map[string]any)["problem"].(map[string]any)
	require.Equal(t, "IDEMPOTENCY_CONFLICT", problem["code"])
	require.EqualValues(t, http.StatusConflict, problem["status"])
}
