package ledger_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/runtime/ledger"
)

func keyed(callID, key, hash string) runtime.Call {
	c := newCall("run_1", callID)
	c.IdempotencyKey, c.ArgumentsHash = key, hash
	return c
}

func TestFiftyRequestsWithOneKeyRecordOneCall(t *testing.T) {
	l, _ := fresh(t)
	ctx := t.Context()
	require.NoError(t, l.CreateRun(ctx, newRun("run_1")))
	var recorded atomic.Int32
	priors := make(chan string, 50)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			prior, err := l.Request(ctx, keyed(fmt.Sprintf("call_%d", i), "k", "sha256:aa"))
			switch {
			case err != nil:
				priors <- err.Error()
			case prior == nil:
				recorded.Add(1)
				priors <- fmt.Sprintf("call_%d", i)
			default:
				priors <- prior.ToolCallID
			}
		})
	}
	wg.Wait()
	close(priors)
	require.EqualValues(t, 1, recorded.Load())
	seen := map[string]bool{}
	for p := range priors {
		seen[p] = true
	}
	require.Len(t, seen, 1, "all were given the same call: %v", seen)
	calls, _, err := l.Calls(ctx, "run_1", runtime.Page{})
	require.NoError(t, err)
	require.Len(t, calls, 1)
}

func TestIdempotencyKeyBindingRules(t *testing.T) {
	type step struct {
		call  runtime.Call
		prior string
		code  runtime.ProblemCode
	}
	other := keyed("call_other", "k", "sha256:bb")
	other.ToolName = "file.read"
	for name, c := range map[string]struct {
		end     *bool // nil: the first call is still open; else whether it had started
		noted   bool  // started by a note
		further []step
	}{
		"open call binds":                     {nil, false, []step{{keyed("call_2", "k", "sha256:aa"), "call_1", ""}}},
		"open call, other arguments":          {nil, false, []step{{keyed("call_2", "k", "sha256:bb"), "", runtime.ProblemIdempotency}}},
		"another key is free":                 {nil, false, []step{{keyed("call_2", "k2", "sha256:bb"), "", ""}}},
		"another tool is free":                {nil, false, []step{{other, "", ""}}},
		"no key never binds":                  {nil, false, []step{{keyed("call_2", "", "sha256:aa"), "", ""}, {keyed("call_3", "", "sha256:aa"), "", ""}}},
		"ended after it was started":          {new(true), false, []step{{keyed("call_2", "k", "sha256:aa"), "call_1", ""}, {keyed("call_2", "k", "sha256:bb"), "", runtime.ProblemIdempotency}}},
		"started by note, result tells not":   {new(false), true, []step{{keyed("call_2", "k", "sha256:aa"), "call_1", ""}}},
		"refused before start frees the key":  {new(false), false, []step{{keyed("call_2", "k", "sha256:bb"), "", ""}, {keyed("call_3", "k", "sha256:bb"), "call_2", ""}}},
		"same id without a key is a conflict": {nil, false, []step{{newCall("run_1", "call_1"), "", runtime.ProblemConflict}}},
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := fresh(t)
			ctx := t.Context()
			require.NoError(t, l.CreateRun(ctx, newRun("run_1")))
			first := keyed("call_1", "k", "sha256:aa")
			_, err := l.Request(ctx, first)
			require.NoError(t, err)
			if c.noted {
				require.NoError(t, l.Note(ctx, &runtime.CallUpdate{ToolCallID: "call_1", Started: true}))
			}
			if c.end != nil {
				require.NoError(t, l.Result(ctx, done(first, *c.end), runtime.RunUsage{}))
			}
			for _, s := range c.further {
				prior, err := l.Request(ctx, s.call)
				if s.code != "" {
					problem(t, err, s.code)
					continue
				}
				require.NoError(t, err)
				if s.prior == "" {
					require.Nil(t, prior)
					continue
				}
				require.NotNil(t, prior)
				require.Equal(t, s.prior, prior.ToolCallID)
				require.Equal(t, s.prior == "call_1" && c.end != nil, prior.State == runtime.CallDone)
			}
		})
	}
}

func TestNotesAreWrittenWithoutAnybodyWaiting(t *testing.T) {
	l, _ := fresh(t)
	ctx := t.Context()
	require.NoError(t, l.CreateRun(ctx, newRun("run_1")))
	require.NoError(t, l.Note(ctx, nil, note("run_1", "", runtime.RunChanged)))
	require.Eventually(t, func() bool {
		events, err := l.Events(ctx, "run_1", 1, 0)
		return err == nil && len(events) == 1
	}, 5*time.Second, 5*time.Millisecond)
}

