package shell_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/runtime/runtimetest"
	"github.com/sandboxd/sandboxd/tools/shell"
)

type args map[string]any

func newBench(t *testing.T) *runtimetest.Bench {
	t.Helper()
	return runtimetest.New(t, shell.Tools()...)
}

func runOK(t *testing.T, b *runtimetest.Bench, a args) shell.RunResult {
	t.Helper()
	r := b.Call("shell.run", a)
	require.Equal(t, runtime.Succeeded, r.Status, "%s %s", r.SafeMessage, r.StructuredOutput)
	return runtimetest.Output[shell.RunResult](t, r)
}

func TestArgvReachesTheProgramUntouched(t *testing.T) {
	b := newBench(t)
	res := runOK(t, b, args{"argv": []string{"printf", "%s|", "a b", "$HOME", "*", "it's", `a\b`, "", "é"}})
	require.Equal(t, `a b|$HOME|*|it's|a\b||é|`, res.Stdout)
	require.Equal(t, 0, *res.ExitCode)
	require.Nil(t, res.Signal)
}

func TestScriptIsRunByteForByte(t *testing.T) {
	b := newBench(t)
	text := "cat <<'EOF'\n$x `bt` it's \\\\n a\\\\b\nEOF\ntrue | { echo in; }\nbash <<'MY-MARK'\necho nested\nMY-MARK\nprintf '%s' 'a\r\nb' # x\n"
	res := runOK(t, b, args{"script": text})
	require.Equal(t, "$x `bt` it's \\\\n a\\\\b\nin\nnested\na\nb", strings.ReplaceAll(res.Stdout, "\r", ""))
}

func TestScriptThatBeginsWithADashIsNoOption(t *testing.T) {
	r := newBench(t).Call("shell.run", args{"script": "-x; echo after"})
	require.Equal(t, runtime.Succeeded, r.Status, r.SafeMessage)
	res := runtimetest.Output[shell.RunResult](t, r)
	require.Equal(t, "after\n", res.Stdout)
	require.Contains(t, res.Stderr, "-x: command not found")
}

func TestShellReadsNoStartFileOfTheImage(t *testing.T) {
	b := newBench(t)
	b.Write("benv", "echo BASHENV-RAN\n")
	b.Write(".bashrc", "echo BASHRC-RAN\n")
	home := map[string]string{"HOME": b.Dir}
	require.Equal(t, "[][]\n", runOK(t, b, args{"script": "echo \"[${BASH_ENV-unset}][${ENV-unset}]\"", "env": home}).Stdout)
	control := runOK(t, b, args{"script": "BASH_ENV=benv bash -c 'echo hi'"})
	require.Equal(t, "BASHENV-RAN\nhi\n", control.Stdout)
}

func TestEachCallStartsAfresh(t *testing.T) {
	b := newBench(t)
	b.Write("sub/file", "x")
	runOK(t, b, args{"script": "cd sub && export X=1"})
	require.Equal(t, "file\n:\n", strings.TrimPrefix(runOK(t, b, args{"script": "ls sub; echo $X:"}).Stdout, ""))
	require.Equal(t, "file\n2\n", runOK(t, b, args{"script": "ls; echo $X", "cwd": "sub", "env": map[string]string{"X": "2"}}).Stdout)
}

func TestMissingWorkingDirectoryIsRefused(t *testing.T) {
	b := newBench(t)
	b.Write("file.txt", "x")
	for _, cwd := range []string{"nope", "file.txt", "../..", "/etc"} {
		r := b.Call("shell.run", args{"argv": []string{"true"}, "cwd": cwd})
		require.Equal(t, runtime.InvalidArguments, r.Status, "%s: %s", cwd, r.SafeMessage)
		require.Equal(t, runtime.CodeCwdInvalid, r.ErrorCode, cwd)
	}
	runOK(t, b, args{"argv": []string{"true"}, "cwd": "."})
}

func TestStdinIsGivenAndThenEnds(t *testing.T) {
	b := newBench(t)
	require.Equal(t, "two\nlines", runOK(t, b, args{"argv": []string{"cat"}, "stdin": "two\nlines"}).Stdout)
	start := time.Now()
	require.Empty(t, runOK(t, b, args{"argv": []string{"cat"}}).Stdout)
	r := b.Call("shell.run", args{"script": "read x"})
	require.Equal(t, runtime.CodeProcessExitNonzero, r.ErrorCode)
	require.Less(t, time.Since(start), 10*time.Second)
}

