package runtime_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/runtime/runtimetest"
)

func TestARunThatIsEndedWhileItIsMadeDoesNotWaitForItsBox(t *testing.T) {
	b := runtimetest.NewKernel(t)
	making := make(chan struct{})
	b.BeforeBox(func(ctx context.Context) error {
		close(making)
		<-ctx.Done()
		return context.Cause(ctx)
	})
	run, err := b.Kernel.CreateRun(context.Background(), runtime.RunSpec{}, runtime.CreateOptions{})
	require.NoError(t, err)
	<-making
	require.NoError(t, b.Kernel.EndRun(context.Background(), run.RunID, "test"))
	kept, err := b.Ledger.Run(context.Background(), run.RunID)
	require.NoError(t, err)
	require.Equal(t, runtime.RunEnded, kept.Status, "ended, not failed, and recorded when the end is answered")
	require.False(t, kept.EndedAt.IsZero())
}

func TestClosingLeavesNoRunBehindAlsoOfThoseThatAreBeingMade(t *testing.T) {
	b := runtimetest.NewKernel(t)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for {
				_, err := b.Kernel.CreateRun(context.Background(), runtime.RunSpec{}, runtime.CreateOptions{})
				if err != nil {
					return
				}
			}
		})
	}
	time.Sleep(30 * time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, b.Kernel.Close(ctx))
	wg.Wait()
	open, err := b.Ledger.OpenRuns(context.Background())
	require.NoError(t, err)
	require.Empty(t, open)
	bases, err := filepath.Glob(filepath.Join(b.Dir, "bases", "*.base"))
	require.NoError(t, err)
	require.Empty(t, bases)
}

func TestAChangeNeverBringsAnEndedRunBack(t *testing.T) {
	b := runtimetest.NewKernel(t)
	ctx := context.Background()
	for range 30 {
		run, err := b.Kernel.CreateRun(ctx, runtime.RunSpec{}, runtime.CreateOptions{Wait: true})
		require.NoError(t, err)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 5 {
					value := "x"
					_, _ = b.Kernel.PatchRun(ctx, run.RunID, runtime.RunPatch{Labels: map[string]*string{"a": &value}}, "test")
				}
			})
		}
		require.NoError(t, b.Kernel.EndRun(ctx, run.RunID, "test"))
		wg.Wait()
		kept, err := b.Ledger.Run(ctx, run.RunID)
		require.NoError(t, err)
		require.Equal(t, runtime.RunEnded, kept.Status)
	}
}

func TestChangesAtTheSameTimeAreAllKept(t *testing.T) {
	b := runtimetest.New(t)
	ctx := context.Background()
	var wg sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		wg.Go(func() {
			value := name
			_, err := b.Kernel.PatchRun(ctx, b.Run.RunID, runtime.RunPatch{Labels: map[string]*string{name: &value}}, "test")
			require.NoError(t, err)
		})
	}
	wg.Wait()
	kept, err := b.Ledger.Run(ctx, b.Run.RunID)
	require.NoError(t, err)
	require.Len(t, kept.Spec.Labels, 8)
}

