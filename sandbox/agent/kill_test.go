package agent_test

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/stretchr/testify/require"
)

// stubborn leaves its session, forks twice, ignores SIGTERM, and stops one of
// its processes: eight processes in all once it says "ready".
const stubborn = `trap '' TERM
setsid sh -c 'trap "" TERM; while :; do sleep 0.2; done' &
(setsid sh -c 'trap "" TERM; (setsid sleep 4711 &); sleep 4711' &)
sh -c 'kill -STOP $$; sleep 4711' &
sleep 0.2; echo ready
while :; do sleep 0.2; done`

// bomb forks as fast as it can, also when forks are refused (a shell would
// give up).
const bomb = `exec perl -e '$|=1; print "ready\n"; while (1) { fork }'`

// trials is how often a kill is tried: once where the tests are to be short,
// twenty times as often in a soak.
func trials(n int) int {
	switch {
	case os.Getenv("SANDBOXD_SOAK") == "1":
		return 20 * n
	case testing.Short():
		return 1
	}
	return n
}

// ready starts a command and waits until it says so.
func ready(t *testing.T, b *testBox, cmd sandbox.Command) sandbox.Process {
	t.Helper()
	said := make(chan struct{}, 1)
	cmd.Stdout = writerFunc(func(p []byte) (int, error) {
		if bytes.Contains(p, []byte("ready")) {
			said <- struct{}{}
		}
		return len(p), nil
	})
	p, err := b.Start(context.Background(), cmd)
	require.NoError(t, err)
	select {
	case <-said:
	case <-time.After(10 * time.Second):
		t.Fatal("the command did not become ready")
	}
	return p
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// survivors lists what runs in the box besides the agent, the given processes
// and the listing itself.
func survivors(t *testing.T, b *testBox, but ...sandbox.Process) []string {
	t.Helper()
	out, _ := run(t, b, sandbox.Command{Argv: []string{"ps", "-eo", "pid=,stat=,args="}})
	allowed := map[string]bool{"1": true}
	for _, p := range but {
		allowed[itoa(p.PID())] = true
	}
	var left []string
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if allowed[fields[0]] || fields[2] == "ps" || fields[1][0] == 'Z' {
			continue
		}
		left = append(left, strings.TrimSpace(line))
	}
	return left
}

func eachContainer(t *testing.T, f func(t *testing.T, k kind, b *testBox)) {
	for _, k := range kinds() {
		if k.container {
			t.Run(k.name, func(t *testing.T) { f(t, k, start(t, k, nil)) })
		}
	}
}

func TestKillEndsTheWholeTreeAndNothingElse(t *testing.T) {
	eachContainer(t, func(t *testing.T, k kind, b *testBox) {
		neighbour, err := b.Start(context.Background(), sh("exec sleep 333"))
		require.NoError(t, err)
		for range trials(5) {
			p := ready(t, b, sh(stubborn))
			require.NotEmpty(t, survivors(t, b, neighbour, p), "control: the tree is there before the kill")
			require.NoError(t, p.Kill(context.Background(), 100*time.Millisecond))
			exit, err := p.Wait()
			require.NoError(t, err)
			require.Empty(t, survivors(t, b, neighbour))
			// Eight when all are born by then; a busy machine is slower.
			require.GreaterOrEqual(t, exit.Killed, 5)
			want := "stop-walk"
			if k.cgroup2 {
				want = "cgroup.kill"
			}
			require.Equal(t, want, exit.KillStep)
			require.Equal(t, "SIGKILL", exit.Signal)
			require.Zero(t, exit.Leftover)
		}
		require.NoError(t, neighbour.Signal(context.Background(), "SIGINT"), "the neighbour lives on")
		exit, err := neighbour.Wait()
		require.NoError(t, err)
		require.Equal(t, "SIGINT", exit.Signal)
		require.Zero(t, exit.Killed)
	})
}

