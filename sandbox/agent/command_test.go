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

// run runs a command to its end and returns its output and exit.
func run(t testing.TB, b *testBox, cmd sandbox.Command) (string, sandbox.Exit) {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout = &out
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	p, err := b.Start(ctx, cmd)
	require.NoError(t, err)
	exit, err := p.Wait()
	require.NoError(t, err)
	return out.String(), exit
}

func TestOutputAndExitCodeComeBack(t *testing.T) {
	each(t, func(t *testing.T, b *testBox) {
		var out, errOut bytes.Buffer
		cmd := sh("cat; echo out; echo err >&2; exit 42")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("input\n"), &out, &errOut
		p, err := b.Start(context.Background(), cmd)
		require.NoError(t, err)
		require.Positive(t, p.PID())
		exit, err := p.Wait()
		require.NoError(t, err)
		require.Equal(t, 42, exit.Code)
		require.Empty(t, exit.Signal)
		require.Equal(t, "input\nout\n", out.String())
		require.Equal(t, "err\n", errOut.String())
		require.Positive(t, exit.Usage.Wall)
		require.Positive(t, exit.Usage.MaxRSSBytes)
	})
}

func TestStreamsCanBeOpenedByName(t *testing.T) {
	each(t, func(t *testing.T, b *testBox) {
		cmd := sh("cat </dev/stdin >/dev/stdout; echo err >/dev/stderr")
		var errOut bytes.Buffer
		cmd.Stdin, cmd.Stderr = strings.NewReader("in\n"), &errOut
		out, exit := run(t, b, cmd)
		require.Zero(t, exit.Code, errOut.String())
		require.Equal(t, "in\n", out)
		require.Equal(t, "err\n", errOut.String())
	})
}

func TestACommandHasTheUserTheBoxSaysAndNoRights(t *testing.T) {
	b := start(t, strongest(), nil)
	out, _ := run(t, b, sh("id -u; id -G; grep -E '^(CapEff|CapPrm|CapInh|CapBnd|NoNewPrivs):' /proc/self/status; cat /proc/self/oom_score_adj; ps -o sid= -p $$; echo $$; ls /proc/self/fd | wc -l; umask"))
	lines := strings.Fields(out)
	require.Equal(t, []string{"1000", "1000"}, lines[:2])
	require.Contains(t, out, "CapEff:\t0000000000000000")
	require.Contains(t, out, "CapPrm:\t0000000000000000")
	require.Contains(t, out, "CapInh:\t0000000000000000")
	require.Contains(t, out, "NoNewPrivs:\t1")
	tail := lines[len(lines)-5:]
	require.Equal(t, "500", tail[0])
	require.Equal(t, tail[1], tail[2], "a session of its own")
	require.Equal(t, "4", tail[3], "0, 1, 2 and the listing's own")
	require.Equal(t, "0022", tail[4])
	score, err := os.ReadFile("/proc/" + itoa(b.pid) + "/oom_score_adj")
	require.NoError(t, err)
	require.NotEqual(t, "500\n", string(score), "the agent's own score is not raised")
}

func TestTheEnvironmentIsMadeFromScratch(t *testing.T) {
	t.Setenv("AGENT_SECRET", "leak")
	each(t, func(t *testing.T, b *testBox) {
		cmd := sandbox.Command{Argv: []string{"env"}, Env: []string{"A=1", "LANG=xx", "A=2"}}
		out, _ := run(t, b, cmd)
		require.ElementsMatch(t, []string{
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
			"HOME=" + b.dir, "USER=sandbox", "LANG=xx", "A=2",
		}, strings.Split(strings.TrimSpace(out), "\n"))
	})
}

func TestWhatCannotBeStartedSaysWhy(t *testing.T) {
	each(t, func(t *testing.T, b *testBox) {
		require.NoError(t, os.WriteFile(b.dir+"/plain", []byte("x"), 0o644))
		require.NoError(t, os.WriteFile(b.dir+"/noformat", []byte("x"), 0o755))
		require.NoError(t, os.WriteFile(b.dir+"/script", []byte("#!/bin/sh\necho ran\n"), 0o755))
		require.NoError(t, os.Mkdir(b.dir+"/sub", 0o755))
		require.NoError(t, os.Symlink("/etc", b.dir+"/out"))
		cases := map[string]struct {
			cmd  sandbox.Command
			want sandbox.Kind
		}{
			"missing":            {sandbox.Command{Argv: []string{"no-such-program"}}, sandbox.KindCommandNotFound},
			"missing by path":    {sandbox.Command{Argv: []string{"./none"}}, sandbox.KindCommandNotFound},
			"not executable":     {sandbox.Command{Argv: []string{"./plain"}}, sandbox.KindCommandNotExecutable},
			"directory":          {sandbox.Command{Argv: []string{"./sub"}}, sandbox.KindCommandNotExecutable},
			"no format":          {sandbox.Command{Argv: []string{"./noformat"}}, sandbox.KindCommandNotExecutable},
			"no argv":            {sandbox.Command{}, sandbox.KindInvalid},
			"NUL":                {sandbox.Command{Argv: []string{"sh", "a\x00b"}}, sandbox.KindInvalid},
			"too long":           {sandbox.Command{Argv: []string{"true", strings.Repeat("x", 200<<10)}}, sandbox.KindTooLarge},
			"no dir":             {sandbox.Command{Argv: []string{"true"}, Dir: "none"}, sandbox.KindBadDir},
			"file as dir":        {sandbox.Command{Argv: []string{"true"}, Dir: "plain"}, sandbox.KindBadDir},
			"dir outside":        {sandbox.Command{Argv: []string{"true"}, Dir: "../.."}, sandbox.KindBadDir},
			"dir by link":        {sandbox.Command{Argv: []string{"true"}, Dir: "out"}, sandbox.KindBadDir},
			"control: a program": {sandbox.Command{Argv: []string{"true"}, Dir: "sub"}, ""},
			"control: a script":  {sandbox.Command{Argv: []string{"./script"}}, ""},
		}
		for name, c := range cases {
			t.Run(name, func(t *testing.T) {
				p, err := b.Start(context.Background(), c.cmd)
				require.Equal(t, c.want, sandbox.KindOf(err), "%v", err)
				if err == nil {
					exit, err := p.Wait()
					require.NoError(t, err)
					require.Zero(t, exit.Code)
				}
			})
		}
		require.NoError(t, b.Err(), "a refusal does not end the session")
	})
}

