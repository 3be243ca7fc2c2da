package shell_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/runtime/runtimetest"
	"github.com/sandboxd/sandboxd/tools/shell"
)

// end is what came of a command.
type end struct {
	runtime.Result
	shell.RunResult
}

// run makes a call whose answer must keep its contract.
func run(t testing.TB, b *runtimetest.Bench, a args) end {
	t.Helper()
	r := b.Call("shell.run", a)
	require.NotEqual(t, runtime.CodeResultContract, r.ErrorCode, r.SafeMessage)
	require.NotEqual(t, runtime.CodeInternal, r.ErrorCode, r.SafeMessage)
	require.NotContains(t, r.SafeMessage, b.Dir, "no host path")
	e := end{Result: r}
	if r.StructuredOutput != nil {
		e.RunResult = runtimetest.Output[shell.RunResult](t, r)
	}
	return e
}

// sh runs a script that must succeed and returns what it printed.
func sh(t testing.TB, b *runtimetest.Bench, text string) string {
	t.Helper()
	e := run(t, b, args{"script": text})
	require.Equal(t, runtime.Succeeded, e.Status, e.SafeMessage)
	return e.Stdout
}

func TestACommandsEndIsToldAsItWas(t *testing.T) {
	b := newBench(t)
	for name, c := range map[string]struct {
		args    args
		status  runtime.Status
		code    runtime.Code
		exit    int
		signal  string
		meaning string
	}{
		"success":            {args{"argv": []string{"true"}}, runtime.Succeeded, "", 0, "", ""},
		"failure":            {args{"script": "exit 7"}, runtime.Failed, runtime.CodeProcessExitNonzero, 7, "", ""},
		"highest code":       {args{"script": "exit 255"}, runtime.Failed, runtime.CodeProcessExitNonzero, 255, "", ""},
		"no match":           {args{"argv": []string{"grep", "x", "/dev/null"}}, runtime.Failed, runtime.CodeProcessExitNonzero, 1, "", "no line matched"},
		"inputs differ":      {args{"script": "echo a >a; echo b >b; diff a b"}, runtime.Failed, runtime.CodeProcessExitNonzero, 1, "", ""},
		"killed":             {args{"script": "kill -KILL $$"}, runtime.Failed, runtime.CodeProcessSignalled, -1, "SIGKILL", ""},
		"ended by SIGTERM":   {args{"script": "kill -TERM $$"}, runtime.Failed, runtime.CodeProcessSignalled, -1, "SIGTERM", ""},
		"ended by SIGSEGV":   {args{"script": "kill -SEGV $$"}, runtime.Failed, runtime.CodeProcessSignalled, -1, "SIGSEGV", ""},
		"child was killed":   {args{"script": "bash -c 'kill -KILL $$'; exit $?"}, runtime.Failed, runtime.CodeProcessExitNonzero, 137, "", "128+9, as shells report a program that SIGKILL ended"},
		"unknown in script":  {args{"script": "no-such-program"}, runtime.Failed, runtime.CodeProcessExitNonzero, 127, "", "a program was not found"},
		"error in script":    {args{"script": "echo before\nfi\necho after"}, runtime.Failed, runtime.CodeProcessExitNonzero, 2, "", ""},
		"last command rules": {args{"script": "false; true"}, runtime.Succeeded, "", 0, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := run(t, b, c.args)
			require.Equal(t, c.status, e.Status, e.SafeMessage)
			require.Equal(t, c.code, e.ErrorCode)
			require.Equal(t, c.meaning, e.ExitMeaning)
			if c.signal != "" {
				require.Nil(t, e.ExitCode)
				require.Equal(t, c.signal, *e.Signal)
				require.Contains(t, e.SafeMessage, c.signal)
				return
			}
			require.Nil(t, e.Signal)
			require.Equal(t, c.exit, *e.ExitCode)
			if c.exit != 0 {
				require.Contains(t, e.SafeMessage, strconv.Itoa(c.exit))
			}
		})
	}
}

func TestTheAnswerHasEveryPromisedField(t *testing.T) {
	var fields map[string]any
	require.NoError(t, json.Unmarshal(run(t, newBench(t), args{"argv": []string{"true"}}).StructuredOutput, &fields))
	for _, name := range []string{"exitCode", "signal", "stdout", "stderr", "timedOut", "background", "leftoverProcesses", "oomKilled"} {
		require.Contains(t, fields, name)
	}
	require.Nil(t, fields["signal"])
}

