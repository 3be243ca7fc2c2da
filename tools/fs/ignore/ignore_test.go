package ignore_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/tools/fs/ignore"
)

func TestPatternsMeanWhatTheManualSays(t *testing.T) {
	for _, c := range []struct {
		file         string
		ignored, not []string // a slash at the end is a directory
	}{
		{"*.log\n", []string{"a.log", "d/b.log", "x.log/"}, []string{"a.logs", "log"}},
		{"/only\n", []string{"only"}, []string{"d/only"}},
		{"dir/\n", []string{"dir/", "dir/x", "a/dir/x"}, []string{"dir"}},
		{"a/b\n", []string{"a/b", "a/b/c"}, []string{"x/a/b"}},
		{"a/**\n", []string{"a/x", "a/x/y"}, []string{"a/"}},
		{"a/**/b\n", []string{"a/b", "a/x/b", "a/x/y/b"}, []string{"b"}},
		{"**/b/c\n", []string{"b/c", "x/b/c"}, []string{"c"}},
		{"*\n!keep\n!*/\n", []string{"x", "d/x"}, []string{"keep", "d/", "d/keep"}},
		{"d\n!d/keep\n", []string{"d/keep"}, nil},
		{"# no\n\\#yes\n\\!yes\n", []string{"#yes", "!yes"}, []string{"# no"}},
		{"trail   \nkept\\ \n", []string{"trail", "kept "}, []string{"kept"}},
		{"[!a]x\n", []string{"bx"}, []string{"ax"}},
		{"{a,b}\n", []string{"{a,b}"}, []string{"a", "b"}},
		{"crlf\r\n", []string{"crlf"}, nil},
		{"/*\n!/src/\n", []string{"x", "d/y"}, []string{"src/", "src/y"}},
	} {
		var r ignore.Rules
		r.Add("", []byte(c.file))
		for _, p := range c.ignored {
			require.True(t, r.Ignored(strings.TrimSuffix(p, "/"), strings.HasSuffix(p, "/")), "%q on %q", c.file, p)
		}
		for _, p := range c.not {
			require.False(t, r.Ignored(strings.TrimSuffix(p, "/"), strings.HasSuffix(p, "/")), "%q on %q", c.file, p)
		}
	}
}

func TestADeeperFileWins(t *testing.T) {
	var r ignore.Rules
	r.Add("", []byte("*.txt\n"))
	r.Add("d", []byte("!a.txt\n/b\n"))
	require.True(t, r.Ignored("a.txt", false))
	require.False(t, r.Ignored("d/a.txt", false))
	require.True(t, r.Ignored("d/b", false))
	require.False(t, r.Ignored("b", false))
	require.False(t, r.Ignored("d/e/b", false))
}

// git is asked the same of every path of a drawn tree.
func TestGitAgrees(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, run(dir, nil, "git", "init", "-q"))
	names := []string{"a", "b", "x.log", "y.log", ".h", "d"}
	piece := rapid.SampledFrom([]string{"a", "b", "*", "*.log", "**", "d", "?", "[ab]", ".h", "x*"})
	line := rapid.Custom(func(t *rapid.T) string {
		s := strings.Join(rapid.SliceOfN(piece, 1, 3).Draw(t, "pieces"), "/")
		if rapid.IntRange(0, 3).Draw(t, "anchor") == 0 {
			s = "/" + s
		}
		if rapid.IntRange(0, 3).Draw(t, "dir") == 0 {
			s += "/"
		}
		if rapid.IntRange(0, 3).Draw(t, "negate") == 0 {
			s = "!" + s
		}
		return s
	})
	var paths, plain []string
	for _, a := range names[:4] {
		paths = append(paths, "f"+a, a+".d/")
		for _, b := range names {
			paths = append(paths, a+"/"+b+"/")
			for _, c := range names {
				paths = append(paths, a+"/"+b+"/"+c)
			}
		}
	}
	for _, p := range paths {
		full := filepath.Join(dir, p)
		if strings.HasSuffix(p, "/") {
			require.NoError(t, os.MkdirAll(full, 0o755))
			continue
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
		require.NoError(t, os.WriteFile(full, nil, 0o600))
	}
	for _, p := range paths {
		plain = append(plain, strings.TrimSuffix(p, "/")) // with the slash git takes the name for what is in it
	}
	rapid.Check(t, func(t *rapid.T) {
		var r ignore.Rules
		for _, at := range []string{"", "a"} {
			content := strings.Join(rapid.SliceOfN(line, 0, 4).Draw(t, "lines"), "\n")
			r.Add(at, []byte(content))
			require.NoError(t, os.WriteFile(filepath.Join(dir, at, ignore.FileName), []byte(content), 0o600))
		}
		var out bytes.Buffer
		_ = run(dir, &out, "git", append([]string{"check-ignore", "--no-index", "--"}, plain...)...)
		theirs := map[string]bool{}
		for p := range strings.SplitSeq(out.String(), "\n") {
			theirs[p] = true
		}
		for _, p := range paths {
			require.Equal(t, theirs[strings.TrimSuffix(p, "/")], r.Ignored(strings.TrimSuffix(p, "/"), strings.HasSuffix(p, "/")), p)
		}
	})
}

func run(dir string, out *bytes.Buffer, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "GIT_CONFIG_NOSYSTEM=1")
	if out != nil {
		cmd.Stdout = out
	}
	return cmd.Run()
}
