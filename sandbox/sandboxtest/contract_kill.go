package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/sandbox"
)

// kill holds that a command's whole tree dies, and nothing else.
func (s *suite) kill(t *testing.T) {
	box := s.box(t, func(spec *sandbox.Spec) {
		spec.Limits.Pids = s.opt.Pids
		spec.Limits.CPUs = 0.5
		spec.Limits.Commands = 3
	})
	near := newNeighbour(t, box)
	for _, c := range []struct {
		name   string
		script string
		// least is how many processes the tree has at least.
		least  int
		polite bool
	}{
		{"a polite one goes by SIGTERM", `trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done`, 1, true},
		{"one that ignores SIGTERM", `trap '' TERM; echo up; while :; do sleep $1; done`, 2, false},
		{"children in sessions of their own", `trap '' TERM; setsid sleep $1 & setsid setsid sleep $1 & echo up; wait; sleep $1`, 3, false},
		{"a double fork that closed everything", `trap '' TERM; (setsid bash -c "trap '' TERM HUP; sleep $1 & sleep $1" >/dev/null 2>&1 </dev/null &) ; echo up; exec sleep $1`, 3, false},
		{"nohup", `nohup sleep $1 >/dev/null 2>&1 & trap '' TERM; echo up; sleep $1`, 2, false},
		{"a stopped tree", `trap '' TERM; sleep $1 & bash -c 'kill -STOP $$' & kill -STOP $!; kill -STOP %1; echo up; kill -STOP $$; sleep $1`, 2, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			mark := newMark()
			out := newLines()
			p := start(t, box, sandbox.Command{Argv: []string{"bash", "-c", c.script, "bash", mark}, Stdout: out})
			require.Equal(t, "up\n", <-out.ch)
			time.Sleep(100 * time.Millisecond)
			require.NoError(t, p.Kill(t.Context(), 500*time.Millisecond))
			exit, err := wait(t, p)
			require.NoError(t, err)
			if c.polite {
				require.Equal(t, "term", exit.KillStep)
				require.Zero(t, exit.Code)
			} else {
				require.Equal(t, box.Facts().KillStep, exit.KillStep)
				require.GreaterOrEqual(t, exit.Killed, c.least, "%+v", exit)
			}
			require.Empty(t, alive(t, box, mark), "nothing of it lives")
			near.answers(t)
		})
	}
	t.Run("what a command leaves behind is killed and counted", func(t *testing.T) { leftovers(t, box) })
	t.Run("what should stay stays", func(t *testing.T) { keepChildren(t, box) })
	t.Run("a context that ends kills the tree", func(t *testing.T) { contextKill(t, box) })
	t.Run("a kill that comes late or twice is harmless", func(t *testing.T) { lateKill(t, box) })
	near.answers(t)
	if !ownPids(box) {
		t.Run("a fork bomb dies, be it with its box", func(t *testing.T) { sharedBomb(t, box) })
		return
	}
	t.Run("a fork bomb at the pids limit dies and the box serves on", func(t *testing.T) { s.forkBomb(t, box, near) })
	near.answers(t)
}

// newMark is an argument of sleep that no other process has.
func newMark() string { return fmt.Sprintf("%d.%06d", 3000+rand.IntN(1000), rand.IntN(1000000)) }

// alive lists the box's processes with mark in their command line.
func alive(t *testing.T, box sandbox.Box, mark string) string {
	t.Helper()
	return ok(t, box, `for p in /proc/[0-9]*; do [ "$p" = /proc/$$ ] && continue; c=$(tr '\0' ' ' <$p/cmdline 2>/dev/null)
		case $c in *"sleep $1"*) echo "$p $c" ;; esac; done; true`, mark)
}

func leftovers(t *testing.T, box sandbox.Box) {
	mark := newMark()
	r := sh(t, box, `sleep $1 & setsid sleep $1 >/dev/null 2>&1 & (trap '' TERM; sleep $1) & exit 5`, mark)
	require.Equal(t, 5, r.Code)
	require.GreaterOrEqual(t, r.Leftover, 3)
	require.Empty(t, alive(t, box, mark))
	r = sh(t, box, "true")
	require.Zero(t, r.Leftover, "the control: none are counted where none are left")
}

func keepChildren(t *testing.T, box sandbox.Box) {
	mark := newMark()
	r := run(t, box, sandbox.Command{Argv: []string{"bash", "-c", `setsid sleep $1 >/dev/null 2>&1 </dev/null & exit 0`, "bash", mark}, KeepChildren: true})
	require.Zero(t, r.Leftover)
	require.NotEmpty(t, alive(t, box, mark))
	ok(t, box, `pkill -9 -f "^sleep $1"; sleep 0.1`, mark)
	require.Empty(t, alive(t, box, mark))
}