func TestNonZeroExitIsAnOutcomeWithItsOutput(t *testing.T) {
	b := newBench(t)
	r := b.Call("shell.run", args{"script": "echo out; echo err >&2; exit 3"})
	require.Equal(t, runtime.Failed, r.Status)
	require.Equal(t, runtime.CodeProcessExitNonzero, r.ErrorCode)
	require.Equal(t, runtime.ClassOutcome, r.ErrorClass)
	res := runtimetest.Output[shell.RunResult](t, r)
	require.Equal(t, 3, *res.ExitCode)
	require.Equal(t, "out\n", res.Stdout)
	require.Equal(t, "err\n", res.Stderr)
	require.False(t, res.OOMKilled)

	r = b.Call("shell.run", args{"argv": []string{"grep", "x", "/dev/null"}})
	require.Equal(t, "no line matched", runtimetest.Output[shell.RunResult](t, r).ExitMeaning)
}

func TestSignalIsNamedAndExit137IsNotTakenForOne(t *testing.T) {
	b := newBench(t)
	r := b.Call("shell.run", args{"script": "kill -9 $$"})
	require.Equal(t, runtime.CodeProcessSignalled, r.ErrorCode, r.SafeMessage)
	res := runtimetest.Output[shell.RunResult](t, r)
	require.Nil(t, res.ExitCode)
	require.Equal(t, "SIGKILL", *res.Signal)

	r = b.Call("shell.run", args{"script": "exit 137"})
	require.Equal(t, runtime.CodeProcessExitNonzero, r.ErrorCode)
	res = runtimetest.Output[shell.RunResult](t, r)
	require.Equal(t, 137, *res.ExitCode)
	require.Nil(t, res.Signal)
	require.False(t, res.OOMKilled)
}

func TestProgramThatIsNotThereIsNotFound(t *testing.T) {
	b := newBench(t)
	b.Write("data", "no program")
	require.Equal(t, runtime.CodeCommandNotFound, b.Call("shell.run", args{"argv": []string{"no-such-program"}}).ErrorCode)
	require.Equal(t, runtime.CodeCommandNotExecutable, b.Call("shell.run", args{"argv": []string{"./data"}}).ErrorCode)
}

func TestTimeoutKeepsTheOutputSoFarAndEndsTheTree(t *testing.T) {
	b := newBench(t)
	start := time.Now()
	r := b.Call("shell.run", args{"script": "echo early; (sleep 3; echo late > late.txt) & wait", "timeoutMs": 500})
	require.Equal(t, runtime.TimedOut, r.Status)
	require.Equal(t, runtime.ReasonTimeout, r.Reason)
	require.Less(t, time.Since(start), 5*time.Second)
	res := runtimetest.Output[shell.RunResult](t, r)
	require.True(t, res.TimedOut)
	require.Equal(t, "early\n", res.Stdout)
	require.Positive(t, r.Usage.ProcessesKilled)
	time.Sleep(3500*time.Millisecond - time.Since(start))
	require.NoFileExists(t, filepath.Join(b.Dir, "late.txt"))
}

func TestCancelKeepsTheOutputSoFar(t *testing.T) {
	b := newBench(t)
	done := make(chan runtime.Call, 1)
	go func() {
		call, err := b.Kernel.Do(context.Background(), b.Proposal("shell.run", args{"script": "echo early; touch started; sleep 60"}))
		if err == nil {
			done <- call
		}
		close(done)
	}()
	require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(b.Dir, "started")); return err == nil }, 10*time.Second, 10*time.Millisecond)
	var callID string
	require.Eventually(t, func() bool {
		for _, e := range b.Events() {
			if e.Kind == runtime.CallStarted {
				callID = e.ToolCallID
			}
		}
		return callID != ""
	}, 10*time.Second, 10*time.Millisecond)
	_, err := b.Kernel.Cancel(context.Background(), b.Run.RunID, callID, runtime.ReasonUser, 100*time.Millisecond)
	require.NoError(t, err)
	call, ok := <-done
	require.True(t, ok)
	require.Equal(t, runtime.Cancelled, call.Result.Status)
	require.Equal(t, runtime.ReasonUser, call.Result.Reason)
	res := runtimetest.Output[shell.RunResult](t, *call.Result)
	require.False(t, res.TimedOut)
	require.Equal(t, "early\n", res.Stdout)
}

