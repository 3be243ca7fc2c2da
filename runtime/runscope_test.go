package runtime_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/runtime/runtimetest"
)

func TestWhatIsNotHeldYetIsRefusedByName(t *testing.T) {
	b := runtimetest.NewKernel(t, probe("file.read", echo))
	for pointer, spec := range map[string]runtime.RunSpec{
		"/lease":                     {Lease: &runtime.Lease{TTLMs: 60_000}},
		"/supersedes":                {Supersedes: "run_x"},
		"/budgets/outputBytes":       {Budgets: runtime.BudgetsSpec{OutputBytes: 1}},
		"/budgets/cpuMs":             {Budgets: runtime.BudgetsSpec{CPUMs: 1}},
		"/budgets/costUnits":         {Budgets: runtime.BudgetsSpec{CostUnits: 0.5}},
		"/budgets/sameInputFailures": {Budgets: runtime.BudgetsSpec{SameInputFailures: 3}},
		"/budgets/toolFailures":      {Budgets: runtime.BudgetsSpec{ToolFailures: 8}},
	} {
		_, err := b.Kernel.CreateRun(context.Background(), spec, runtime.CreateOptions{Wait: true})
		var problem *runtime.Problem
		require.ErrorAs(t, err, &problem, pointer)
		require.Equal(t, runtime.ProblemUnsupported, problem.Code)
		require.Equal(t, pointer, problem.Pointer)
	}
	run, err := b.Kernel.CreateRun(context.Background(), runtime.RunSpec{
		Budgets: runtime.BudgetsSpec{Calls: 5, FailedCalls: 5}, Task: runtime.Task{Title: "x"},
		Limits: runtime.LimitsSpec{IdleMs: 1000}, Verify: []runtime.Check{{Name: "unit", Argv: []string{"true"}}},
	}, runtime.CreateOptions{Wait: true})
	require.NoError(t, err, "control: what is held")
	require.Equal(t, runtime.RunReady, run.Status)
	told := strings.Join(run.Sandbox.Degraded, "\n")
	require.Contains(t, told, "limits.idleMs")
	require.Contains(t, told, "verify")
}

func TestALimitBeyondWhatAnyMachineHasIsRefusedByField(t *testing.T) {
	b := runtimetest.NewKernel(t, probe("file.read", echo))
	for pointer, limits := range map[string]runtime.LimitsSpec{
		"/limits/cpus":        {CPUs: 1e300},
		"/limits/pids":        {Pids: 1_000_000_000},
		"/limits/memoryBytes": {MemoryBytes: 1<<63 - 1},
		"/limits/diskBytes":   {DiskBytes: 1<<63 - 1},
		"/limits/idleMs":      {IdleMs: 1<<63 - 1},
	} {
		_, err := b.Kernel.CreateRun(context.Background(), runtime.RunSpec{Limits: limits}, runtime.CreateOptions{Wait: true})
		var problem *runtime.Problem
		require.ErrorAs(t, err, &problem, pointer)
		require.Equal(t, runtime.ProblemBadRequest, problem.Code)
		require.Equal(t, pointer, problem.Pointer)
	}
	_, err := b.Kernel.CreateRun(context.Background(), runtime.RunSpec{
		Limits: runtime.LimitsSpec{CPUs: 2, Pids: 4096, MemoryBytes: 1 << 40, DiskBytes: 1 << 40, IdleMs: 1000},
	}, runtime.CreateOptions{Wait: true})
	require.NoError(t, err, "control")
}

func TestAnApprovalIsAskedForByGlobAndNeverByWhatNoCallIs(t *testing.T) {
	for want, code := range map[string]runtime.Code{
		"file.write": runtime.CodeApprovalRequired, "file.*": runtime.CodeApprovalRequired, "*": runtime.CodeApprovalRequired,
		"git.*": "", "git.commit": "", "class:network": "",
	} {
		b := runtimetest.NewRun(t, runtime.RunSpec{Permissions: runtime.Permissions{Approvals: []string{want}}}, probe("file.write", echo, mutating))
		require.Equal(t, code, b.Call("file.write", map[string]any{"path": "a"}).ErrorCode, want)
	}
	b := runtimetest.New(t, probe("file.write", echo, mutating))
	for _, want := range []string{"class:risky", "class:", "file.[", ""} {
		_, err := b.Kernel.PatchRun(context.Background(), b.Run.RunID, runtime.RunPatch{Permissions: &runtime.Permissions{Approvals: []string{want}}}, "test")
		var problem *runtime.Problem
		require.ErrorAs(t, err, &problem, want)
		require.Equal(t, "/permissions/approvals/0", problem.Pointer)
	}
}

