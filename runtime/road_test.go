package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/runtime/runtimetest"
)

// probeInput is the input of the tools that these tests bring.
type probeInput struct {
	Text string `json:"text,omitempty"`
	Path string `json:"path,omitempty"`
}

const probeSchema = `{"type":"object","additionalProperties":false,"properties":{
	"text":{"type":"string","maxLength":1000},"path":{"type":"string","maxLength":5000}}}`

// probe is a tool whose handler is the test's own.
func probe(name string, run func(ctx context.Context, g *runtime.Grant, in probeInput) (runtime.Output, error), edit ...func(*runtime.Definition)) *runtime.Tool {
	d := runtime.Definition{
		Name: name, Version: "1.0", Title: "Probe", Description: "A tool of the tests.",
		Input: json.RawMessage(probeSchema), Output: json.RawMessage(probeSchema),
		Needs: runtime.Needs{ReadWorkspace: true}, Mode: runtime.ModeSandboxReadOnly,
		DefaultTimeout: 20 * time.Second, MaxTimeout: time.Minute,
	}
	for _, e := range edit {
		e(&d)
	}
	return runtime.NewTool(d, runtime.Handlers[probeInput]{
		Paths: func(in probeInput) []runtime.PathUse {
			if in.Path == "" {
				return nil
			}
			return []runtime.PathUse{{Path: in.Path, Write: d.Mutating, Pointer: "/path"}}
		},
		Run: run,
	})
}

func echo(_ context.Context, _ *runtime.Grant, in probeInput) (runtime.Output, error) {
	return runtime.Output{Structured: map[string]any{"text": in.Text}}, nil
}

func mutating(d *runtime.Definition) {
	d.Mutating, d.Mode, d.Needs.WriteWorkspace = true, runtime.ModeSandboxWrite, true
}

func TestACallPassesItsStationsInOrder(t *testing.T) {
	b := runtimetest.New(t, probe("file.read", echo))
	r := b.Call("file.read", map[string]any{"text": "hello"})
	require.Equal(t, runtime.Succeeded, r.Status)
	require.JSONEq(t, `{"text":"hello"}`, string(r.StructuredOutput))
	require.Equal(t, []runtime.EventKind{
		runtime.CallRequested, runtime.CallValidated, runtime.CallAuthorized, runtime.CallStarted, runtime.CallResulted,
	}, b.Kinds(r.ToolCallID))
}

func TestEveryRequestHasOneResultAlsoWhenRefused(t *testing.T) {
	b := runtimetest.New(t, probe("file.read", echo), probe("git.commit", echo, mutating))
	for _, c := range []struct {
		name   string
		tool   string
		args   any
		status runtime.Status
		code   runtime.Code
		mark   runtime.EventKind
	}{
		{"fit", "file.read", map[string]any{"text": "x"}, runtime.Succeeded, "", runtime.CallStarted},
		{"unknown tool", "file.raed", map[string]any{}, runtime.InvalidArguments, runtime.CodeToolUnknown, runtime.CallRejected},
		{"unknown property", "file.read", map[string]any{"txt": "x"}, runtime.InvalidArguments, runtime.CodeSchemaViolation, runtime.CallRejected},
		{"wrong type", "file.read", map[string]any{"text": 5}, runtime.InvalidArguments, runtime.CodeSchemaViolation, runtime.CallRejected},
		{"not an object", "file.read", []int{1}, runtime.InvalidArguments, runtime.CodeMalformedArguments, runtime.CallRejected},
		{"upwards", "file.read", map[string]any{"path": "a/../../b"}, runtime.InvalidArguments, runtime.CodePathTraversal, runtime.CallRejected},
		{"absolute", "file.read", map[string]any{"path": "/etc/passwd"}, runtime.InvalidArguments, runtime.CodePathTraversal, runtime.CallRejected},
		{"NUL", "file.read", map[string]any{"path": "a\x00b"}, runtime.InvalidArguments, runtime.CodePathInvalid, runtime.CallRejected},
		{"long name", "file.read", map[string]any{"path": strings.Repeat("n", 256)}, runtime.InvalidArguments, runtime.CodePathInvalid, runtime.CallRejected},
		{"long path", "file.read", map[string]any{"path": strings.Repeat("n/", 2100)}, runtime.InvalidArguments, runtime.CodePathInvalid, runtime.CallRejected},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := b.Call(c.tool, c.args)
			require.Equal(t, c.status, r.Status, r.SafeMessage)
			require.Equal(t, c.code, r.ErrorCode)
			kinds := b.Kinds(r.ToolCallID)
			require.Equal(t, runtime.CallRequested, kinds[0])
			require.Equal(t, runtime.CallResulted, kinds[len(kinds)-1])
			require.Contains(t, kinds, c.mark)
			if c.code != "" {
				require.NotEmpty(t, r.SafeMessage)
				require.NotContains(t, kinds, runtime.CallStarted)
			}
		})
	}
	t.Run("a misspelt name is suggested", func(t *testing.T) {
		require.Contains(t, b.Call("file.raed", map[string]any{}).SafeMessage, `"file.read"`)
		require.Contains(t, b.Call("file.read", map[string]any{"txet": "x"}).SafeMessage, `"text"`)
	})
}