func TestChildrenLeftBehindAreEndedAndCounted(t *testing.T) {
	b := newBench(t)
	start := time.Now()
	r := b.Call("shell.run", args{"script": "sleep 300 & echo done"})
	require.Equal(t, runtime.Succeeded, r.Status, r.SafeMessage)
	require.Less(t, time.Since(start), 5*time.Second)
	res := runtimetest.Output[shell.RunResult](t, r)
	require.Equal(t, "done\n", res.Stdout)
	require.Equal(t, 1, res.LeftoverProcesses)
	require.Contains(t, r.SafeMessage, "left running")
}

func TestSecretsReachTheCommandAndNotTheAnswer(t *testing.T) {
	const secret = "s3cr3t-value-123456"
	b := runtimetest.NewRun(t, runtime.RunSpec{Secrets: map[string]string{"NPM_TOKEN": secret}}, shell.Tools()...)
	r := b.Call("shell.run", args{"script": "test \"$NPM_TOKEN\" = s3cr3t-value-'123456' && echo same; echo $NPM_TOKEN"})
	require.Equal(t, runtime.Succeeded, r.Status, r.SafeMessage)
	require.NotContains(t, string(r.StructuredOutput), secret)
	require.True(t, strings.HasPrefix(runtimetest.Output[shell.RunResult](t, r).Stdout, "same\n"))
	require.NotEmpty(t, r.Redactions)
}

func TestLongOutputIsCutHereAndWholeInAnArtifact(t *testing.T) {
	b := newBench(t)
	r := b.Call("shell.run", args{"script": "seq 1 100000; echo end"})
	require.Equal(t, runtime.Succeeded, r.Status, r.SafeMessage)
	require.True(t, r.Truncated)
	res := runtimetest.Output[shell.RunResult](t, r)
	require.Equal(t, int64(588895+4), res.StdoutBytes)
	require.Less(t, len(res.Stdout), 40_000)
	require.True(t, strings.HasPrefix(res.Stdout, "1\n2\n"))
	require.True(t, strings.HasSuffix(res.Stdout, "100000\nend\n"))
	require.Len(t, r.Artifacts, 1)
	require.Equal(t, "stdout", r.Artifacts[0].Name)
	require.Equal(t, res.StdoutBytes, r.Artifacts[0].Bytes)
}

func TestRemoteTargetWithoutNetworkIsDeniedAndNothingRuns(t *testing.T) {
	b := newBench(t)
	r := b.Call("shell.run", args{"script": "touch ran; curl -sS https://example.org"})
	require.Equal(t, runtime.Denied, r.Status)
	require.Equal(t, runtime.CodeNetworkNotAllowed, r.ErrorCode)
	require.NotContains(t, b.Kinds(r.ToolCallID), runtime.CallStarted)
	require.NoFileExists(t, filepath.Join(b.Dir, "ran"))

	r = b.Call("shell.run", args{"script": "touch ran; curl -sS -m 2 http://127.0.0.1:9/ || true"})
	require.Equal(t, runtime.Succeeded, r.Status, r.SafeMessage)
	require.FileExists(t, filepath.Join(b.Dir, "ran"))
}

func TestErrorSummaryNamesWhatFailed(t *testing.T) {
	b := newBench(t)
	b.Write("test_x.py", "import unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(1, 2)\n")
	r := b.Call("shell.run", args{"argv": []string{"python3", "-m", "unittest"}})
	require.Equal(t, runtime.CodeProcessExitNonzero, r.ErrorCode, r.SafeMessage)
	res := runtimetest.Output[shell.RunResult](t, r)
	require.Len(t, res.ErrorSummary, 1, "%s", res.Stderr)
	require.True(t, strings.HasSuffix(res.ErrorSummary[0].File, "test_x.py"))
	require.Equal(t, 4, res.ErrorSummary[0].Line)
	require.Equal(t, "test_a: AssertionError: 1 != 2", res.ErrorSummary[0].Message)
	require.Contains(t, r.SafeMessage, "1 != 2")
}

func TestAPoliteEndRunsNoFurtherLineOfTheScript(t *testing.T) {
	b := newBench(t)
	for range 8 {
		r := b.Call("shell.run", args{"script": "(sleep 60; echo next > next.txt) & (sleep 60; echo next > next.txt) & wait", "timeoutMs": 200})
		require.Equal(t, runtime.TimedOut, r.Status)
		require.Positive(t, r.Usage.ProcessesKilled, "control: there was something to end")
		require.NoFileExists(t, filepath.Join(b.Dir, "next.txt"))
	}
}