func TestTheEnvironmentOfACallAddsToTheBoxs(t *testing.T) {
	b := newBench(t)
	e := run(t, b, args{"script": "echo \"$A|$TERM|$PAGER|${PATH:+path}\"", "env": args{"A": "a b=c", "PAGER": "less"}})
	require.Equal(t, "a b=c|dumb|less|path\n", e.Stdout)
	for name, value := range map[string]string{"LD_PRELOAD": "x", "BASH_ENV": "x", "ENV": "x", "1A": "x", "A-B": "x", "": "x", "PATH": "", "A": "\x00"} {
		require.Equal(t, runtime.CodeSchemaViolation, run(t, b, args{"argv": []string{"true"}, "env": args{name: value}}).ErrorCode, "%q", name)
	}
}

func TestSecretsReachTheCommandAndAreTakenOutOfWhatIsShown(t *testing.T) {
	const value = "a-secret-value-of-the-run"
	b := runtimetest.NewRun(t, runtime.RunSpec{Secrets: map[string]string{"TOKEN": value}}, shell.Tools()...)
	require.Equal(t, strconv.Itoa(len(value))+"\n", sh(t, b, "echo ${#TOKEN}"), "control: the command has it")
	e := run(t, b, args{"script": "echo \"$TOKEN\"; echo \"$TOKEN\" >&2; exit 1"})
	require.NotContains(t, string(e.StructuredOutput)+e.SafeMessage, value)
	require.NotEmpty(t, e.Redactions)
	for _, event := range b.Events() {
		raw, err := json.Marshal(event)
		require.NoError(t, err)
		require.NotContains(t, string(raw), value)
	}
	require.Equal(t, "mine\n", run(t, b, args{"script": "echo $OTHER", "env": args{"OTHER": "mine"}}).Stdout)
}

func TestAScriptThatEndsTooEarlyIsNotRun(t *testing.T) {
	b := newBench(t)
	for _, text := range []string{"touch made; echo 'open", "touch made\nif true; then", "touch made\nfor x in 1; do echo"} {
		e := run(t, b, args{"script": text})
		require.Equal(t, runtime.CodeCommandInvalid, e.ErrorCode)
		require.NoFileExists(t, filepath.Join(b.Dir, "made"))
	}
	for _, a := range []args{{}, {"argv": []string{"true"}, "script": "true"}, {"argv": []string{""}}, {"script": "  "}, {"argv": []string{"a\x00"}}} {
		require.Equal(t, runtime.InvalidArguments, run(t, b, a).Status, "%v", a)
	}
}

func TestACancelEndsTheWholeTreeAndKeepsWhatCameBefore(t *testing.T) {
	b := newBench(t)
	ctx := context.Background()
	call, err := b.Kernel.Submit(ctx, b.Proposal("shell.run", args{
		"script": "trap '' TERM\nsetsid sleep 601 & echo $! >pids\n(trap '' TERM; sleep 602) & echo $! >>pids\necho ready; echo $$ >>pids; mv pids done; while :; do sleep 1; done",
	}))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(b.Dir, "done"))
		return err == nil
	}, 20*time.Second, 10*time.Millisecond)
	_, err = b.Kernel.Cancel(ctx, b.Run.RunID, call.ToolCallID, runtime.ReasonUser, 100*time.Millisecond)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		call, err = b.Kernel.Call(ctx, b.Run.RunID, call.ToolCallID)
		return err == nil && call.Result != nil
	}, 20*time.Second, 10*time.Millisecond)
	r := *call.Result
	require.Equal(t, runtime.Cancelled, r.Status)
	require.Equal(t, runtime.ReasonUser, r.Reason)
	out := runtimetest.Output[shell.RunResult](t, r)
	require.Equal(t, "ready\n", out.Stdout)
	require.False(t, out.TimedOut)
	require.NotEmpty(t, out.KillStep)
	require.GreaterOrEqual(t, r.Usage.ProcessesKilled, 3)
	for pid := range strings.FieldsSeq(b.Read("done")) {
		require.False(t, lives(pid), "process %s is left", pid)
	}
}