func TestPolicyRefusesWithItsOwnCodeAndLetsTheRestPass(t *testing.T) {
	no := false
	for _, c := range []struct {
		name string
		spec runtime.RunSpec
		tool string
		args map[string]any
		code runtime.Code
	}{
		{"control: all defaults", runtime.RunSpec{}, "file.write", map[string]any{"path": "a"}, ""},
		{"tool denied", runtime.RunSpec{Permissions: runtime.Permissions{Tools: runtime.AllowDeny{Deny: []string{"file.*"}}}}, "file.write", map[string]any{"path": "a"}, runtime.CodeToolDenied},
		{"no write permission", runtime.RunSpec{Permissions: runtime.Permissions{WriteWorkspace: &no}}, "file.write", map[string]any{"path": "a"}, runtime.CodePermissionNotGranted},
		{"control: reading without write permission", runtime.RunSpec{Permissions: runtime.Permissions{WriteWorkspace: &no}}, "file.read", map[string]any{"path": "a"}, ""},
		{"writing while planning", runtime.RunSpec{State: runtime.Planning}, "file.write", map[string]any{"path": "a"}, runtime.CodeToolNotExposed},
		{"control: reading while planning", runtime.RunSpec{State: runtime.Planning}, "file.read", map[string]any{"path": "a"}, ""},
		{"outside the scope", runtime.RunSpec{Permissions: runtime.Permissions{Paths: runtime.AllowDeny{Allow: []string{"service-a/**"}}}}, "file.write", map[string]any{"path": "service-b/x"}, runtime.CodeWriteScopeDenied},
		{"control: inside the scope", runtime.RunSpec{Permissions: runtime.Permissions{Paths: runtime.AllowDeny{Allow: []string{"service-a/**"}}}}, "file.write", map[string]any{"path": "service-a/x"}, ""},
		{"reading outside the scope", runtime.RunSpec{Permissions: runtime.Permissions{Paths: runtime.AllowDeny{Deny: []string{"**/.env"}}}}, "file.read", map[string]any{"path": "x/.env"}, runtime.CodeReadScopeDenied},
		{"a detour to a denied path", runtime.RunSpec{Permissions: runtime.Permissions{Paths: runtime.AllowDeny{Deny: []string{"secret/**"}}}}, "file.read", map[string]any{"path": "./secret//x"}, runtime.CodeReadScopeDenied},
		{"repository internals", runtime.RunSpec{}, "file.write", map[string]any{"path": "sub/.git/hooks/pre-commit"}, runtime.CodeProtectedPath},
		{"control: reading repository internals", runtime.RunSpec{}, "file.read", map[string]any{"path": ".git/HEAD"}, ""},
		{"an approval is wanted", runtime.RunSpec{Permissions: runtime.Permissions{Approvals: []string{"file.write"}}}, "file.write", map[string]any{"path": "a"}, runtime.CodeApprovalRequired},
		{"calls are spent", runtime.RunSpec{Budgets: runtime.BudgetsSpec{Calls: 1}}, "file.read", map[string]any{"path": "a"}, runtime.CodeBudgetExhausted},
	} {
		t.Run(c.name, func(t *testing.T) {
			var ran atomic.Int32
			count := func(ctx context.Context, g *runtime.Grant, in probeInput) (runtime.Output, error) {
				ran.Add(1)
				return echo(ctx, g, in)
			}
			b := runtimetest.NewRun(t, c.spec, probe("file.write", count, mutating), probe("file.read", count))
			if c.code == runtime.CodeBudgetExhausted {
				require.Equal(t, runtime.Succeeded, b.Call(c.tool, c.args).Status)
				ran.Store(0)
			}
			r := b.Call(c.tool, c.args)
			require.Equal(t, c.code, r.ErrorCode, r.SafeMessage)
			if c.code == "" {
				require.Equal(t, runtime.Succeeded, r.Status)
				require.EqualValues(t, 1, ran.Load())
				return
			}
			require.Equal(t, runtime.Denied, r.Status)
			require.Zero(t, ran.Load(), "a refused call reached its handler")
			call, err := b.Kernel.Call(context.Background(), b.Run.RunID, r.ToolCallID)
			require.NoError(t, err)
			require.False(t, call.Decision.Allowed)
			require.NotEmpty(t, call.Decision.Rule)
			require.Contains(t, b.Kinds(r.ToolCallID), runtime.CallDenied)
		})
	}
}

