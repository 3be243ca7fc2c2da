package fs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/runtime/runtimetest"
	"github.com/sandboxd/sandboxd/tools/fs"
)

func TestPatternsChoosePaths(t *testing.T) {
	b := bench(t)
	for _, p := range []string{"main.go", "a/x.go", "a/b/y.go", "a/t.txt", "b/t.txt", "c/t.txt", "x[1].txt", ".env", ".github/w.yml", "UP.GO"} {
		b.Write(p, "x")
	}
	require.NoError(t, os.Symlink(".", filepath.Join(b.Dir, "self")))
	require.NoError(t, os.Symlink("/etc", filepath.Join(b.Dir, "e")))
	for pattern, want := range map[string][]string{
		"**/*.go":       {"a/b/y.go", "a/x.go", "main.go"},
		"*.go":          {"a/b/y.go", "a/x.go", "main.go"},
		"/*.go":         {"main.go"},
		"a/**/y.go":     {"a/b/y.go"},
		"a/**/x.go":     {"a/x.go"},
		"{a,b}/*.txt":   {"a/t.txt", "b/t.txt"},
		"[!a]/t.txt":    {"b/t.txt", "c/t.txt"},
		".*":            {".env", ".github"},
		".github/**":    {".github", ".github/w.yml"},
		`x\[1\].txt`:    {"x[1].txt"},
		"x[1].txt":      nil,
		"*.GO":          {"UP.GO"},
		"e/**":          {"e"},
		"a?x.go":        nil,
		"self/**/*.go":  nil,
		"a.*":           nil,
		"**/*.{yml,go}": {"a/b/y.go", "a/x.go", "main.go"},
	} {
		out := good[fs.GlobOutput](t, b, "repo.glob", args{"pattern": pattern})
		var got []string
		for _, e := range out.Entries {
			got = append(got, e.Path)
		}
		require.Equal(t, want, got, pattern)
	}
	for _, pattern := range []string{"[", "{a", "a\\", "/"} {
		bad(t, b, runtime.CodePatternInvalid, "repo.glob", args{"pattern": pattern})
	}
}

// Every combination of braces is tried when matching: 2^60 of them would hold
// a core for good.
func TestAHostileGlobIsRefusedAtOnce(t *testing.T) {
	b := bench(t)
	b.Write(strings.Repeat("a", 60), "x")
	begun := time.Now()
	hostile := strings.Repeat("{a,a}", 60) + "b"
	bad(t, b, runtime.CodePatternInvalid, "repo.glob", args{"pattern": hostile})
	bad(t, b, runtime.CodePatternInvalid, "repo.search", args{"query": "x", "pathGlobs": []string{"!" + hostile}})
	good[fs.GlobOutput](t, b, "repo.glob", args{"pattern": strings.Repeat("**/*a", 150)})
	require.Less(t, time.Since(begun), 5*time.Second)
	require.Equal(t, 1, good[fs.GlobOutput](t, b, "repo.glob", args{"pattern": strings.Repeat("{a,b}", 7) + "*"}).Total)
}

func TestWhatIsLeftOutIsCounted(t *testing.T) {
	b := bench(t)
	b.Write(".gitignore", "node_modules/\n*.gen.ts\n")
	for _, p := range []string{"src/a.ts", "src/b.gen.ts", "node_modules/x/i.ts", ".cache/c.ts", ".git/d.ts"} {
		b.Write(p, "x")
	}
	out := good[fs.GlobOutput](t, b, "repo.glob", args{"pattern": "**/*.ts"})
	require.Len(t, out.Entries, 1)
	require.Equal(t, 1, out.Hidden)
	require.Equal(t, 2, out.Ignored)
	all := good[fs.GlobOutput](t, b, "repo.glob", args{"pattern": "**/*.ts", "includeHidden": true, "includeIgnored": true, "limit": 2})
	require.Equal(t, 4, all.Total, "never .git")
	require.True(t, all.Truncated)
	require.Equal(t, all, good[fs.GlobOutput](t, b, "repo.glob", args{"pattern": "**/*.ts", "includeHidden": true, "includeIgnored": true, "limit": 2}))
}

// What the run may not read is in no listing, glob or search, nor in a count.
func TestPathsOutsideTheReadScopeNeverAppear(t *testing.T) {
	b := runtimetest.NewRun(t, runtime.RunSpec{Permissions: runtime.Permissions{
		Paths: runtime.AllowDeny{Deny: []string{"**/.env", "secret/**"}},
	}}, fs.Tools()...)
	for _, p := range []string{"open/a", "open/.env", "secret/b", ".env"} {
		b.Write(p, "needle\n")
	}
	list := good[fs.ListOutput](t, b, "file.list", args{"depth": 5})
	glob := good[fs.GlobOutput](t, b, "repo.glob", args{"pattern": "**", "includeHidden": true})
	for _, entries := range [][]fs.Entry{list.Entries, glob.Entries} {
		var got []string
		for _, e := range entries {
			got = append(got, e.Path)
		}
		require.Equal(t, []string{"open", "open/a"}, got)
	}
	require.Equal(t, 2, list.Total)
	require.Equal(t, 2, glob.Total)
	bad(t, b, runtime.CodeReadScopeDenied, "file.read", args{"path": "secret/b"})
	bad(t, b, runtime.CodeReadScopeDenied, "file.stat", args{"path": "open/.env"})
}