func contextKill(t *testing.T, box sandbox.Box) {
	mark := newMark()
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	out := newLines()
	go func() {
		<-out.ch
		cancel(enough)
	}()
	exit, err := sandbox.Run(ctx, box, sandbox.Command{
		Argv: []string{"bash", "-c", `trap '' TERM; setsid sleep $1 & echo up; sleep $1; sleep $1`, "bash", mark}, Stdout: out,
	}, sandbox.After(200*time.Millisecond))
	require.NoError(t, err)
	require.ErrorIs(t, context.Cause(ctx), enough)
	require.GreaterOrEqual(t, exit.Killed, 2)
	require.Empty(t, alive(t, box, mark))
}

func lateKill(t *testing.T, box sandbox.Box) {
	p := start(t, box, sandbox.Command{Argv: []string{"true"}})
	exit, err := wait(t, p)
	require.NoError(t, err)
	require.Empty(t, exit.KillStep)
	for range 2 {
		err := p.Kill(t.Context(), 0)
		require.Contains(t, []sandbox.Kind{"", sandbox.KindNoProcess}, sandbox.KindOf(err), "%v", err)
	}
	p = start(t, box, sandbox.Command{Argv: []string{"sleep", "100"}})
	for range 2 {
		require.NoError(t, p.Kill(t.Context(), 0))
	}
	exit, err = wait(t, p)
	require.NoError(t, err)
	require.Equal(t, "SIGKILL", exit.Signal)
}

// ownPids tells whether each command has a limit of processes of its own. A box
// without cgroups for its commands has one for all, and says so in its facts.
func ownPids(box sandbox.Box) bool { return box.Facts().CgroupMode != "none" }

// sharedBomb: where all commands share one pids limit, a bomb may take the
// thread that the agent needs next, and the agent ends. Then the box ends with
// it, at once and with the kind that says so; nothing hangs.
func sharedBomb(t *testing.T, box sandbox.Box) {
	p := start(t, box, sandbox.Command{Argv: []string{"bash", "-c", `trap '' TERM; b() { b | b & }; b; sleep 60`}})
	time.Sleep(1500 * time.Millisecond)
	if err := p.Kill(t.Context(), 100*time.Millisecond); err != nil {
		require.Equal(t, sandbox.KindUnavailable, sandbox.KindOf(err), "%v", err)
	}
	exit, err := wait(t, p)
	if err == nil {
		require.Greater(t, exit.Killed, 3, "%+v", exit)
		require.Equal(t, "works", ok(t, box, "echo works"))
		return
	}
	require.Equal(t, sandbox.KindUnavailable, sandbox.KindOf(err), "%v", err)
	select {
	case <-box.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the box does not say that it is gone")
	}
	_, err = box.Start(t.Context(), sandbox.Command{Argv: []string{"true"}})
	require.Equal(t, sandbox.KindUnavailable, sandbox.KindOf(err), "%v", err)
}

// forkBomb is bounded by the box's pids and processor limits, and by a kill
// that comes in any case.
func (s *suite) forkBomb(t *testing.T, box sandbox.Box, near *neighbour) {
	for _, bomb := range []string{
		`trap '' TERM; b() { b | b & }; b; sleep 60`,
		`trap '' TERM; while :; do (setsid bash -c 'while :; do sleep 9 & done' &) ; done 2>/dev/null`,
	} {
		p := start(t, box, sandbox.Command{Argv: []string{"bash", "-c", bomb}})
		time.Sleep(1500 * time.Millisecond)
		near.answers(t)
		require.Equal(t, "works", ok(t, box, "echo works"), "a good command runs beside it")
		require.NoError(t, p.Kill(t.Context(), 100*time.Millisecond))
		exit, err := wait(t, p)
		require.NoError(t, err)
		require.Equal(t, box.Facts().KillStep, exit.KillStep)
		require.Greater(t, exit.Killed, 3, "%+v", exit)
		t.Logf("killed %d", exit.Killed)
		// The agent, the neighbour, and what counts.
		left := ok(t, box, `n=0; for p in /proc/[0-9]*; do n=$((n+1)); done; echo $n`)
		require.LessOrEqual(t, len(left), 1, "no survivors, but %s processes", left)
		near.answers(t)
	}
}
