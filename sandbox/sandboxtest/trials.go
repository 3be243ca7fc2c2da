package sandboxtest

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/sandbox"
)

// RunKillTrials kills many trees of each kind, one after the other, beside a
// neighbour: a kill that leaves one survivor in a hundred passes a test and
// fails a product. With SANDBOXD_SOAK=1 there are 200 walkers and 60 fork
// bombs, otherwise a tenth.
func RunKillTrials(t *testing.T, newDriver func(t *testing.T) sandbox.Driver, opt Options) {
	walkers, bombs := 20, 6
	if os.Getenv("SANDBOXD_SOAK") == "1" {
		walkers, bombs = 200, 60
	}
	if opt.Pids == 0 {
		opt.Pids = 128
	}
	s := &suite{newDriver: newDriver, opt: opt}
	box := s.box(t, func(spec *sandbox.Spec) {
		spec.Limits.Pids, spec.Limits.CPUs, spec.Limits.Commands = opt.Pids, 0.5, 3
	})
	near := newNeighbour(t, box)
	t.Run("walkers", func(t *testing.T) {
		for range walkers {
			walkerTrial(t, box)
		}
		near.answers(t)
	})
	t.Run("bombs", func(t *testing.T) {
		for range bombs {
			bombTrial(t, box)
			near.answers(t)
		}
	})
}

// walker leaves its session, forks twice, ignores what can be ignored and goes
// on making children.
const walker = `trap '' TERM HUP INT
	walk() { setsid bash -c "trap '' TERM HUP INT; (sleep $1 &) ; setsid sleep $1 & while :; do sleep 0.05; done; : $1" >/dev/null 2>&1 </dev/null & }
	walk $1; (walk $1; exit); echo up; while :; do sleep 0.05; done`

func walkerTrial(t *testing.T, box sandbox.Box) {
	t.Helper()
	mark := newMark()
	out := newLines()
	p := start(t, box, sandbox.Command{Argv: []string{"bash", "-c", walker, "bash", mark}, Stdout: out})
	require.Equal(t, "up\n", <-out.ch)
	require.NoError(t, p.Kill(t.Context(), 20*time.Millisecond))
	exit, err := wait(t, p)
	require.NoError(t, err)
	require.Positive(t, exit.Killed)
	require.Empty(t, alive(t, box, mark), "a survivor")
}

// countLiving counts the box's processes that are no zombies, without starting
// one (proc(5), stat: the state follows the name in parentheses).
const countLiving = `n=0
for p in /proc/[0-9]*; do
	read -r line 2>/dev/null <$p/stat || continue
	state=${line##*) }
	[ "${state%% *}" = Z ] || n=$((n + 1))
done
echo $n`

func bombTrial(t *testing.T, box sandbox.Box) {
	t.Helper()
	p := start(t, box, sandbox.Command{Argv: []string{"bash", "-c", `trap '' TERM; b() { b | b & }; b; sleep 60`}})
	time.Sleep(500 * time.Millisecond)
	require.NoError(t, p.Kill(t.Context(), 0))
	exit, err := wait(t, p)
	require.NoError(t, err)
	require.Greater(t, exit.Killed, 3)
	// The agent, the neighbour, and what counts. A process that is dead and not
	// yet reaped by the agent has not survived.
	if n := ok(t, box, countLiving); n != "3" {
		t.Fatalf("%s processes live where 3 may; a moment later:\n%s", n, ok(t, box, `head -c 300 /proc/[0-9]*/stat`))
	}
}