func TestARunShowsItsPermissionsAsNarrowed(t *testing.T) {
	b := runtimetest.NewRun(t, runtime.RunSpec{Permissions: runtime.Permissions{
		Tools: runtime.AllowDeny{Allow: []string{"file.*", "git.diff"}}, Paths: runtime.AllowDeny{Deny: []string{"**/.env"}},
	}}, probe("file.read", echo))
	no, yes := false, true
	patch := func(p runtime.Permissions) runtime.Permissions {
		run, err := b.Kernel.PatchRun(context.Background(), b.Run.RunID, runtime.RunPatch{Permissions: &p}, "test")
		require.NoError(t, err)
		return run.Spec.Permissions
	}
	p := patch(runtime.Permissions{
		WriteWorkspace: &no, Network: &yes, Tools: runtime.AllowDeny{Allow: []string{"file.read", "git.*", "shell.run"}},
		Paths: runtime.AllowDeny{Allow: []string{"service-a/**"}, Deny: []string{"*.key"}},
	})
	require.False(t, *p.WriteWorkspace)
	require.Nil(t, p.Network, "off where left out, and not to be had later")
	require.Nil(t, p.ExecuteCommand)
	require.Equal(t, []string{"file.read", "git.diff"}, p.Tools.Allow)
	require.Equal(t, runtime.AllowDeny{Allow: []string{"service-a/**"}, Deny: []string{"**/.env", "*.key"}}, p.Paths)
	p = patch(runtime.Permissions{WriteWorkspace: &yes, ExecuteCommand: &yes})
	require.False(t, *p.WriteWorkspace)
	require.True(t, *p.ExecuteCommand)
}

func TestARunEndsWhenAChangedExpirySays(t *testing.T) {
	b := runtimetest.New(t, probe("file.read", echo))
	at := time.Now().Add(300 * time.Millisecond)
	_, err := b.Kernel.PatchRun(context.Background(), b.Run.RunID, runtime.RunPatch{ExpiresAt: &at}, "test")
	require.NoError(t, err)
	run, err := b.Kernel.Run(context.Background(), b.Run.RunID)
	require.NoError(t, err)
	require.Equal(t, runtime.RunReady, run.Status, "control: not before its time")
	require.Eventually(t, func() bool {
		run, err := b.Kernel.Run(context.Background(), b.Run.RunID)
		return err == nil && run.Status == runtime.RunEnded && run.Reason == "expired"
	}, 10*time.Second, 20*time.Millisecond)
}

func TestAnExpiryInThePastIsRefusedAndEndsNothing(t *testing.T) {
	b := runtimetest.New(t, probe("file.read", echo))
	past := time.Now().Add(-time.Second)
	_, err := b.Kernel.PatchRun(context.Background(), b.Run.RunID, runtime.RunPatch{ExpiresAt: &past}, "test")
	var problem *runtime.Problem
	require.ErrorAs(t, err, &problem)
	require.Equal(t, "/expiresAt", problem.Pointer)
	require.Equal(t, runtime.Succeeded, b.Call("file.read", map[string]any{"text": "x"}).Status)
}

func TestArgumentsLeftOutAreNone(t *testing.T) {
	b := runtimetest.New(t, probe("file.read", echo))
	p := b.Proposal("file.read", nil)
	for args, code := range map[string]runtime.Code{"": "", "{}": "", "null": runtime.CodeMalformedArguments} {
		p.Arguments = []byte(args)
		call, err := b.Kernel.Do(context.Background(), p)
		require.NoError(t, err)
		require.Equal(t, code, call.Result.ErrorCode, args)
		require.JSONEq(t, map[bool]string{true: "{}", false: "null"}[code == ""], string(call.Arguments))
	}
}