func TestALaterNarrowingHoldsAndNothingWidens(t *testing.T) {
	b := runtimetest.New(t, probe("file.write", echo, mutating), probe("file.read", echo))
	require.Equal(t, runtime.Succeeded, b.Call("file.write", map[string]any{"path": "a"}).Status)
	no, yes := false, true
	for _, write := range []*bool{&no, &yes} {
		_, err := b.Kernel.PatchRun(context.Background(), b.Run.RunID, runtime.RunPatch{Permissions: &runtime.Permissions{WriteWorkspace: write}}, "test")
		require.NoError(t, err)
		require.Equal(t, runtime.CodePermissionNotGranted, b.Call("file.write", map[string]any{"path": "a"}).ErrorCode)
		require.Equal(t, runtime.Succeeded, b.Call("file.read", map[string]any{"path": "a"}).Status)
	}
}

func TestOneKeyCausesOneExecutionAndEqualAnswers(t *testing.T) {
	var ran atomic.Int32
	slow := func(ctx context.Context, g *runtime.Grant, in probeInput) (runtime.Output, error) {
		ran.Add(1)
		time.Sleep(30 * time.Millisecond)
		return echo(ctx, g, in)
	}
	b := runtimetest.New(t, probe("file.read", slow))
	p := b.Proposal("file.read", map[string]any{"text": "once"})
	p.IdempotencyKey = "key-1"
	ids := sync.Map{}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			call, err := b.Kernel.Do(context.Background(), p)
			if err != nil {
				t.Error(err)
				return
			}
			raw, err := json.Marshal(call.Result)
			if err != nil {
				t.Error(err)
			}
			ids.Store(string(raw), true)
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, ran.Load())
	answers := 0
	ids.Range(func(_, _ any) bool { answers++; return true })
	require.Equal(t, 1, answers, "fifty answers must be one")

	p.Arguments = json.RawMessage(`{"text":"other"}`)
	_, err := b.Kernel.Do(context.Background(), p)
	var problem *runtime.Problem
	require.ErrorAs(t, err, &problem)
	require.Equal(t, runtime.ProblemIdempotency, problem.Code)
	require.EqualValues(t, 1, ran.Load())
}

func TestARefusalDoesNotBindTheKey(t *testing.T) {
	b := runtimetest.New(t, probe("file.read", echo))
	p := b.Proposal("file.read", map[string]any{"nope": 1})
	p.IdempotencyKey = "key-1"
	call, err := b.Kernel.Do(context.Background(), p)
	require.NoError(t, err)
	require.Equal(t, runtime.InvalidArguments, call.Result.Status)
	p.Arguments = json.RawMessage(`{"text":"mended"}`)
	call, err = b.Kernel.Do(context.Background(), p)
	require.NoError(t, err)
	require.Equal(t, runtime.Succeeded, call.Result.Status)
}

