package fs_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/runtime/runtimetest"
	"github.com/sandboxd/sandboxd/tools/fs"
)

// Whatever the pattern, the box's rg and the walk give the same answer.
func TestBothEnginesGiveTheSameAnswer(t *testing.T) {
	if _, err := exec.LookPath("rg"); err != nil {
		if os.Getenv("CI") == "true" || os.Getenv("SANDBOXD_TEST_REQUIRE") == "1" {
			t.Fatal("ripgrep is not installed: the engines cannot be compared")
		}
		t.Log("WARNING: ripgrep is not installed; the engines are not compared")
		return
	}
	rg, walk := runtimetest.New(t, fs.Tools()...), runtimetest.New(t, fs.WalkOnly())
	content := strings.Join([]string{
		"", "a", "ab", "aab b", "A_B 12", "é ü Ä", "x\ty", " trailing ", "a.b*c", "(a|b)", "[x-z]", "٣ 3", "ſ s K k", "\xff\xfe raw", "caf\xe9",
		"a\rb", "end", "日本語 text", "{1,2}", "\\back\\slash", "tab\tand space", "-dash", "\u00a0nbsp", "zz\u2028zz",
	}, "\n")
	for name, text := range map[string]string{"f": content, "crlf": strings.ReplaceAll(content, "\n", "\r\n"), "bom": "\xef\xbb\xbf" + content} {
		rg.Write(name, text)
		walk.Write(name, text)
	}
	piece := rapid.SampledFrom([]string{
		"a", "b", "é", ".", `\w`, `\W`, `\d`, `\D`, `\s`, `\S`, `\b`, `\B`, "^", "$", "[a-z]", "[^a-z]", "[^a]", `[\s\d]`, `\pL`, `\PL`, "k", "s", "(?i:K)", `\.`, `\x{e9}`,
		"[[:alpha:]]", "[[:^space:]]", `\t`, "ab", "-", "_", "(?:)", `\A`, `\z`, "日",
	})
	repeat := rapid.SampledFrom([]string{"", "", "", "*", "+", "?", "{2}", "{1,2}", "{2,}", "*?", "+?"})
	pattern := rapid.Custom(func(t *rapid.T) string {
		var b strings.Builder
		for range rapid.IntRange(1, 4).Draw(t, "pieces") {
			p := piece.Draw(t, "piece")
			if rapid.IntRange(0, 4).Draw(t, "or") == 0 {
				p = "(" + p + "|" + piece.Draw(t, "other") + ")"
			}
			b.WriteString(p + repeat.Draw(t, "repeat"))
		}
		return b.String()
	})
	rapid.Check(t, func(t *rapid.T) {
		in := args{
			"query": pattern.Draw(t, "pattern"), "regex": rapid.Bool().Draw(t, "regex"), "maxResults": 200,
			"caseSensitive": rapid.Bool().Draw(t, "case"), "contextLines": rapid.IntRange(0, 2).Draw(t, "context"),
		}
		ours, theirs := walk.Call("repo.search", in), rg.Call("repo.search", in)
		require.Equal(t, ours.ErrorCode, theirs.ErrorCode, "%s / %s", ours.SafeMessage, theirs.SafeMessage)
		if ours.Status != runtime.Succeeded {
			require.Equal(t, runtime.CodePatternInvalid, ours.ErrorCode)
			return
		}
		var mine, its fs.SearchOutput
		require.NoError(t, json.Unmarshal(ours.StructuredOutput, &mine))
		require.NoError(t, json.Unmarshal(theirs.StructuredOutput, &its))
		require.Equal(t, lines(mine), lines(its))
		require.Equal(t, string(ours.StructuredOutput), string(theirs.StructuredOutput))
	})
}
