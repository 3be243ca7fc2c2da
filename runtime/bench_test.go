package runtime_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/runtime/runtimetest"
)

// BenchmarkRoad is what the kernel costs without a box: every stage and the
// ledger with its one synced commit, for a tool that does nothing.
func BenchmarkRoad(b *testing.B) {
	bench := runtimetest.New(b, probe("file.read", echo))
	p := bench.Proposal("file.read", map[string]any{"text": "hello"})
	var took []time.Duration
	for b.Loop() {
		t := time.Now()
		call, err := bench.Kernel.Do(context.Background(), p)
		took = append(took, time.Since(t))
		require.NoError(b, err)
		require.Equal(b, runtime.Succeeded, call.Result.Status)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1000, "p50-µs")
}

// BenchmarkRoadParallel is the same with many clients: group commit shares the
// sync.
func BenchmarkRoadParallel(b *testing.B) {
	bench := runtimetest.New(b, probe("file.read", echo))
	p := bench.Proposal("file.read", map[string]any{"text": "hello"})
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := bench.Kernel.Do(context.Background(), p); err != nil {
				b.Error(err)
			}
		}
	})
}
