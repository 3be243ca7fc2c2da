package ledger_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/runtime/ledger"
)

func TestSeqHasNoGapsAndChainsHoldWithManyWriters(t *testing.T) {
	l, path := fresh(t)
	ctx := t.Context()
	const runs, writers, calls = 8, 4, 10
	var wg sync.WaitGroup
	errs := make(chan error, runs*writers*calls)
	for r := range runs {
		id := fmt.Sprintf("run_%d", r)
		require.NoError(t, l.CreateRun(ctx, newRun(id)))
		for w := range writers {
			wg.Go(func() {
				for c := range calls {
					errs <- whole(ctx, l, id, fmt.Sprintf("call_%d_%d_%d", r, w, c))
				}
			})
		}
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	for r := range runs {
		events, err := l.Events(ctx, fmt.Sprintf("run_%d", r), 0, 1000)
		require.NoError(t, err)
		require.Len(t, events, 1+writers*calls*5)
		for i, e := range events {
			require.Equal(t, int64(i+1), e.Seq)
			if i > 0 {
				require.False(t, e.Time.Before(events[i-1].Time), "time runs backwards at %d", e.Seq)
			}
		}
	}
	// From outside, beside the live service.
	report, err := ledger.VerifyFile(ctx, path)
	require.NoError(t, err)
	require.Empty(t, report.Faults)
	require.EqualValues(t, runs, report.Runs)
	require.EqualValues(t, runs*writers*calls, report.Calls)
	require.EqualValues(t, runs*(1+writers*calls*5), report.Events)
	ro, err := ledger.Open(ctx, ledger.Config{Path: path, ReadOnly: true})
	require.NoError(t, err)
	problem(t, ro.CreateRun(ctx, newRun("run_x")), runtime.ProblemUnavailable)
	require.NoError(t, ro.Close())
}

func TestTamperingIsFound(t *testing.T) {
	open := []string{"DROP TRIGGER events_no_update", "DROP TRIGGER events_no_delete"}
	for name, c := range map[string]struct {
		do   []string
		want ledger.FaultKind
	}{
		"nothing":             {[]string{"SELECT 1"}, ""},
		"data changed":        {[]string{`UPDATE events SET data = x'7b7d' WHERE seq = 4`}, ledger.FaultChanged},
		"time changed":        {[]string{`UPDATE events SET time_ns = time_ns + 1 WHERE seq = 4`}, ledger.FaultChanged},
		"kind changed":        {[]string{`UPDATE events SET kind = 'RUN_CHANGED' WHERE seq = 4`}, ledger.FaultChanged},
		"trace changed":       {[]string{`UPDATE events SET trace = 'x' WHERE seq = 2`}, ledger.FaultChanged},
		"call changed":        {[]string{`UPDATE events SET call_id = 'x' WHERE seq = 4`}, ledger.FaultChanged},
		"hash changed":        {[]string{`UPDATE events SET hash = zeroblob(32) WHERE seq = 4`}, ledger.FaultChanged},
		"row removed":         {[]string{`DELETE FROM events WHERE seq = 4`}, ledger.FaultMissing},
		"row removed, closed": {[]string{`DELETE FROM events WHERE seq = 4`, `UPDATE events SET seq = seq + 100 WHERE seq > 4`, `UPDATE events SET seq = seq - 101 WHERE seq > 100`}, ledger.FaultLink},
		"rows swapped":        {[]string{`UPDATE events SET seq = 100 WHERE seq = 3`, `UPDATE events SET seq = 3 WHERE seq = 4`, `UPDATE events SET seq = 4 WHERE seq = 100`}, ledger.FaultLink},
		"first removed":       {[]string{`DELETE FROM events WHERE seq = 1`}, ledger.FaultMissing},
		"moved to other run":  {[]string{`UPDATE events SET run_id = 'run_2'`}, ledger.FaultChanged},
		"tail removed":        {[]string{`DELETE FROM events WHERE seq > 5`}, ledger.FaultTail},
		"tail and head removed, call tells": {[]string{`DELETE FROM events WHERE seq > 5`,
			`UPDATE run_heads SET seq = 5, hash = (SELECT hash FROM events WHERE seq = 5)`}, ledger.FaultCall},
		"head removed":         {[]string{`DELETE FROM run_heads`}, ledger.FaultRun},
		"run removed":          {[]string{`DELETE FROM runs`}, ledger.FaultRun},
		"all events removed":   {[]string{`DELETE FROM events`}, ledger.FaultTail},
		"call's result forged": {[]string{`UPDATE calls SET result = x'7b7d'`}, ledger.FaultCall},
		"call removed":         {[]string{`DELETE FROM calls`}, ledger.FaultCall},
	} {
		t.Run(name, func(t *testing.T) {
			l, path := fresh(t)
			ctx := t.Context()
			require.NoError(t, l.CreateRun(ctx, newRun("run_1")))
			require.NoError(t, whole(ctx, l, "run_1", "call_1"))
			db := raw(t, path)
			for _, s := range append(open, c.do...) {
				_, err := db.Exec(s)
				require.NoError(t, err, s)
			}
			report, err := l.Verify(ctx)
			require.NoError(t, err)
			if c.want == "" {
				require.True(t, report.OK(), report.Faults)
				return
			}
			found := false
			for _, f := range report.Faults {
				found = found || f.Kind == c.want
			}
			require.True(t, found, "want %s in %v", c.want, report.Faults)
		})
	}
}

func TestOneChangedEventIsOneFault(t *testing.T) {
	l, path := fresh(t)
	require.NoError(t, l.CreateRun(t.Context(), newRun("run_1")))
	for i := range 5 {
		require.NoError(t, whole(t.Context(), l, "run_1", fmt.Sprintf("call_%d", i)))
	}
	db := raw(t, path)
	_, err := db.Exec("DROP TRIGGER events_no_update")
	require.NoError(t, err)
	_, err = db.Exec(`UPDATE events SET data = x'7b7d' WHERE seq = 3`)
	require.NoError(t, err)
	report, err := l.Verify(t.Context())
	require.NoError(t, err)
	require.Len(t, report.Faults, 1)
	require.Equal(t, "run_1", report.Faults[0].RunID)
	require.EqualValues(t, 3, report.Faults[0].Seq)
}

func TestEventsRefuseUpdateAndDelete(t *testing.T) {
	l, path := fresh(t)
	require.NoError(t, l.CreateRun(t.Context(), newRun("run_1")))
	db := raw(t, path)
	for _, s := range []string{`UPDATE events SET kind = 'X'`, `DELETE FROM events`} {
		_, err := db.Exec(s)
		require.ErrorContains(t, err, "append-only")
	}
	_, err := db.Exec(`UPDATE runs SET state = 'PLANNING'`) // the same connection can write
	require.NoError(t, err)
}

func TestHashTellsEveryFieldApart(t *testing.T) {
	base := runtime.Event{
		Seq: 1, RunID: "ab", Kind: "c", ToolCallID: "d", Trace: "e", Data: []byte("{}"),
		PrevHash: ledger.Genesis("ab"),
	}
	want, err := ledger.Hash(base)
	require.NoError(t, err)
	require.Len(t, want, 64)
	moved := base
	moved.RunID, moved.Kind = "a", "bc" // the same letters, cut elsewhere
	got, err := ledger.Hash(moved)
	require.NoError(t, err)
	require.NotEqual(t, want, got)
	require.NotEqual(t, ledger.Genesis("ab"), ledger.Genesis("abc"))
	base.PrevHash = "no hex"
	_, err = ledger.Hash(base)
	require.Error(t, err)
}

func TestAPageAtTheEndIsFoundThroughAnIndex(t *testing.T) {
	l, path := fresh(t)
	require.NoError(t, l.CreateRun(t.Context(), newRun("run_1")))
	db := raw(t, path)
	fill(t, db, 100_000)
	for name, query := range ledger.Queries() {
		plan := explain(t, db, query, "run_1", 99_000, 100)
		require.Contains(t, plan, "USING INDEX", name)
		require.NotContains(t, plan, "TEMP B-TREE", "%s is sorted", name)
		require.NotContains(t, plan, "SCAN", "%s reads all", name)
	}
	events, err := l.Events(t.Context(), "run_1", 99_990, 1000)
	require.NoError(t, err)
	require.Len(t, events, 10)
}

func fill(t *testing.T, db *sql.DB, n int) {
	t.Helper()
	_, err := db.ExecContext(context.Background(), `WITH RECURSIVE s(n) AS
		(SELECT 2 UNION ALL SELECT n + 1 FROM s WHERE n < ?)
		INSERT INTO events (run_id, seq, kind, time_ns, call_id, trace, data, prev_hash, hash)
		SELECT 'run_1', n, 'TOOL_CALL_PROGRESS', n, '', '', x'7b7d', zeroblob(32), zeroblob(32) FROM s`, n)
	require.NoError(t, err)
}

func explain(t *testing.T, db *sql.DB, query string, args ...any) string {
	t.Helper()
	rows, err := db.Query("EXPLAIN QUERY PLAN "+query, args...)
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	var plan strings.Builder
	for rows.Next() {
		var id, parent, unused int
		var detail string
		require.NoError(t, rows.Scan(&id, &parent, &unused, &detail))
		plan.WriteString(detail + "\n")
	}
	require.NoError(t, rows.Err())
	return plan.String()
}
