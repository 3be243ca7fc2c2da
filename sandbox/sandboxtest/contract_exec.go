package sandboxtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/sandbox"
)

// exec holds what commands are promised: how they end, what they are given and
// what they hand back.
func (s *suite) exec(t *testing.T) {
	t.Setenv("SANDBOXD_CONTRACT_HOST_SECRET", "host")
	box := s.box(t, func(spec *sandbox.Spec) {
		spec.Env = []string{"FROM_SPEC=spec", "BOTH=spec"}
	})
	for name, test := range map[string]func(*testing.T, sandbox.Box){
		"exit codes and signals are told apart":        exitCodes,
		"stdin arrives and ends":                       stdin,
		"output streams stay apart and exact":          outputs,
		"the streams can be opened by name":            reopens,
		"the environment is made from scratch":         environment,
		"the directory is the workspace or below":      directories,
		"what cannot be started says why":              cannotStart,
		"a cancelled start never runs":                 cancelledStart,
		"commands run side by side":                    sideBySide,
		"a signal reaches the command":                 signals,
		"several may wait":                             severalWait,
		"a terminal has the size it is given":          terminal,
		"what a command used is reported":              usage,
		"a writer that fails does not end the command": failingWriter,
	} {
		t.Run(name, func(t *testing.T) { test(t, box) })
	}
}

func exitCodes(t *testing.T, box sandbox.Box) {
	for _, code := range []int{0, 1, 7, 126, 127, 137, 255} {
		r := sh(t, box, fmt.Sprintf("exit %d", code))
		require.Equal(t, code, r.Code)
		require.Empty(t, r.Signal)
	}
	for _, sig := range []string{"TERM", "KILL", "SEGV", "USR1"} {
		r := sh(t, box, "kill -"+sig+" $$; sleep 5")
		require.Equal(t, -1, r.Code)
		require.Equal(t, "SIG"+sig, r.Signal)
	}
}

func stdin(t *testing.T, box sandbox.Box) {
	r := run(t, box, sandbox.Command{Argv: []string{"cat"}})
	require.Zero(t, r.Code, "no stdin is an empty one")
	require.Empty(t, r.Out)

	big := bytes.Repeat([]byte("0123456789abcde\n"), 1<<16)
	r = run(t, box, sandbox.Command{Argv: []string{"sha256sum"}, Stdin: bytes.NewReader(big)})
	require.Equal(t, fmt.Sprintf("%x  -\n", sha256.Sum256(big)), r.Out)

	// One that reads nothing must not be held up by what it is sent.
	r = run(t, box, sandbox.Command{Argv: []string{"true"}, Stdin: bytes.NewReader(big)})
	require.Zero(t, r.Code)
}

func outputs(t *testing.T, box sandbox.Box) {
	r := sh(t, box, "echo out; echo err >&2")
	require.Equal(t, "out\n", r.Out)
	require.Equal(t, "err\n", r.Err)

	// Every byte value, also what looks like a frame or an answer.
	var all []byte
	for i := range 256 {
		all = append(all, byte(i))
	}
	r = run(t, box, sandbox.Command{Argv: []string{"cat"}, Stdin: bytes.NewReader(all)})
	require.Equal(t, string(all), r.Out)

	sum := sha256.New()
	n := &counter{w: sum}
	r = run(t, box, sandbox.Command{Argv: []string{"head", "-c", "8388608", "/dev/zero"}, Stdout: n})
	require.Zero(t, r.Code)
	require.Equal(t, int64(8<<20), n.n)
	require.Equal(t, sha256.Sum256(make([]byte, 8<<20)), [32]byte(sum.Sum(nil)))
}

// reopens: scripts write to /dev/stderr and the like, which opens the stream
// anew and asks for its owner.
func reopens(t *testing.T, box sandbox.Box) {
	r := run(t, box, sandbox.Command{
		Argv:  []string{"bash", "-c", "cat </dev/stdin >/dev/stdout; echo err >/dev/stderr; echo t | tee /dev/stderr"},
		Stdin: bytes.NewReader([]byte("in\n")),
	})
	require.Equal(t, "in\nt\n", r.Out, r.Err)
	require.Equal(t, "err\nt\n", r.Err)
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return c.w.Write(p)
}

