package runtime_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/runtime/runtimetest"
)

// A command that ran while the ledger's disk filled up has run; its result
// must not be lost, and nobody must be told to repeat it.
func TestAResultThatCannotBeRecordedNowIsRecordedLater(t *testing.T) {
	b := runtimetest.New(t, probe("file.read", echo))
	full := &runtime.Problem{Code: runtime.ProblemStorageFull, Detail: "Nothing was recorded; try again."}
	b.FailEnds(full)
	call, err := b.Kernel.Do(context.Background(), b.Proposal("file.read", map[string]any{"text": "done"}))
	var problem *runtime.Problem
	require.ErrorAs(t, err, &problem)
	require.Equal(t, runtime.ProblemStorageFull, problem.Code)
	require.Contains(t, problem.Detail, call.ToolCallID)
	require.NotContains(t, problem.Detail, "try again")
	open, err := b.Kernel.Call(context.Background(), b.Run.RunID, call.ToolCallID)
	require.NoError(t, err)
	require.Nil(t, open.Result, "what is not recorded is not shown as if it were")

	require.NoError(t, b.Kernel.EndRun(context.Background(), b.Run.RunID, "test"))
	b.FailEnds(nil)
	r := awaitResult(t, b, call.ToolCallID)
	require.Equal(t, runtime.Succeeded, r.Status)
	require.JSONEq(t, `{"text":"done"}`, string(r.StructuredOutput))
	require.Eventually(t, func() bool {
		run, err := b.Kernel.Run(context.Background(), b.Run.RunID)
		return err == nil && run.Status == runtime.RunEnded
	}, 10*time.Second, 5*time.Millisecond, "so is the end of the run")
	results := 0
	for _, kind := range b.Kinds(call.ToolCallID) {
		if kind == runtime.CallResulted {
			results++
		}
	}
	require.Equal(t, 1, results)
}

func TestAResultThatCanNeverBeRecordedIsGivenUp(t *testing.T) {
	b := runtimetest.New(t, probe("file.read", echo))
	b.FailEnds(&runtime.Problem{Code: runtime.ProblemConflict, Detail: "It has a result."})
	_, err := b.Kernel.Do(context.Background(), b.Proposal("file.read", map[string]any{}))
	require.Error(t, err)
	b.FailEnds(errors.New("disk gone"))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, b.Kernel.Close(ctx), "a stop does not wait for a ledger that does not come back")
}

// The end of a call is not hidden by output that found no room.
func TestACancelIsToldAlsoWhenItsOutputCouldNotBeStored(t *testing.T) {
	flood := func(ctx context.Context, g *runtime.Grant, in probeInput) (runtime.Output, error) {
		_, _ = g.Capture("stdout", "output").Write(make([]byte, 1<<20)) // the kernel tells of the error
		if in.Text == "wait" {
			<-ctx.Done()
		}
		return runtime.Output{}, nil
	}
	b := runtimetest.NewKernel(t, probe("file.read", flood))
	run, err := b.Kernel.CreateRun(context.Background(), runtime.RunSpec{}, runtime.CreateOptions{Wait: true})
	require.NoError(t, err)
	b.Run = run
	store := filepath.Join(b.Dir, "artifacts")
	require.NoError(t, os.RemoveAll(store))
	require.NoError(t, os.WriteFile(store, nil, 0o600), "no artifact can be stored")

	call, err := b.Kernel.Submit(context.Background(), b.Proposal("file.read", map[string]any{"text": "wait"}))
	require.NoError(t, err)
	_, err = b.Kernel.Cancel(context.Background(), run.RunID, call.ToolCallID, runtime.ReasonUser, 0)
	require.NoError(t, err)
	r := awaitResult(t, b, call.ToolCallID)
	require.Equal(t, runtime.Cancelled, r.Status)
	require.Equal(t, runtime.ReasonUser, r.Reason)

	r = b.Call("file.read", map[string]any{})
	require.Equal(t, runtime.CodeDiskQuota, r.ErrorCode, "the control: a success without its output is none")
}