func TestAForkBombDiesAndTheAgentServesOn(t *testing.T) {
	eachContainer(t, func(t *testing.T, k kind, b *testBox) {
		if !k.pids {
			return // without a limit of its own a bomb takes the machine
		}
		for range trials(3) {
			p := ready(t, b, sh(bomb))
			time.Sleep(300 * time.Millisecond)
			// While it forks: another command works.
			out, exit := run(t, b, sh("echo fine"))
			require.Equal(t, "fine\n", out)
			require.Zero(t, exit.Code)
			begin := time.Now()
			require.NoError(t, p.Kill(context.Background(), 0))
			exit, err := p.Wait()
			require.NoError(t, err)
			require.Less(t, time.Since(begin), 5*time.Second)
			require.True(t, exit.PidsLimitHit)
			require.Greater(t, exit.Killed, 3)
			require.Empty(t, survivors(t, b))
		}
	})
}

func TestAPoliteCommandEndsByItself(t *testing.T) {
	each(t, func(t *testing.T, b *testBox) {
		p := ready(t, b, sh(`trap 'exit 3' TERM; echo ready; while :; do sleep 0.05; done`))
		begin := time.Now()
		require.NoError(t, p.Kill(context.Background(), 20*time.Second))
		exit, err := p.Wait()
		require.NoError(t, err)
		require.Less(t, time.Since(begin), 10*time.Second)
		require.Equal(t, 3, exit.Code)
		require.Equal(t, "term", exit.KillStep)
		require.GreaterOrEqual(t, exit.Killed, 1)
	})
}

func TestASecondKillShortensTheGrace(t *testing.T) {
	each(t, func(t *testing.T, b *testBox) {
		p := ready(t, b, sh(`trap '' TERM; echo ready; while :; do sleep 0.05; done`))
		require.NoError(t, p.Kill(context.Background(), time.Hour))
		require.NoError(t, p.Kill(context.Background(), 0))
		exit, err := p.Wait()
		require.NoError(t, err)
		require.Equal(t, "SIGKILL", exit.Signal)
		require.NoError(t, p.Kill(context.Background(), 0), "a kill of what has ended is done")
	})
}

func TestLeftoversAreKilledAndCounted(t *testing.T) {
	eachContainer(t, func(t *testing.T, k kind, b *testBox) {
		_, exit := run(t, b, sh(`setsid sleep 4711 & (setsid sh -c 'trap "" TERM; sleep 4711' &); sleep 0.2; exit 5`))
		require.Equal(t, 5, exit.Code, "%+v", exit)
		require.GreaterOrEqual(t, exit.Leftover, 2)
		require.Empty(t, exit.KillStep)
		require.Zero(t, exit.Killed)
		require.Empty(t, survivors(t, b))
	})
}

func TestOrphansAreReaped(t *testing.T) {
	b := start(t, strongest(), nil)
	for range 20 {
		_, exit := run(t, b, sh(`for i in 1 2 3; do (sleep 0.01 &); done; sleep 0.05`))
		require.Zero(t, exit.Code)
	}
	require.Eventually(t, func() bool {
		out, _ := run(t, b, sh("ps -eo stat= | grep -c '^Z'"))
		return out == "0\n"
	}, 5*time.Second, 50*time.Millisecond)
}

func TestCommandsOfALostSessionDie(t *testing.T) {
	b := start(t, strongest(), nil)
	p, err := b.Start(context.Background(), sh("sleep 4712"))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(hostProcesses(t, "sleep 4712")) == 1 }, 5*time.Second, 5*time.Millisecond, "control")
	require.NoError(t, b.Close())
	_, err = p.Wait()
	require.Equal(t, sandbox.KindUnavailable, sandbox.KindOf(err))
	require.Eventually(t, func() bool { return len(hostProcesses(t, "sleep 4712")) == 0 }, 5*time.Second, 20*time.Millisecond)
}