func TestTheBaseOfARunGoesWithTheRun(t *testing.T) {
	b := runtimetest.NewKernel(t)
	run, err := b.Kernel.CreateRun(context.Background(), runtime.RunSpec{}, runtime.CreateOptions{Wait: true})
	require.NoError(t, err)
	base := filepath.Join(b.Dir, "bases", run.RunID+".base")
	require.FileExists(t, base, "the control")
	require.NoError(t, b.Kernel.EndRun(context.Background(), run.RunID, "test"))
	_, err = os.Stat(base)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestACancelIsMarkedBeforeTheResultThatItCauses(t *testing.T) {
	b := runtimetest.New(t, probe("file.read", func(ctx context.Context, _ *runtime.Grant, _ probeInput) (runtime.Output, error) {
		<-ctx.Done()
		return runtime.Output{}, context.Cause(ctx)
	}))
	for range 50 {
		call, err := b.Kernel.Submit(context.Background(), b.Proposal("file.read", map[string]any{}))
		require.NoError(t, err)
		_, err = b.Kernel.Cancel(context.Background(), b.Run.RunID, call.ToolCallID, runtime.ReasonUser, 0)
		require.NoError(t, err)
		awaitResult(t, b, call.ToolCallID)
		kinds := b.Kinds(call.ToolCallID)
		require.Contains(t, kinds, runtime.CallCancelRequested)
		require.Equal(t, runtime.CallResulted, kinds[len(kinds)-1])
	}
}

func TestAPanicInAnyStageIsThatCallsFailureAlone(t *testing.T) {
	panics := runtime.NewTool(probe("file.read", echo).Definition, runtime.Handlers[probeInput]{
		Check: func(in probeInput) *runtime.Fault {
			if in.Text == "bad" {
				panic("at " + in.Text)
			}
			return nil
		},
		Run: echo,
	})
	b := runtimetest.New(t, panics)
	r := b.Call("file.read", map[string]any{"text": "bad"})
	require.Equal(t, runtime.Failed, r.Status)
	require.Equal(t, runtime.CodeInternal, r.ErrorCode)
	require.NotContains(t, r.SafeMessage, "panic")
	require.Equal(t, runtime.Succeeded, b.Call("file.read", map[string]any{"text": "good"}).Status)
}

func TestARestartLeavesNoBaseOfAnEarlierProcess(t *testing.T) {
	b := runtimetest.NewKernel(t)
	run, err := b.Kernel.CreateRun(context.Background(), runtime.RunSpec{}, runtime.CreateOptions{Wait: true})
	require.NoError(t, err)
	bases := filepath.Join(b.Dir, "bases")
	require.FileExists(t, filepath.Join(bases, run.RunID+".base"), "the control")
	require.NoError(t, os.WriteFile(filepath.Join(bases, run.RunID+".base.123"), nil, 0o600))
	require.NoError(t, b.Kernel.Recover(context.Background()))
	left, err := filepath.Glob(filepath.Join(bases, "*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestAStopTellsThoseWhoWaitForARunThatTheServiceStops(t *testing.T) {
	b := runtimetest.NewKernel(t)
	making := make(chan struct{})
	b.BeforeBox(func(ctx context.Context) error {
		close(making)
		<-ctx.Done()
		return context.Cause(ctx)
	})
	answer := make(chan error, 1)
	go func() {
		_, err := b.Kernel.CreateRun(context.Background(), runtime.RunSpec{}, runtime.CreateOptions{Wait: true})
		answer <- err
	}()
	<-making
	require.NoError(t, b.Kernel.Close(context.Background()))
	var problem *runtime.Problem
	require.ErrorAs(t, <-answer, &problem)
	require.Equal(t, runtime.ProblemUnavailable, problem.Code)
}

func TestABudgetOfCallsHoldsForCallsAtTheSameTime(t *testing.T) {
	var ran atomic.Int64
	all := make(chan struct{})
	b := runtimetest.NewRun(t, runtime.RunSpec{Budgets: runtime.BudgetsSpec{Calls: 5}},
		probe("file.read", func(ctx context.Context, _ *runtime.Grant, _ probeInput) (runtime.Output, error) {
			ran.Add(1)
			<-all
			return runtime.Output{}, nil
		}))
	var denied, done atomic.Int64
	var wg sync.WaitGroup
	for range 15 {
		wg.Go(func() {
			r := b.Call("file.read", map[string]any{})
			if r.ErrorCode == runtime.CodeBudgetExhausted {
				denied.Add(1)
			} else if r.Status == runtime.Succeeded {
				done.Add(1)
			}
		})
	}
	require.Eventually(t, func() bool { return denied.Load() == 10 }, 10*time.Second, time.Millisecond)
	close(all)
	wg.Wait()
	require.EqualValues(t, 5, ran.Load())
	require.EqualValues(t, 5, done.Load(), "the control: what the budget allows is done")
}
