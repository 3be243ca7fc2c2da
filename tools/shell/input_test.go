package shell_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/tools/shell"
)

func TestInputThatNoBoxCouldRunIsRefused(t *testing.T) {
	both := argv("true")
	both.Script = script("true").Script
	with := func(change func(*shell.RunInput)) shell.RunInput {
		in := argv("true")
		change(&in)
		return in
	}
	for name, tc := range map[string]struct {
		in   shell.RunInput
		want runtime.Code
	}{
		"nothing":          {shell.RunInput{}, runtime.CodeCommandInvalid},
		"both":             {both, runtime.CodeCommandInvalid},
		"empty program":    {argv("", "x"), runtime.CodeCommandInvalid},
		"NUL in argv":      {argv("echo", "a\x00b"), runtime.CodeCommandInvalid},
		"long argument":    {argv("echo", strings.Repeat("x", 128<<10)), runtime.CodeCommandInvalid},
		"blank script":     {script(" \n\t"), runtime.CodeCommandInvalid},
		"NUL in script":    {script("echo \x00"), runtime.CodeCommandInvalid},
		"long script":      {script(strings.Repeat("é", 100<<10)), runtime.CodeCommandInvalid},
		"open quote":       {script("echo a\necho 'b"), runtime.CodeCommandInvalid},
		"no fi":            {script("if true; then echo a"), runtime.CodeCommandInvalid},
		"absolute cwd":     {with(func(in *shell.RunInput) { in.Cwd = "/etc" }), runtime.CodeCwdInvalid},
		"cwd upwards":      {with(func(in *shell.RunInput) { in.Cwd = "a/../.." }), runtime.CodeCwdInvalid},
		"LD_PRELOAD":       {with(func(in *shell.RunInput) { in.Env = map[string]string{"LD_PRELOAD": "/x.so"} }), runtime.CodeSchemaViolation},
		"empty PATH":       {with(func(in *shell.RunInput) { in.Env = map[string]string{"PATH": ""} }), runtime.CodeSchemaViolation},
		"name with equals": {with(func(in *shell.RunInput) { in.Env = map[string]string{"A=B": "1"} }), runtime.CodeSchemaViolation},
		"name with break":  {with(func(in *shell.RunInput) { in.Env = map[string]string{"X\n": "1"} }), runtime.CodeSchemaViolation},
		"NUL in value":     {with(func(in *shell.RunInput) { in.Env = map[string]string{"X": "a\x00"} }), runtime.CodeSchemaViolation},
	} {
		t.Run(name, func(t *testing.T) {
			fault := shell.Check(tc.in)
			require.NotNil(t, fault)
			require.Equal(t, tc.want, fault.Code)
			require.NotEmpty(t, fault.Message)
		})
	}
}

func TestScriptsThatAShellTakesAreNotRefused(t *testing.T) {
	for _, text := range []string{
		"echo hi", "true | { echo in; }", "cat <<'EOF'\n$x it's `bt`\nEOF\n", "cat <<EOF\nno end", "echo a # it's",
		"exit 0\nthis 'is never read", "echo \"$(date)\" '\"'", "[[ a =~ ^(b|c)$ ]] || true", "echo $((1+2))", "case a in (a) echo;; esac",
		"diff <(echo a) <(echo b)", "a=(1 2 3); echo ${a[@]}", "echo a\r\necho b\r\n", "time true", "shopt -s extglob\nls !(a)", "fi", "echo )",
		"f() { echo; }; f", "echo 'a'\\''b'", "coproc cat", "-n", "((i++))", "(( (1) ))", "$( (echo a) )", "for ((;;)); do break; done",
		strings.Repeat("echo 'x\n", 4000),
	} {
		require.Nil(t, shell.Check(script(text)), "%q", text)
	}
	in := argv("printenv", "A_1")
	in.Env, in.Cwd = map[string]string{"A_1": "x", "LD_LIBRARY_PATH": "lib", "PATH": "/usr/bin"}, "a/b..c"
	require.Nil(t, shell.Check(in))
}

func TestMeaningIsReadOnlyOnlyForKnownReaders(t *testing.T) {
	for _, in := range []shell.RunInput{argv("ls", "-la"), argv("cat", "f"), argv("grep", "x", "f"), argv("git", "rev-parse", "HEAD")} {
		require.True(t, shell.Weigh(in).ReadOnly, "%v", in.Argv)
	}
	for _, in := range []shell.RunInput{
		argv("./ls"), argv("/workspace/cat"), argv("find", ".", "-delete"), argv("sort", "-o", "f"), argv("git", "status"), argv("git"),
		argv("env", "ls"), argv("tee", "f"), script("ls"),
	} {
		require.False(t, shell.Weigh(in).ReadOnly, "%v", in.Argv)
	}
}

func TestPlainDestructionIsWeighedAsSuch(t *testing.T) {
	for _, in := range []shell.RunInput{
		argv("rm", "-rf", "."), script("cd a && git reset --hard HEAD~1"), argv("git", "-C", "x", "clean", "-fdx"), script("find . -name '*.o' -delete"),
		argv("bash", "-c", "git push --force"), argv("dd", "if=/dev/zero", "of=f"), argv("env", "A=1", "rm", "-r", "x"),
	} {
		require.True(t, shell.Weigh(in).Destructive, "%v", in)
	}
	for _, in := range []shell.RunInput{argv("go", "test", "./..."), argv("rm", "file"), argv("git", "push"), script("echo rm -rf /"), argv("git", "reset", "f")} {
		require.False(t, shell.Weigh(in).Destructive, "%v", in)
	}
}

func TestSchemasBoundEveryString(t *testing.T) {
	raw, err := os.ReadFile("run.json")
	require.NoError(t, err)
	var doc any
	require.NoError(t, json.Unmarshal(raw, &doc))
	var walk func(at string, node any)
	walk = func(at string, node any) {
		m, ok := node.(map[string]any)
		if !ok {
			return
		}
		switch m["type"] {
		case "object":
			require.Contains(t, m, "additionalProperties", at)
		case "string":
			require.True(t, m["maxLength"] != nil || m["enum"] != nil, at)
		case "array":
			require.Contains(t, m, "maxItems", at)
		case "integer":
			require.Contains(t, m, "maximum", at)
		}
		for k, v := range m {
			walk(at+"/"+k, v)
		}
	}
	walk("", doc)
}