func TestSignalsAreNamedBothWays(t *testing.T) {
	each(t, func(t *testing.T, b *testBox) {
		ctx := context.Background()
		p, err := b.Start(ctx, sh("trap 'exit 9' USR1; echo ready; while :; do sleep 0.05; done"))
		require.NoError(t, err)
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, sandbox.KindInvalid, sandbox.KindOf(p.Signal(ctx, "SIGNONE")))
		require.NoError(t, p.Signal(ctx, "SIGUSR1"))
		exit, err := p.Wait()
		require.NoError(t, err)
		require.Equal(t, 9, exit.Code)
		require.Equal(t, sandbox.KindNoProcess, sandbox.KindOf(p.Signal(ctx, "SIGUSR1")))

		_, exit = run(t, b, sh("kill -SEGV $$"))
		require.Equal(t, -1, exit.Code)
		require.Equal(t, "SIGSEGV", exit.Signal)
	})
}

func TestAStartThatWasCancelledNeverRuns(t *testing.T) {
	each(t, func(t *testing.T, b *testBox) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := b.Start(ctx, sh("touch ran"))
		require.Equal(t, sandbox.KindCancelled, sandbox.KindOf(err))

		// All slots are taken, so the start waits; then it is taken back.
		var running []sandbox.Process
		for range 4 {
			p, err := b.Start(context.Background(), sh("sleep 60"))
			require.NoError(t, err)
			running = append(running, p)
		}
		ctx, cancel = context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_, err = b.Start(ctx, sh("touch ran"))
		require.Equal(t, sandbox.KindCancelled, sandbox.KindOf(err))
		for _, p := range running {
			require.NoError(t, p.Kill(context.Background(), 0))
			_, err := p.Wait()
			require.NoError(t, err)
		}
		// Control: the same command does run, and proves that the slots are
		// free again.
		_, exit := run(t, b, sh("test ! -e ran && touch ran"))
		require.Zero(t, exit.Code)
		require.FileExists(t, b.dir+"/ran")
	})
}

func TestACancelDuringTheStartLeavesNothing(t *testing.T) {
	b := start(t, strongest(), nil)
	for i := range 60 {
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			time.Sleep(time.Duration(i) * 50 * time.Microsecond)
			cancel()
		}()
		p, err := b.Start(ctx, sh("sleep 61"))
		if err == nil {
			require.NoError(t, p.Kill(context.Background(), 0))
			_, err = p.Wait()
			require.NoError(t, err)
		} else {
			require.Equal(t, sandbox.KindCancelled, sandbox.KindOf(err))
		}
		cancel()
	}
	out, _ := run(t, b, sh("ps -eo args | grep -c '[s]leep 61'"))
	require.Equal(t, "0\n", out)
}

func TestWaitDoesNotHangOnAChildThatHoldsTheOutput(t *testing.T) {
	each(t, func(t *testing.T, b *testBox) {
		begin := time.Now()
		out, exit := run(t, b, sh("echo before; sleep 60 & echo after"))
		require.Less(t, time.Since(begin), 10*time.Second)
		require.Equal(t, "before\nafter\n", out)
		require.Zero(t, exit.Code)
		require.Equal(t, 1, exit.Leftover)
	})
}

func TestChildrenAreKeptWhenAsked(t *testing.T) {
	each(t, func(t *testing.T, b *testBox) {
		cmd := sh("(sleep 0.4; echo noise; touch kept) & echo done")
		cmd.KeepChildren = true
		begin := time.Now()
		out, exit := run(t, b, cmd)
		require.Less(t, time.Since(begin), 350*time.Millisecond)
		require.Equal(t, "done\n", out)
		require.Zero(t, exit.Leftover)
		require.Eventually(t, func() bool { _, err := os.Stat(b.dir + "/kept"); return err == nil }, 5*time.Second, 20*time.Millisecond)
		// The slot serves on, also for commands that are then killed.
		_, exit = run(t, b, sh("sleep 60 & exit 5"))
		require.Equal(t, 5, exit.Code)
		require.Equal(t, 1, exit.Leftover)
	})
}

func TestATerminalIsControlling(t *testing.T) {
	each(t, func(t *testing.T, b *testBox) {
		cmd := sh("tty; stty size; test -t 0 && echo yes; echo err >&2")
		cmd.TTY = &sandbox.WindowSize{Rows: 33, Cols: 101}
		out, exit := run(t, b, cmd)
		require.Zero(t, exit.Code)
		require.Contains(t, out, "/dev/pts/")
		require.Contains(t, out, "33 101\r\n")
		require.Contains(t, out, "yes")
		require.Contains(t, out, "err")
	})
}