func TestANoteThatNamesNothingIsLoggedAndHarmsNoOther(t *testing.T) {
	var log bytes.Buffer
	l, err := ledger.Open(t.Context(), ledger.Config{
		Path: t.TempDir() + "/l.db", Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	require.NoError(t, err)
	ctx := t.Context()
	require.NoError(t, l.CreateRun(ctx, newRun("run_1")))
	require.NoError(t, l.Note(ctx, nil, note("run_9", "", runtime.RunChanged)))
	require.NoError(t, l.Note(ctx, &runtime.CallUpdate{ToolCallID: "call_9", Started: true}, note("run_1", "call_9", runtime.CallStarted)))
	require.NoError(t, l.Note(ctx, nil, note("run_1", "", runtime.RunChanged)))
	require.NoError(t, l.SaveRun(ctx, newRun("run_1"), note("run_1", "", runtime.RunResumed)))
	events, err := l.Events(ctx, "run_1", 1, 0)
	require.NoError(t, err)
	require.Equal(t, []runtime.EventKind{runtime.RunChanged, runtime.RunResumed}, kinds(events))
	require.NoError(t, l.Close())
	require.Contains(t, log.String(), "run_9")
	require.Contains(t, log.String(), "call_9")
}

func TestANoteOfAFollowedRunIsWrittenAtOnce(t *testing.T) {
	l, err := ledger.Open(t.Context(), ledger.Config{Path: t.TempDir() + "/l.db", NoteDelay: time.Hour})
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	ctx := t.Context()
	require.NoError(t, l.CreateRun(ctx, newRun("run_1")))
	require.NoError(t, l.CreateRun(ctx, newRun("run_2")))

	signal, stop := l.Follow("run_1")
	defer stop()
	require.NoError(t, l.Note(ctx, nil, note("run_1", "", runtime.RunChanged)))
	select {
	case <-signal:
	case <-time.After(10 * time.Second):
		t.Fatal("no signal")
	}
	events, err := l.Events(ctx, "run_1", 1, 0)
	require.NoError(t, err)
	require.Len(t, events, 1)

	// Another run's note waits for company, and gives this follower no signal.
	require.NoError(t, l.Note(ctx, nil, note("run_2", "", runtime.RunChanged)))
	events, err = l.Events(ctx, "run_2", 1, 0)
	require.NoError(t, err)
	require.Empty(t, events)
	require.NoError(t, l.SaveRun(ctx, newRun("run_2")))
	events, err = l.Events(ctx, "run_2", 1, 0)
	require.NoError(t, err)
	require.Len(t, events, 1)
	select {
	case <-signal:
		t.Fatal("a signal for another run")
	default:
	}
	stop()
	stop()
}

func TestFollowersSeeEveryEventThroughCoalescedSignals(t *testing.T) {
	l, _ := fresh(t)
	ctx := t.Context()
	require.NoError(t, l.CreateRun(ctx, newRun("run_1")))
	const followers, calls = 200, 20
	var wg sync.WaitGroup
	var seen atomic.Int64
	for range followers {
		signal, stop := l.Follow("run_1")
		wg.Go(func() {
			defer stop()
			after := int64(0)
			for after < 1+calls*5 {
				events, err := l.Events(ctx, "run_1", after, 1000)
				if err != nil {
					t.Error(err)
					return
				}
				if len(events) == 0 {
					<-signal
					continue
				}
				after = events[len(events)-1].Seq
				seen.Add(int64(len(events)))
			}
		})
	}
	for i := range calls {
		require.NoError(t, whole(ctx, l, "run_1", fmt.Sprintf("call_%d", i)))
	}
	wg.Wait()
	require.EqualValues(t, followers*(1+calls*5), seen.Load())
}

func TestPagesCoverAListOnceAndForeignCursorsAreRefused(t *testing.T) {
	l, _ := fresh(t)
	ctx := t.Context()
	for i := range 7 {
		run := newRun(fmt.Sprintf("run_%d", i))
		run.Spec.Labels = map[string]string{"job": fmt.Sprint(i % 2), "team": "a"}
		if i == 3 {
			run.Tenant = "other"
		}
		require.NoError(t, l.CreateRun(ctx, run))
	}
	for i := range 5 {
		require.NoError(t, whole(ctx, l, "run_0", fmt.Sprintf("call_%d", i)))
	}
	var ids []string
	page := runtime.Page{Limit: 2}
	for {
		calls, next, err := l.Calls(ctx, "run_0", page)
		require.NoError(t, err)
		for _, c := range calls {
			ids = append(ids, c.ToolCallID)
		}
		if next == "" {
			break
		}
		page.Cursor = next
	}
	require.Equal(t, []string{"call_0", "call_1", "call_2", "call_3", "call_4"}, ids)

	list := func(f runtime.RunFilter) (ids []string) {
		page := runtime.Page{Limit: 3}
		for {
			runs, next, err := l.Runs(ctx, f, page)
			require.NoError(t, err)
			for _, r := range runs {
				ids = append(ids, r.RunID)
			}
			if next == "" {
				return ids
			}
			page.Cursor = next
		}
	}
	require.Equal(t, []string{"run_6", "run_5", "run_4", "run_3", "run_2", "run_1", "run_0"}, list(runtime.RunFilter{}))
	require.Equal(t, []string{"run_6", "run_5", "run_4", "run_2", "run_1", "run_0"}, list(runtime.RunFilter{Tenant: "acme"}))
	require.Equal(t, []string{"run_5", "run_1"},
		list(runtime.RunFilter{Tenant: "acme", Labels: map[string]string{"job": "1", "team": "a"}}))
	require.Empty(t, list(runtime.RunFilter{Labels: map[string]string{"job": "9"}}))
	require.Empty(t, list(runtime.RunFilter{Status: runtime.RunEnded}))

	for _, cursor := range []string{"!", "eA", "MTA=", "999"} {
		_, _, err := l.Calls(ctx, "run_0", runtime.Page{Cursor: cursor})
		problem(t, err, runtime.ProblemBadRequest)
	}
	for _, limit := range []int{-1, 1001} {
		_, err := l.Events(ctx, "run_0", 0, limit)
		problem(t, err, runtime.ProblemBadRequest)
	}
	// A label that a run lost is no longer found.
	run := newRun("run_6")
	require.NoError(t, l.SaveRun(ctx, run))
	require.NotContains(t, list(runtime.RunFilter{Labels: map[string]string{"team": "a"}}), "run_6")
}
