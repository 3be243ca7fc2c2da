package ledger_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/runtime/ledger"
)

func TestResultsAreSyncedAndRequestsNeedNotBe(t *testing.T) {
	l, _ := fresh(t)
	for _, synced := range []bool{true, false, true, true, false, false} {
		got, err := l.PragmaInGroup(t.Context(), "synchronous", synced)
		require.NoError(t, err)
		want := "1" // NORMAL
		if synced {
			want = "2" // FULL
		}
		require.Equal(t, want, got)
	}
	mode, err := l.PragmaInGroup(t.Context(), "journal_mode", true)
	require.NoError(t, err)
	require.Equal(t, "wal", mode)
}

// childEnv makes the test binary the service that is killed.
const childEnv = "LEDGER_TEST_CHILD"

func TestWhatWasAcknowledgedIsThereAfterKill(t *testing.T) {
	if path := os.Getenv(childEnv); path != "" {
		serveUntilKilled(t, path)
		return
	}
	trials := 5
	if os.Getenv("SANDBOXD_SOAK") != "" {
		trials = 50
	}
	for trial := range trials {
		path := filepath.Join(t.TempDir(), "ledger.db")
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWhatWasAcknowledgedIsThereAfterKill$")
		cmd.Env = append(os.Environ(), childEnv+"="+path)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		requested, resulted := map[string]bool{}, map[string]bool{}
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			what, id, _ := strings.Cut(lines.Text(), " ")
			switch what {
			case "requested":
				requested[id] = true
			case "resulted":
				resulted[id] = true
			}
			if len(resulted) == 20+trial%10*7 {
				require.NoError(t, cmd.Process.Kill())
			}
		}
		_ = cmd.Wait() // it was killed
		require.GreaterOrEqual(t, len(resulted), 20)

		report, err := ledger.VerifyFile(t.Context(), path) // before anybody repairs it
		require.NoError(t, err)
		require.Empty(t, report.Faults)
		l := open(t, path)
		report, err = l.Verify(t.Context())
		require.NoError(t, err)
		require.Empty(t, report.Faults)
		require.GreaterOrEqual(t, report.Calls, int64(len(requested)))
		for id := range requested {
			_, err := l.Call(t.Context(), "run_1", id)
			require.NoError(t, err, "request %s was lost", id)
		}
		for id := range resulted {
			c, err := l.Call(t.Context(), "run_1", id)
			require.NoError(t, err)
			require.Equal(t, runtime.CallDone, c.State, "result of %s was lost", id)
		}
	}
}

func serveUntilKilled(t *testing.T, path string) {
	l, err := ledger.Open(t.Context(), ledger.Config{Path: path})
	require.NoError(t, err)
	require.NoError(t, l.CreateRun(t.Context(), newRun("run_1")))
	for w := range 4 {
		go func() {
			for i := 0; ; i++ {
				c := newCall("run_1", fmt.Sprintf("call_%d_%d", w, i))
				if _, err := l.Request(context.Background(), c); err != nil {
					return
				}
				fmt.Printf("requested %s\n", c.ToolCallID)
				_ = l.Note(context.Background(), nil, note("run_1", c.ToolCallID, runtime.CallStarted))
				if err := l.Result(context.Background(), done(c, true), runtime.RunUsage{}); err != nil {
					return
				}
				fmt.Printf("resulted %s\n", c.ToolCallID)
			}
		}()
	}
	time.Sleep(time.Minute) // killed long before
}

func TestAFullDiskIsToldAndLeavesNothingHalfWritten(t *testing.T) {
	l, path := fresh(t)
	ctx := t.Context()
	require.NoError(t, l.CreateRun(ctx, newRun("run_1")))
	require.NoError(t, whole(ctx, l, "run_1", "call_0"))
	var pages int
	require.NoError(t, raw(t, path).QueryRow("PRAGMA page_count").Scan(&pages))
	require.NoError(t, l.ExecOnWriter(ctx, fmt.Sprintf("PRAGMA max_page_count = %d", pages+4)))

	open := newCall("run_1", "call_1")
	_, err := l.Request(ctx, open)
	require.NoError(t, err)
	big := done(open, true)
	big.Result.SafeMessage = strings.Repeat("x", 1<<20)
	require.NoError(t, l.Note(ctx, nil, note("run_1", "call_1", runtime.CallStarted)))
	problem(t, l.Result(ctx, big, runtime.RunUsage{Calls: 5}), runtime.ProblemStorageFull)

	got, err := l.Call(ctx, "run_1", "call_1")
	require.NoError(t, err)
	require.Equal(t, runtime.CallQueued, got.State)
	run, err := l.Run(ctx, "run_1")
	require.NoError(t, err)
	require.EqualValues(t, 1, run.Usage.Calls)

	// The connection was given up and with it the limit: there is space again.
	require.NoError(t, l.Result(ctx, big, runtime.RunUsage{Calls: 5}))
	events, err := l.Events(ctx, "run_1", 6, 0)
	require.NoError(t, err)
	require.Equal(t, []runtime.EventKind{runtime.CallRequested, runtime.CallStarted, runtime.CallResulted}, kinds(events),
		"the note was kept through the failure, in its place")
	report, err := l.Verify(ctx)
	require.NoError(t, err)
	require.Empty(t, report.Faults)
}