// lives tells whether a process runs; one that is dead and not yet waited for
// does not (proc_pid_stat(5)).
func lives(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	_, state, _ := strings.Cut(string(stat), ") ")
	return err == nil && !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

func TestProcessesLeftBehindAreEndedAndCounted(t *testing.T) {
	b := newBench(t)
	begin := time.Now()
	e := run(t, b, args{"script": "sleep 600 >/dev/null 2>&1 </dev/null & echo $! >pid; setsid sleep 600 & echo $! >>pid; echo done"})
	require.Less(t, time.Since(begin), 20*time.Second, "a held pipe does not hold the call")
	require.Equal(t, runtime.Succeeded, e.Status, e.SafeMessage)
	require.Equal(t, "done\n", e.Stdout)
	require.Equal(t, 2, e.LeftoverProcesses)
	require.Contains(t, e.SafeMessage, "2 processes")
	for pid := range strings.FieldsSeq(b.Read("pid")) {
		require.False(t, lives(pid), "process %s is left", pid)
	}
	require.Zero(t, run(t, b, args{"script": "sleep 0.05 & wait"}).LeftoverProcesses, "control: what was waited for is not left behind")
}

func TestHugeOutputIsCutInTheMiddleAndWholeAsArtifact(t *testing.T) {
	b := newBench(t)
	e := run(t, b, args{"script": "seq 1 400000; echo small >&2"})
	require.Equal(t, runtime.Succeeded, e.Status, e.SafeMessage)
	require.True(t, e.Truncated)
	require.Less(t, len(e.Stdout), 40_000)
	require.True(t, strings.HasPrefix(e.Stdout, "1\n2\n3\n"))
	require.True(t, strings.HasSuffix(e.Stdout, "399999\n400000\n"))
	require.Equal(t, "small\n", e.Stderr)
	require.Len(t, e.Artifacts, 1)
	ref := e.Artifacts[0]
	require.Equal(t, "stdout", ref.Name)
	require.Contains(t, e.Stdout, ref.ID)
	require.Equal(t, ref.Bytes, e.StdoutBytes)
	content, _, err := b.Kernel.OpenArtifact(context.Background(), ref.ID, "redacted")
	require.NoError(t, err)
	defer content.Close()
	raw, err := io.ReadAll(content)
	require.NoError(t, err)
	require.Len(t, strings.Fields(string(raw)), 400_000)
	require.EqualValues(t, len(raw), ref.Bytes)
}

func TestBinaryOutputIsDescribedAndKept(t *testing.T) {
	e := run(t, newBench(t), args{"script": "printf '\\177ELF\\002\\001\\001\\000\\000\\000'; head -c 300 /dev/zero"})
	require.Equal(t, runtime.Succeeded, e.Status, e.SafeMessage)
	require.Contains(t, e.Stdout, "binary output")
	require.Contains(t, e.Stdout, "310 bytes")
	require.Len(t, e.Artifacts, 1)
	require.True(t, e.Truncated)
}

func TestOutputIsShownAsPlainText(t *testing.T) {
	b := newBench(t)
	for in, want := range map[string]string{
		`\033[31mred\033[0m\n`:        "red\n",
		`\033]0;title\033\\text\n`:    "text\n",
		`caf\351\n`:                   "caf\uFFFD\n",
		`\033]52;c;c2VjcmV0\033\\x\n`: "x\n",
		`h\303\251llo \342\202\254\n`: "héllo €\n",
		`abc\342\200\256dcba\n`:       "abcdcba\n",
	} {
		require.Equal(t, want, run(t, b, args{"argv": []string{"printf", in}}).Stdout, "%s", in)
	}
	require.NotContains(t, run(t, b, args{"argv": []string{"printf", `one\r\ntwo\r\n`}}).Stdout, "\r\r")
}

func TestALimitOfTheBoxIsRecognisedInAFailure(t *testing.T) {
	e := run(t, newBench(t), args{"script": "echo 'touch: cannot touch x: Read-only file system' >&2; exit 1"})
	require.Contains(t, e.Restriction, "read-only")
	require.Contains(t, e.SafeMessage, "read-only")
}

func TestCommandsAreWeighedForTheRecord(t *testing.T) {
	b := newBench(t)
	require.Equal(t, runtime.EffectNone, run(t, b, args{"argv": []string{"ls"}}).Effect)
	require.Equal(t, runtime.EffectApplied, run(t, b, args{"argv": []string{"touch", "x"}}).Effect)
	require.Equal(t, runtime.EffectApplied, run(t, b, args{"script": "exit 1"}).Effect)
}

func TestInputOfAnySizeReachesTheCommandOrIsLeft(t *testing.T) {
	b, big := newBench(t), strings.Repeat("0123456789", 90_000)
	require.Equal(t, "900000\n", run(t, b, args{"argv": []string{"wc", "-c"}, "stdin": big}).Stdout)
	require.Equal(t, runtime.Succeeded, run(t, b, args{"argv": []string{"true"}, "stdin": big}).Status)
}

func TestALinkOutOfTheWorkspaceIsNoWorkingDirectory(t *testing.T) {
	b := newBench(t)
	require.NoError(t, os.Mkdir(filepath.Join(b.Dir, "inside"), 0o755))
	require.NoError(t, os.Symlink("/etc", filepath.Join(b.Dir, "out")))
	e := run(t, b, args{"argv": []string{"ls"}, "cwd": "out"})
	require.NotEqual(t, runtime.Succeeded, e.Status)
	require.Empty(t, e.Stdout)
	require.Equal(t, runtime.Succeeded, run(t, b, args{"argv": []string{"ls"}, "cwd": "inside"}).Status, "control")
}