func TestACancelReachesTheHandlerWithItsReason(t *testing.T) {
	started := make(chan struct{})
	b := runtimetest.New(t, probe("file.read", func(ctx context.Context, _ *runtime.Grant, _ probeInput) (runtime.Output, error) {
		close(started)
		<-ctx.Done()
		return runtime.Output{Structured: map[string]any{"text": "so far"}}, context.Cause(ctx)
	}))
	call, err := b.Kernel.Submit(context.Background(), b.Proposal("file.read", map[string]any{}))
	require.NoError(t, err)
	<-started
	_, err = b.Kernel.Cancel(context.Background(), b.Run.RunID, call.ToolCallID, runtime.ReasonUser, time.Second)
	require.NoError(t, err)
	r := awaitResult(t, b, call.ToolCallID)
	require.Equal(t, runtime.Cancelled, r.Status)
	require.Equal(t, "user", r.Reason)
	require.JSONEq(t, `{"text":"so far"}`, string(r.StructuredOutput), "output that came before the cancel is kept")
	require.Contains(t, b.Kinds(call.ToolCallID), runtime.CallCancelRequested)
}

func TestALateSuccessNeverHidesACancel(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	b := runtimetest.New(t, probe("file.write", func(context.Context, *runtime.Grant, probeInput) (runtime.Output, error) {
		close(started)
		<-release
		return runtime.Output{Structured: map[string]any{"text": "done"}, Effect: runtime.EffectApplied}, nil
	}, mutating))
	call, err := b.Kernel.Submit(context.Background(), b.Proposal("file.write", map[string]any{}))
	require.NoError(t, err)
	<-started
	_, err = b.Kernel.Cancel(context.Background(), b.Run.RunID, call.ToolCallID, runtime.ReasonUser, 0)
	require.NoError(t, err)
	close(release)
	r := awaitResult(t, b, call.ToolCallID)
	require.Equal(t, runtime.Cancelled, r.Status)
	require.Equal(t, runtime.EffectApplied, r.Effect, "what happened all the same is said")
}

func TestACancelOfAQueuedCallNeverStartsIt(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	var ran atomic.Int32
	b := runtimetest.New(t, probe("file.write", func(_ context.Context, _ *runtime.Grant, in probeInput) (runtime.Output, error) {
		if ran.Add(1) == 1 {
			close(started)
			<-release
		}
		return runtime.Output{Structured: map[string]any{"text": in.Text}}, nil
	}, mutating))
	first, err := b.Kernel.Submit(context.Background(), b.Proposal("file.write", map[string]any{"text": "first"}))
	require.NoError(t, err)
	<-started
	second, err := b.Kernel.Submit(context.Background(), b.Proposal("file.write", map[string]any{"text": "second"}))
	require.NoError(t, err)
	_, err = b.Kernel.Cancel(context.Background(), b.Run.RunID, second.ToolCallID, runtime.ReasonUser, 0)
	require.NoError(t, err)
	r := awaitResult(t, b, second.ToolCallID)
	close(release)
	require.Equal(t, runtime.Cancelled, r.Status)
	require.Nil(t, r.StartedAt)
	require.NotContains(t, b.Kinds(second.ToolCallID), runtime.CallStarted)
	require.Equal(t, runtime.Succeeded, awaitResult(t, b, first.ToolCallID).Status)
	require.EqualValues(t, 1, ran.Load())
}

func TestADeadlineIsTimedOutNotCancelled(t *testing.T) {
	b := runtimetest.New(t, probe("file.read", func(ctx context.Context, _ *runtime.Grant, _ probeInput) (runtime.Output, error) {
		<-ctx.Done()
		return runtime.Output{}, context.Cause(ctx)
	}, func(d *runtime.Definition) { d.DefaultTimeout = 20 * time.Millisecond }))
	r := b.Call("file.read", map[string]any{})
	require.Equal(t, runtime.TimedOut, r.Status)
	require.Equal(t, runtime.CodeTimeout, r.ErrorCode)
	require.Equal(t, "timeout", r.Reason)
}

