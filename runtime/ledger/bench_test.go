package ledger_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkCall is one call's record: request, three notes, result. The
// baseline writes the same five events with one synced transaction each.
func BenchmarkCall(b *testing.B) {
	for _, writers := range []int{1, 16} {
		b.Run(fmt.Sprintf("ledger/writers=%d", writers), func(b *testing.B) {
			l, _ := fresh(b)
			for w := range writers {
				require.NoError(b, l.CreateRun(b.Context(), newRun(fmt.Sprintf("run_%d", w))))
			}
			share(b, writers, func(w int, n int64) error {
				return whole(b.Context(), l, fmt.Sprintf("run_%d", w), fmt.Sprintf("call_%d", n))
			})
		})
		b.Run(fmt.Sprintf("one-tx-an-event/writers=%d", writers), func(b *testing.B) {
			l, path := fresh(b)
			require.NoError(b, l.Close())
			db := raw(b, path)
			db.SetMaxOpenConns(1)
			_, err := db.Exec("PRAGMA synchronous=FULL")
			require.NoError(b, err)
			data, hash := make([]byte, 300), make([]byte, 32)
			share(b, writers, func(w int, n int64) error {
				for i := range int64(5) {
					_, err := db.Exec(`INSERT INTO events
						(run_id, seq, kind, time_ns, call_id, trace, data, prev_hash, hash)
						VALUES (?, ?, 'TOOL_CALL_STARTED', ?, 'call', '', ?, ?, ?)`,
						fmt.Sprintf("run_%d", w), n*5+i, n, data, hash, hash)
					if err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

// share divides b.N over writers, and reports how long one call took.
func share(b *testing.B, writers int, one func(w int, n int64) error) {
	b.Helper()
	took := make([]time.Duration, b.N)
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for w := range writers {
		wg.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				start := time.Now()
				if err := one(w, n); err != nil {
					b.Error(err)
					return
				}
				took[n-1] = time.Since(start)
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
	slices.Sort(took)
	for name, at := range map[string]int{"p50-µs": b.N / 2, "p99-µs": b.N * 99 / 100, "max-µs": b.N - 1} {
		b.ReportMetric(float64(took[at].Microseconds()), name)
	}
}

// BenchmarkRequest tells what the unsynced one of a call's two commits
// costs.
func BenchmarkRequest(b *testing.B) {
	l, _ := fresh(b)
	require.NoError(b, l.CreateRun(b.Context(), newRun("run_1")))
	for i := 0; b.Loop(); i++ {
		_, err := l.Request(b.Context(), newCall("run_1", fmt.Sprintf("call_%d", i)))
		require.NoError(b, err)
	}
}
