package patch_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/tools/fs/patch"
)

// file draws a small file of few different lines, so that hunks meet look-alikes.
func file(words []string, ends []string) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		var b strings.Builder
		if utf8.ValidString(strings.Join(words, "")) && rapid.IntRange(0, 5).Draw(t, "bom") == 0 {
			b.WriteString("\xef\xbb\xbf")
		}
		n := rapid.IntRange(0, 14).Draw(t, "lines")
		for i := range n {
			b.WriteString(rapid.SampledFrom(words).Draw(t, "word"))
			if i < n-1 || rapid.Bool().Draw(t, "final newline") {
				b.WriteString(rapid.SampledFrom(ends).Draw(t, "end"))
			}
		}
		return b.String()
	})
}

// variant draws a file that shares lines with a.
func variant(a string, words, ends []string) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		lines := splitKeep(a)
		for range rapid.IntRange(0, 4).Draw(t, "edits") {
			at := rapid.IntRange(0, len(lines)).Draw(t, "at")
			fresh := rapid.SampledFrom(words).Draw(t, "word") + rapid.SampledFrom(ends).Draw(t, "end")
			switch {
			case at == len(lines) || rapid.Bool().Draw(t, "insert"):
				lines = append(lines[:at:at], append([]string{fresh}, lines[at:]...)...)
			case rapid.Bool().Draw(t, "delete"):
				lines = append(lines[:at:at], lines[at+1:]...)
			default:
				lines[at] = fresh
			}
		}
		for i := range lines {
			if i < len(lines)-1 && !strings.HasSuffix(lines[i], "\n") {
				lines[i] += "\n"
			}
		}
		out := strings.Join(lines, "")
		if rapid.IntRange(0, 3).Draw(t, "cut") == 0 {
			out = strings.TrimSuffix(out, "\n")
		}
		return out
	})
}

var (
	plainWords = []string{"a", "b", "}", "", "return nil", "\tdeep", "é ü", "-- x", "++ y", "@@ z", "\\ back", " "}
	latinWords = []string{"a", "caf\xe9", "\xfcber", "", "x\xa0y"}
	allEnds    = []string{"\n", "\n", "\r\n"}
)

// apply(diff(a, b), a) is b, whatever endings, mark, final newline.
func TestApplyingADiffGivesTheOtherFile(t *testing.T) {
	for name, words := range map[string][]string{"utf-8": plainWords, "latin-1": latinWords} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			a := file(words, allEnds).Draw(t, "a")
			b := variant(a, words, allEnds).Draw(t, "b")
			if a == b || name == "latin-1" && utf8.ValidString(a) != utf8.ValidString(b) {
				return // a patch is text: it cannot say how a file's first such byte is stored
			}
			diff := unified(a, b, rapid.IntRange(1, 3).Draw(t, "context"))
			p, err := patch.Parse(diff, patch.Options{})
			require.NoError(t, err, diff)
			r, err := p.Files[0].Apply([]byte(a))
			require.NoError(t, err, diff)
			require.Equal(t, b, string(r.Data), diff)
			require.Empty(t, p.Notes, diff)
		}))
	}
}

// With the same patch, wherever both apply it, git and the engine agree.
func TestGitAgreesWhereverBothApply(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Fatal("this oracle needs git; install it")
	}
	dir := t.TempDir()
	agreed := 0
	rapid.Check(t, func(t *rapid.T) {
		a := file(plainWords, []string{"\n"}).Draw(t, "a")
		b := variant(a, plainWords, []string{"\n"}).Draw(t, "b")
		other := variant(a, plainWords, []string{"\n"}).Draw(t, "other")
		if a == b || !terminated(a, b, other) {
			return // at a missing final newline git glues lines together
		}
		diff := unified(a, b, 3)
		theirs, gitErr := gitApply(dir, other, diff)
		p, err := patch.Parse(diff, patch.Options{})
		require.NoError(t, err, diff)
		r, err := p.Files[0].Apply([]byte(other))
		if gitErr == nil && err == nil {
			agreed++
			require.Equal(t, theirs, string(r.Data), diff)
		}
		if err != nil {
			_, ok := errors.AsType[*patch.MismatchError](err)
			require.True(t, ok, "%v", err)
		}
	})
	require.Positive(t, agreed, "the oracle was never asked")
}

func terminated(files ...string) bool {
	for _, f := range files {
		if !strings.HasSuffix(f, "\n") {
			return false
		}
	}
	return true
}

func gitApply(dir, src, diff string) (string, error) {
	target := filepath.Join(dir, "f")
	if err := os.WriteFile(target, []byte(src), 0o600); err != nil {
		return "", err
	}
	cmd := exec.Command("git", "apply", "--whitespace=nowarn", "-")
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(diff)
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir), "GIT_CONFIG_NOSYSTEM=1", "HOME="+dir)
	if err := cmd.Run(); err != nil {
		return "", err
	}
	out, err := os.ReadFile(target)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	return string(out), err
}

// Hostile patches and files: no panic, no change of the source, an error of
// the two known kinds or a result.
func FuzzParseAndApply(f *testing.F) {
	f.Add("a\nb\n", "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n")
	f.Add("a\r\n", "diff --git a/x b/y\nrename from x\nrename to y\n@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n")
	f.Add("", "```diff\n@@ -0,0 +1 @@\n+x\n```")
	f.Add("a\nb\nc\n", "*** Begin Patch\n*** Update File: f\n@@ a\n-b\n+B\n*** End of File\n*** End Patch")
	f.Add("x", "diff --git \"a/\\303\\244\" \"b/\\303\\244\"\nold mode 100644\nnew mode 100755\n")
	f.Add("\xff\xfea\x00", "@@ @@\n-a\n+b\n")
	f.Fuzz(func(t *testing.T, src, diff string) {
		for _, path := range []string{"", "f"} {
			p, err := patch.Parse(diff, patch.Options{Path: path})
			if err != nil {
				if _, ok := errors.AsType[*patch.SyntaxError](err); !ok {
					t.Fatalf("parse: %T %v", err, err)
				}
				continue
			}
			for _, file := range p.Files {
				before := []byte(src)
				given := bytes.Clone(before)
				_, err := file.Apply(given)
				if !bytes.Equal(given, before) {
					t.Fatal("the source was changed")
				}
				if err == nil {
					continue
				}
				if _, ok := errors.AsType[*patch.MismatchError](err); !ok {
					t.Fatalf("apply: %T %v", err, err)
				}
			}
		}
	})
}