func TestMutationsOfARunGoOneAtATimeAndReadsTogether(t *testing.T) {
	var now, most, reads atomic.Int32
	both := make(chan struct{})
	write := func(ctx context.Context, g *runtime.Grant, in probeInput) (runtime.Output, error) {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		time.Sleep(5 * time.Millisecond)
		now.Add(-1)
		return echo(ctx, g, in)
	}
	read := func(ctx context.Context, g *runtime.Grant, in probeInput) (runtime.Output, error) {
		if reads.Add(1) == 2 {
			close(both)
		}
		select {
		case <-both:
			return echo(ctx, g, in)
		case <-ctx.Done():
			return runtime.Output{}, context.Cause(ctx)
		}
	}
	b := runtimetest.New(t, probe("file.write", write, mutating), probe("file.read", read))
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() { b.Call("file.write", map[string]any{}) })
	}
	for range 2 {
		wg.Go(func() {
			if r := b.Call("file.read", map[string]any{}); r.Status != runtime.Succeeded {
				t.Errorf("two reads did not run side by side: %s", r.SafeMessage)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, most.Load())
}

func TestTheResultIsRecordedEvenIfTheCallerHasGone(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	b := runtimetest.New(t, probe("file.read", func(ctx context.Context, g *runtime.Grant, in probeInput) (runtime.Output, error) {
		close(started)
		<-release
		return echo(ctx, g, in)
	}))
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-started; cancel() }()
	call, err := b.Kernel.Do(ctx, b.Proposal("file.read", map[string]any{"text": "x"}))
	require.ErrorIs(t, err, context.Canceled)
	close(release)
	require.Equal(t, runtime.Succeeded, awaitResult(t, b, call.ToolCallID).Status)
}

func TestALostClientCancelsOnlyIfThatWasAskedFor(t *testing.T) {
	started := make(chan struct{})
	b := runtimetest.New(t, probe("file.read", func(ctx context.Context, _ *runtime.Grant, _ probeInput) (runtime.Output, error) {
		close(started)
		<-ctx.Done()
		return runtime.Output{}, context.Cause(ctx)
	}))
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-started; cancel() }()
	p := b.Proposal("file.read", map[string]any{})
	p.CancelWithCaller = true
	call, err := b.Kernel.Do(ctx, p)
	require.ErrorIs(t, err, context.Canceled)
	r := awaitResult(t, b, call.ToolCallID)
	require.Equal(t, runtime.Cancelled, r.Status)
	require.Equal(t, "client_gone", r.Reason)
}

func TestAnInnerErrorReachesTheModelAsATemplateAlone(t *testing.T) {
	b := runtimetest.New(t,
		probe("file.read", func(context.Context, *runtime.Grant, probeInput) (runtime.Output, error) {
			return runtime.Output{}, errors.New("dial unix /var/lib/inner.sock: secret detail")
		}),
		probe("file.stat", func(context.Context, *runtime.Grant, probeInput) (runtime.Output, error) {
			panic("inner detail")
		}),
		probe("file.list", echo))
	for _, tool := range []string{"file.read", "file.stat"} {
		r := b.Call(tool, map[string]any{})
		require.Equal(t, runtime.Failed, r.Status)
		require.Equal(t, runtime.CodeInternal, r.ErrorCode)
		require.NotContains(t, r.SafeMessage, "detail")
		require.NotContains(t, r.SafeMessage, "/var")
	}
	require.Equal(t, runtime.Succeeded, b.Call("file.list", map[string]any{}).Status, "the service stays up")
}

func TestAnOutputThatBreaksItsContractIsWithheld(t *testing.T) {
	b := runtimetest.New(t,
		probe("file.read", func(context.Context, *runtime.Grant, probeInput) (runtime.Output, error) {
			return runtime.Output{Structured: map[string]any{"surprise": true}}, nil
		}), probe("file.list", echo))
	r := b.Call("file.read", map[string]any{})
	require.Equal(t, runtime.CodeResultContract, r.ErrorCode)
	require.Empty(t, r.StructuredOutput)
	require.NotEmpty(t, b.Call("file.list", map[string]any{"text": "x"}).StructuredOutput)
}