func TestADiskThatIsReallyFullIsToldAndServedAgain(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		if os.Getenv("SANDBOXD_TEST_REQUIRE") != "" {
			t.Fatalf("a small tmpfs is needed: %v", err)
		}
		t.Skipf("NOT TESTED: a small tmpfs needs root (%v); the page limit stands in for it", err)
	}
	defer func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) }()
	l, err := ledger.Open(t.Context(), ledger.Config{Path: filepath.Join(dir, "l.db")})
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	ctx := t.Context()
	require.NoError(t, l.CreateRun(ctx, newRun("run_1")))
	require.NoError(t, whole(ctx, l, "run_1", "call_0"))
	ballast := filepath.Join(dir, "ballast")
	var st unix.Statfs_t
	require.NoError(t, unix.Statfs(dir, &st))
	require.NoError(t, os.WriteFile(ballast, make([]byte, int64(st.Bavail)*st.Bsize-(256<<10)), 0o600))

	acknowledged := 0
	for i := 1; ; i++ {
		_, err = l.Request(ctx, newCall("run_1", fmt.Sprintf("call_%d", i)))
		if err != nil {
			break
		}
		acknowledged++
		require.Less(t, i, 10_000)
	}
	problem(t, err, runtime.ProblemStorageFull)
	require.Positive(t, acknowledged)
	problem(t, l.CreateRun(ctx, newRun("run_2")), runtime.ProblemStorageFull)
	calls, err := l.OpenCalls(ctx)
	require.NoError(t, err, "reading goes on")
	require.Len(t, calls, acknowledged)

	require.NoError(t, os.Remove(ballast))
	require.NoError(t, whole(ctx, l, "run_1", "call_last"))
	report, err := l.Verify(ctx)
	require.NoError(t, err)
	require.Empty(t, report.Faults)
	require.EqualValues(t, acknowledged+2, report.Calls)
}

func TestTheLogIsMovedIntoTheDatabaseBesideTheCalls(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l.db")
	l, err := ledger.Open(t.Context(), ledger.Config{Path: path, CheckpointOps: 20})
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	require.NoError(t, l.CreateRun(t.Context(), newRun("run_1")))
	for i := range 400 {
		require.NoError(t, whole(t.Context(), l, "run_1", fmt.Sprintf("call_%d", i)))
	}
	wal, err := os.Stat(path + "-wal")
	require.NoError(t, err)
	db, err := os.Stat(path)
	require.NoError(t, err)
	require.Greater(t, db.Size(), int64(400<<10), "nothing was moved")
	require.Less(t, wal.Size(), int64(8<<20), "the log only grows") // 400 calls write about 25 MiB
}

func TestOneImpossibleOperationDoesNotHarmItsGroup(t *testing.T) {
	l, _ := fresh(t)
	ctx := t.Context()
	require.NoError(t, l.CreateRun(ctx, newRun("run_1")))
	art := runtime.ArtifactRef{ID: "art_1", Type: "text/plain", Name: "stdout", CreatedAt: time.Now()}
	results := make(chan error, 20)
	for i := range 20 {
		c := newCall("run_1", fmt.Sprintf("call_%d", i))
		_, err := l.Request(ctx, c)
		require.NoError(t, err)
		c = done(c, true)
		if i < 2 {
			c.Result.Artifacts = []runtime.ArtifactRef{art} // one id for two artifacts
		}
		go func() { results <- l.Result(ctx, c, runtime.RunUsage{}) }()
	}
	failed := 0
	for range 20 {
		if err := <-results; err != nil {
			failed++
		}
	}
	require.Equal(t, 1, failed)
	calls, err := l.OpenCalls(ctx)
	require.NoError(t, err)
	require.Len(t, calls, 1)
	report, err := l.Verify(ctx)
	require.NoError(t, err)
	require.Empty(t, report.Faults)
}

func TestACancelledRequestThatWasNotTakenNeverHappens(t *testing.T) {
	l, _ := fresh(t)
	require.NoError(t, l.CreateRun(t.Context(), newRun("run_1")))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := l.Request(ctx, newCall("run_1", "call_1"))
	problem(t, err, runtime.ProblemUnavailable)
	require.ErrorIs(t, err, context.Canceled)
	calls, err := l.OpenCalls(t.Context())
	require.NoError(t, err)
	require.Empty(t, calls)
}

func TestASecondWriterIsRefused(t *testing.T) {
	_, path := fresh(t)
	_, err := ledger.Open(t.Context(), ledger.Config{Path: path})
	require.ErrorContains(t, err, "another process writes this ledger")
	_, err = ledger.Open(t.Context(), ledger.Config{})
	require.Error(t, err)
}

func TestCloseWritesTheNotesThatWait(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l.db")
	l, err := ledger.Open(t.Context(), ledger.Config{Path: path, NoteDelay: time.Hour})
	require.NoError(t, err)
	require.NoError(t, l.CreateRun(t.Context(), newRun("run_1")))
	require.NoError(t, l.Note(t.Context(), nil, note("run_1", "", runtime.RunChanged)))
	require.NoError(t, l.Close())
	require.NoError(t, l.Close())
	events, err := open(t, path).Events(t.Context(), "run_1", 0, 0)
	require.NoError(t, err)
	require.Len(t, events, 2)
}