func environment(t *testing.T, box sandbox.Box) {
	r := run(t, box, sandbox.Command{
		Argv: []string{"env"},
		Env:  []string{"BOTH=command", "FROM_COMMAND=a=b c", "FROM_COMMAND2=1", "FROM_COMMAND2=2"},
	})
	env := map[string]string{}
	for line := range strings.Lines(r.Out) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		env[name] = value
	}
	require.Equal(t, "spec", env["FROM_SPEC"], "the control: what was asked for is there")
	require.Equal(t, "command", env["BOTH"])
	require.Equal(t, "a=b c", env["FROM_COMMAND"])
	require.Equal(t, "2", env["FROM_COMMAND2"])
	require.NotContains(t, env, "SANDBOXD_CONTRACT_HOST_SECRET")
	for name := range env {
		known := []string{"FROM_SPEC", "BOTH", "FROM_COMMAND", "FROM_COMMAND2", "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "PWD", "TERM", "TMPDIR"}
		require.Contains(t, known, name)
	}
	require.Equal(t, "yes", ok(t, box, `cd && touch .probe && rm .probe && echo yes`), "HOME is there and writable")
}

func directories(t *testing.T, box sandbox.Box) {
	ws := box.Facts().WorkspacePath
	ok(t, box, "mkdir -p in/deep && ln -sfn in inlink && ln -sfn /etc out && touch file && mkdir -p closed && chmod 0 closed")
	t.Cleanup(func() { ok(t, box, "chmod 755 closed; rm -rf in inlink out file closed") })
	for dir, want := range map[string]string{"": ws, "in/deep": ws + "/in/deep", ".": ws, "inlink": ws + "/in"} {
		r := run(t, box, sandbox.Command{Argv: []string{"pwd", "-P"}, Dir: dir})
		require.Equal(t, want+"\n", r.Out, "%q", dir)
	}
	for _, dir := range []string{"missing", "file", "out", "..", "../etc", "in/../../etc", "/etc", "closed", "in\x00", strings.Repeat("x", 300)} {
		_, err := box.Start(t.Context(), sandbox.Command{Argv: []string{"pwd"}, Dir: dir})
		require.Contains(t, []sandbox.Kind{sandbox.KindBadDir, sandbox.KindPathEscapes}, sandbox.KindOf(err), "%q: %v", dir, err)
	}
}

func cannotStart(t *testing.T, box sandbox.Box) {
	ok(t, box, "printf '#!/nonexistent\n' >badshebang; echo text >plain; chmod 755 badshebang; mkdir -p adir")
	t.Cleanup(func() { ok(t, box, "rm -rf badshebang plain adir") })
	for argv0, want := range map[string][]sandbox.Kind{
		"no-such-command-here": {sandbox.KindCommandNotFound},
		"./no-such-file":       {sandbox.KindCommandNotFound},
		"./plain":              {sandbox.KindCommandNotExecutable},
		"./adir":               {sandbox.KindCommandNotExecutable},
		"./badshebang":         {sandbox.KindCommandNotFound, sandbox.KindCommandNotExecutable},
		"":                     {sandbox.KindInvalid, sandbox.KindCommandNotFound},
		"a\x00b":               {sandbox.KindInvalid, sandbox.KindCommandNotFound},
	} {
		_, err := box.Start(t.Context(), sandbox.Command{Argv: []string{argv0}})
		require.Contains(t, want, sandbox.KindOf(err), "%q: %v", argv0, err)
	}
	_, err := box.Start(t.Context(), sandbox.Command{})
	requireKind(t, sandbox.KindInvalid, err, "no argv")
	require.Equal(t, "still", ok(t, box, "echo still"))
}