func TestTheRunsSecretsAreNowhereInAnswerOrLedger(t *testing.T) {
	const secret = "hunter2-very-secret-value"
	b := runtimetest.NewRun(t, runtime.RunSpec{Secrets: map[string]string{"TOKEN": secret}},
		probe("file.read", func(_ context.Context, g *runtime.Grant, in probeInput) (runtime.Output, error) {
			if len(g.Secrets()) != 1 || g.Secrets()[0] != "TOKEN="+secret {
				return runtime.Output{}, errors.New("the handler lacks the secret")
			}
			return runtime.Output{Structured: map[string]any{"text": "got " + secret + " and " + in.Text}, Message: "it is " + secret}, nil
		}))
	r := b.Call("file.read", map[string]any{"text": secret})
	require.Equal(t, runtime.Succeeded, r.Status)
	answer, err := json.Marshal(r)
	require.NoError(t, err)
	require.NotContains(t, string(answer), secret)
	require.Contains(t, string(answer), "[REDACTED:")
	fields := map[string]bool{}
	for _, red := range r.Redactions {
		fields[red.Field] = true
	}
	require.True(t, fields["/structuredOutput/text"] && fields["/safeMessage"], "each redaction is noted by place: %v", r.Redactions)
	for _, e := range b.Events() {
		require.NotContains(t, string(e.Data), secret, e.Kind)
	}
	run, err := b.Kernel.Run(context.Background(), b.Run.RunID)
	require.NoError(t, err)
	raw, err := json.Marshal(run)
	require.NoError(t, err)
	require.NotContains(t, string(raw), secret)
	require.Equal(t, []string{"TOKEN"}, run.Secrets)
}

func TestAnEndedRunTakesNoCallsAndEndingIsIdempotent(t *testing.T) {
	b := runtimetest.New(t, probe("file.read", echo))
	require.Equal(t, runtime.Succeeded, b.Call("file.read", map[string]any{}).Status)
	for range 2 {
		require.NoError(t, b.Kernel.EndRun(context.Background(), b.Run.RunID, "test"))
	}
	_, err := b.Kernel.Do(context.Background(), b.Proposal("file.read", map[string]any{}))
	var problem *runtime.Problem
	require.ErrorAs(t, err, &problem)
	require.Equal(t, runtime.ProblemRunNotActive, problem.Code)
	run, err := b.Kernel.Run(context.Background(), b.Run.RunID)
	require.NoError(t, err)
	require.Equal(t, runtime.RunEnded, run.Status)
	events := b.Events()
	require.Equal(t, runtime.RunEndedEvent, events[len(events)-1].Kind, "ledger and end stay readable")
}

func TestEndingARunCancelsWhatIsUnderWay(t *testing.T) {
	started := make(chan struct{})
	b := runtimetest.New(t, probe("file.read", func(ctx context.Context, _ *runtime.Grant, _ probeInput) (runtime.Output, error) {
		close(started)
		<-ctx.Done()
		return runtime.Output{}, context.Cause(ctx)
	}))
	call, err := b.Kernel.Submit(context.Background(), b.Proposal("file.read", map[string]any{}))
	require.NoError(t, err)
	<-started
	require.NoError(t, b.Kernel.EndRun(context.Background(), b.Run.RunID, "test"))
	r := awaitResult(t, b, call.ToolCallID)
	require.Equal(t, runtime.Cancelled, r.Status)
	require.Equal(t, "run_ended", r.Reason)
}

// awaitResult polls the call's resource, as a client of an async call does.
func awaitResult(t *testing.T, b *runtimetest.Bench, callID string) runtime.Result {
	t.Helper()
	var call runtime.Call
	require.Eventually(t, func() bool {
		var err error
		call, err = b.Kernel.Call(context.Background(), b.Run.RunID, callID)
		return err == nil && call.Result != nil
	}, 10*time.Second, 2*time.Millisecond)
	return *call.Result
}
