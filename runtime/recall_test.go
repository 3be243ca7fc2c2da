package runtime_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/runtime/runtimetest"
)

func TestAKeyStillTellsItsResultWhenTheRunHasEnded(t *testing.T) {
	b := runtimetest.New(t, probe("file.read", echo))
	p := b.Proposal("file.read", map[string]any{"text": "x"})
	p.IdempotencyKey = "k"
	first, err := b.Kernel.Do(context.Background(), p)
	require.NoError(t, err)
	refused := b.Proposal("file.read", map[string]any{"path": "../x"})
	refused.IdempotencyKey = "refused"
	_, err = b.Kernel.Do(context.Background(), refused)
	require.NoError(t, err)
	require.NoError(t, b.Kernel.EndRun(context.Background(), b.Run.RunID, "test"))
	events := len(b.Events())

	again, err := b.Kernel.Do(context.Background(), p)
	require.NoError(t, err)
	require.Equal(t, first.ToolCallID, again.ToolCallID)
	require.Equal(t, first.Result.StructuredOutput, again.Result.StructuredOutput)

	other := b.Proposal("file.read", map[string]any{"text": "y"})
	other.IdempotencyKey = "k"
	fresh := b.Proposal("file.read", map[string]any{"text": "x"})
	fresh.IdempotencyKey = "fresh"
	for _, c := range []struct {
		p    runtime.Proposal
		code runtime.ProblemCode
	}{
		{other, runtime.ProblemIdempotency}, {fresh, runtime.ProblemRunNotActive}, {refused, runtime.ProblemRunNotActive},
		{b.Proposal("file.read", map[string]any{"text": "x"}), runtime.ProblemRunNotActive},
	} {
		_, err := b.Kernel.Do(context.Background(), c.p)
		var problem *runtime.Problem
		require.ErrorAs(t, err, &problem)
		require.Equal(t, c.code, problem.Code)
	}
	require.Len(t, b.Events(), events, "nothing is recorded behind a run's end")
}