func cancelledStart(t *testing.T, box sandbox.Box) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := box.Start(ctx, sandbox.Command{Argv: []string{"touch", "ran"}})
	requireKind(t, sandbox.KindCancelled, err)
	// The control: the same command, not cancelled, leaves its mark.
	require.Equal(t, "gone", ok(t, box, "sleep 0.3; test -e ran || echo gone"))
	run(t, box, sandbox.Command{Argv: []string{"touch", "ran"}})
	require.Equal(t, "there", ok(t, box, "test -e ran && rm ran && echo there"))
}

// sideBySide starts commands that each wait for all others.
func sideBySide(t *testing.T, box sandbox.Box) {
	n := sandbox.DefaultLimits().Commands
	ok(t, box, "mkdir -p meet")
	t.Cleanup(func() { ok(t, box, "rm -rf meet") })
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			r := sh(t, box, `touch meet/$1; for i in $(seq 300); do [ "$(ls meet | wc -l)" -ge $2 ] && exit 0; sleep 0.05; done; exit 1`,
				fmt.Sprint(i), fmt.Sprint(n))
			if r.Code != 0 {
				t.Errorf("command %d did not meet the others: %s", i, r.Err)
			}
		})
	}
	group.Wait()
}

func signals(t *testing.T, box sandbox.Box) {
	out := newLines()
	p := start(t, box, sandbox.Command{
		Argv:   []string{"bash", "-c", "trap 'exit 9' INT; echo ready; while :; do sleep 0.05; done"},
		Stdout: out,
	})
	require.Equal(t, "ready\n", <-out.ch)
	requireKind(t, sandbox.KindInvalid, p.Signal(t.Context(), "SIGNONSENSE"))
	require.NoError(t, p.Signal(t.Context(), "SIGINT"))
	exit, err := wait(t, p)
	require.NoError(t, err)
	require.Equal(t, 9, exit.Code)
	require.Positive(t, p.PID())
}

func severalWait(t *testing.T, box sandbox.Box) {
	p := start(t, box, sandbox.Command{Argv: []string{"bash", "-c", "sleep 0.1; exit 3"}})
	var group sync.WaitGroup
	codes := make([]int, 3)
	for i := range codes {
		group.Go(func() {
			exit, err := p.Wait()
			if err == nil {
				codes[i] = exit.Code
			}
		})
	}
	group.Wait()
	require.Equal(t, []int{3, 3, 3}, codes)
}

func terminal(t *testing.T, box sandbox.Box) {
	r := run(t, box, sandbox.Command{
		Argv: []string{"bash", "-c", "test -t 0 && test -t 1 && stty size; echo err >&2"},
		TTY:  &sandbox.WindowSize{Rows: 33, Cols: 101},
	})
	require.Contains(t, r.Out, "33 101")
	require.Contains(t, r.Out, "err", "a terminal has one stream")
	r = sh(t, box, "test -t 1 || echo none")
	require.Equal(t, "none\n", r.Out, "the control: no terminal unless asked for")
}

func usage(t *testing.T, box sandbox.Box) {
	r := run(t, box, sandbox.Command{Argv: []string{"perl", "-e", `$x = "a" x (20<<20); 1 while times < 0.2`}})
	require.Zero(t, r.Code, r.Err)
	require.Greater(t, r.Usage.CPU.Seconds(), 0.1)
	require.GreaterOrEqual(t, r.Usage.Wall.Seconds(), 0.1)
	require.Greater(t, r.Usage.MaxRSSBytes, int64(20<<20))
}

func failingWriter(t *testing.T, box sandbox.Box) {
	r := run(t, box, sandbox.Command{Argv: []string{"bash", "-c", "for i in $(seq 20); do echo $i; sleep 0.01; done; exit 4"}, Stdout: refusing{}})
	require.Equal(t, 4, r.Code)
	require.True(t, slices.Contains([]string{"", "SIGPIPE"}, r.Signal))
}

type refusing struct{}

func (refusing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
