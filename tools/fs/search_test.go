package fs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/runtime/runtimetest"
	"github.com/sandboxd/sandboxd/tools/fs"
)

// engines runs a test of repo.search on both engines: what holds of one must
// hold of the other.
func engines(t *testing.T, test func(t *testing.T, b *runtimetest.Bench)) {
	engines := map[string]*runtime.Tool{"walk": fs.WalkOnly()}
	if _, err := exec.LookPath("rg"); err == nil {
		engines["rg"] = fs.RipgrepOnly()
	} else if os.Getenv("CI") == "true" || os.Getenv("SANDBOXD_TEST_REQUIRE") == "1" {
		t.Fatal("ripgrep is not installed: the engine that boxes use would go untested")
	} else {
		t.Log("WARNING: ripgrep is not installed; only the other engine of repo.search is tested")
	}
	for name, tool := range engines {
		t.Run(name, func(t *testing.T) { test(t, runtimetest.New(t, tool)) })
	}
}

func lines(o fs.SearchOutput) (all []string) {
	for _, m := range o.Matches {
		all = append(all, fmt.Sprintf("%s:%d:%d:%s", m.Path, m.Line, m.Column, m.Preview))
	}
	return all
}

func TestASearchFindsLinesInOrder(t *testing.T) {
	engines(t, func(t *testing.T, b *runtimetest.Bench) {
		b.Write("b/two.go", "x\n  needle needle\r\ny\nneedle")
		b.Write("a.txt", "NEEDLE\nneedle.\n")
		b.Write("c.go", "none\n")
		b.Write("a/x.go", "é needle\n")
		out := good[fs.SearchOutput](t, b, "repo.search", args{"query": "needle"})
		require.Equal(t, []string{
			"a.txt:2:1:needle.", "a/x.go:1:4:é needle", "b/two.go:2:3:  needle needle", "b/two.go:4:1:needle",
		}, lines(out))
		require.Equal(t, []int{4, 3}, []int{out.TotalMatches, out.FilesWithMatches})
		require.False(t, out.Truncated || out.TimedOut)

		out = good[fs.SearchOutput](t, b, "repo.search", args{"query": "Needle", "caseSensitive": false, "maxResults": 2})
		require.Equal(t, []string{"a.txt:1:1:NEEDLE", "a.txt:2:1:needle."}, lines(out))
		require.Equal(t, 5, out.TotalMatches)
		require.True(t, out.Truncated)

		none := b.Call("repo.search", args{"query": "absent"})
		require.Equal(t, runtime.Succeeded, none.Status)
		require.Contains(t, none.SafeMessage, "includeHidden")
		require.Equal(t, []string{"hidden", "ignored"}, runtimetest.Output[fs.SearchOutput](t, none).LeftOut)
	})
}

func TestALiteralIsNoPatternAndAPatternIsOne(t *testing.T) {
	engines(t, func(t *testing.T, b *runtimetest.Bench) {
		b.Write("f", "a.c\nabc\nfoo(bar)\nend \n\nÄb\nab2\nx_y-z\n\tTab\n")
		for _, c := range []struct {
			query string
			regex bool
			want  []int64
		}{
			{"a.c", false, []int64{1}},
			{"a.c", true, []int64{1, 2}},
			{"(", false, []int64{3}},
			{`^$`, true, []int64{5}},
			{`\s$`, true, []int64{4}},
			{`^a`, true, []int64{1, 2, 7}},
			{`\bb`, true, []int64{3, 6}},
			{`\d`, true, []int64{7}},
			{`\w-\w`, true, []int64{8}},
			{`[^a-z().]b`, true, []int64{6}},
			{`(?i)tab|FOO`, true, []int64{3, 9}},
			{`b{1,2}(c|2)`, true, []int64{2, 7}},
			{`\Aa.*c\z`, true, []int64{1, 2}},
			{`\Qa.c\E`, true, []int64{1}},
			{`\x{41}|\pL2|[[:upper:]]`, true, []int64{7, 9}},
		} {
			out := good[fs.SearchOutput](t, b, "repo.search", args{"query": c.query, "regex": c.regex})
			var got []int64
			for _, m := range out.Matches {
				got = append(got, m.Line)
			}
			require.Equal(t, c.want, got, c.query)
		}
	})
}

func TestAPatternThatCannotBeIsRefused(t *testing.T) {
	b := runtimetest.New(t, fs.Tools()...)
	for _, query := range []string{"(", "[a", "a**", `(?<=x)y`, `\1`, "a{2000}", `a\nb`} {
		bad(t, b, runtime.CodePatternInvalid, "repo.search", args{"query": query, "regex": true})
	}
	bad(t, b, runtime.CodePatternInvalid, "repo.search", args{"query": "a\nb"})
	bad(t, b, runtime.CodePatternInvalid, "repo.search", args{"query": "a", "pathGlobs": []string{"["}})
	for _, in := range []args{
		{"query": ""}, {"query": strings.Repeat("x", 501)}, {"query": "x", "maxResults": 201}, {"query": "x", "maxResults": 0},
		{"query": "x", "contextLines": -1}, {"query": "x", "pathGlobs": make([]string, 21)}, {"query": "x", "unknown": 1},
	} {
		bad(t, b, runtime.CodeSchemaViolation, "repo.search", in)
	}
	good[fs.SearchOutput](t, b, "repo.search", args{"query": strings.Repeat("é", 500)})
}

func TestLinesAroundAMatchAreShown(t *testing.T) {
	engines(t, func(t *testing.T, b *runtimetest.Bench) {
		b.Write("f", "1\n2\nhit\nhit\n5\n6\n7\n8\nhit")
		out := good[fs.SearchOutput](t, b, "repo.search", args{"query": "hit", "contextLines": 2})
		require.Equal(t, [][]string{{"1", "2"}, {"2", "hit"}, {"7", "8"}}, [][]string{out.Matches[0].Before, out.Matches[1].Before, out.Matches[2].Before})
		require.Equal(t, [][]string{{"hit", "5"}, {"5", "6"}, nil}, [][]string{out.Matches[0].After, out.Matches[1].After, out.Matches[2].After})
		one := good[fs.SearchOutput](t, b, "repo.search", args{"query": "hit", "contextLines": 2, "maxResults": 1})
		require.Equal(t, []string{"hit", "5"}, one.Matches[0].After)
		require.Equal(t, 3, one.TotalMatches)
	})
}

func TestGlobsChooseWhatIsSearched(t *testing.T) {
	engines(t, func(t *testing.T, b *runtimetest.Bench) {
		for _, p := range []string{
			"src/a.ts", "src/b.go", "src/deep/c.ts", "lib/d.ts", "e.ts", ".github/w.yml", ".dot.ts", "src/.h/x.ts", "vendor/v.ts",
			"odd.ts/inner", "skip/f.ts", ".git/g.ts", "out/o.ts", "out/o.log", "x/.git/h.ts",
		} {
			b.Write(p, "needle\n")
		}
		b.Write(".gitignore", "/out\n*.log\n")
		for _, c := range []struct {
			globs []string
			want  string
		}{
			{nil, "e.ts lib/d.ts odd.ts/inner skip/f.ts src/a.ts src/b.go src/deep/c.ts vendor/v.ts"},
			{[]string{"*.ts"}, "e.ts lib/d.ts skip/f.ts src/a.ts src/deep/c.ts vendor/v.ts"},
			{[]string{"*.ts", "!vendor", "!skip/**"}, "e.ts lib/d.ts src/a.ts src/deep/c.ts"},
			{[]string{"src/**"}, "src/a.ts src/b.go src/deep/c.ts"},
			{[]string{"src"}, "src/a.ts src/b.go src/deep/c.ts"},
			{[]string{"src/", "lib/*.ts"}, "lib/d.ts src/a.ts src/b.go src/deep/c.ts"},
			{[]string{"src/**/*.ts", "!**/deep/**"}, "src/a.ts"},
			{[]string{"**/*.{go,yml}"}, "src/b.go"},
			{[]string{"/*.ts"}, "e.ts"},
			{[]string{".github/**"}, ".github/w.yml"},
			{[]string{"**/.*/*.ts", ".*.ts"}, ".dot.ts src/.h/x.ts"},
			{[]string{"out/**"}, "out/o.ts"},
			{[]string{"missing/**"}, ""},
			{[]string{".git/**"}, ""},
			{[]string{"!*.ts"}, "src/b.go"},
		} {
			in := args{"query": "needle"}
			if c.globs != nil {
				in["pathGlobs"] = c.globs
			}
			out := good[fs.SearchOutput](t, b, "repo.search", in)
			var got []string
			for _, m := range out.Matches {
				got = append(got, m.Path)
			}
			require.Equal(t, c.want, strings.Join(got, " "), c.globs)
			require.Equal(t, len(got), out.TotalMatches, c.globs)
		}
		all := good[fs.SearchOutput](t, b, "repo.search", args{"query": "needle", "includeHidden": true, "includeIgnored": true})
		require.Equal(t, 13, all.TotalMatches, "everything but what is in .git: %v", lines(all))
	})
}

func TestIgnoreFilesAreHonouredAtEveryLevel(t *testing.T) {
	engines(t, func(t *testing.T, b *runtimetest.Bench) {
		b.Write(".gitignore", "node_modules/\n*.log\n!keep.log\n")
		b.Write("sub/.gitignore", "!a.log\n/gen/\n")
		b.Write(".ignore", "kept\n")
		b.Write(".git/info/exclude", "kept\n")
		for _, p := range []string{"node_modules/x/i.js", "a.log", "keep.log", "sub/a.log", "sub/b.log", "sub/gen/g", "gen/g", "kept"} {
			b.Write(p, "needle\n")
		}
		out := good[fs.SearchOutput](t, b, "repo.search", args{"query": "needle"})
		var got []string
		for _, m := range out.Matches {
			got = append(got, m.Path)
		}
		require.Equal(t, []string{"gen/g", "keep.log", "kept", "sub/a.log"}, got)
	})
}

func TestALongLineIsShownAroundItsMatch(t *testing.T) {
	engines(t, func(t *testing.T, b *runtimetest.Bench) {
		b.Write("bundle.js", strings.Repeat("é", 350_000)+"needle"+strings.Repeat("y", 300_000)+"\n")
		out := good[fs.SearchOutput](t, b, "repo.search", args{"query": "needle", "contextLines": 1})
		m := out.Matches[0]
		require.EqualValues(t, 1, m.Line)
		require.Equal(t, 700_001, m.Column)
		require.Contains(t, m.Preview, "needle")
		require.Less(t, len(m.Preview), 320)
		require.True(t, m.PreviewCut && utf8.ValidString(m.Preview))
	})
}

func TestALineTooLongToLookIntoIsSaidSo(t *testing.T) {
	engines(t, func(t *testing.T, b *runtimetest.Bench) {
		b.Write("huge", "needle"+strings.Repeat("x", 32<<20)+"\n")
		b.Write("other", "needle\n")
		out := good[fs.SearchOutput](t, b, "repo.search", args{"query": "needle"})
		require.Equal(t, []string{"other:1:1:needle"}, lines(out))
		require.Equal(t, "huge", out.Skipped[0].Path)
		require.Equal(t, "line_too_long", out.Skipped[0].Reason)
	})
}

func TestWhatIsNotTextIsFoundOrNamed(t *testing.T) {
	engines(t, func(t *testing.T, b *runtimetest.Bench) {
		b.Write("k.js", "key=\"a\x00b\"\nneedle\n")
		b.Write("bin", "\x7fELF\x00needle\x00\n")
		b.Write("latin", "caf\xe9 needle\n")
		b.Write("bom", "\xef\xbb\xbfneedle\n")
		b.Write("utf16", "\xff\xfex\x00\n\x00n\x00e\x00e\x00d\x00l\x00e\x00\n\x00")
		out := good[fs.SearchOutput](t, b, "repo.search", args{"query": "needle"})
		require.Equal(t, []string{"bom:1:1:needle", "k.js:2:1:needle", "latin:1:6:café needle", "utf16:2:1:needle"}, lines(out))
		require.Len(t, out.Skipped, 1)
		require.Equal(t, "bin binary", out.Skipped[0].Path+" "+out.Skipped[0].Reason)
	})
}

func TestLinksAreNotFollowed(t *testing.T) {
	engines(t, func(t *testing.T, b *runtimetest.Bench) {
		b.Write("foo/bar/n", "needle\n")
		outside := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("needle\n"), 0o600))
		for link, to := range map[string]string{"foo/bar/up": "../", "self": ".", "out": outside, "file": "foo/bar/n", "dangling": "nowhere"} {
			require.NoError(t, os.Symlink(to, filepath.Join(b.Dir, link)))
		}
		for _, globs := range [][]string{{"**"}, {"out/**", "foo/**"}, {"self/**", "foo/**"}} {
			out := good[fs.SearchOutput](t, b, "repo.search", args{"query": "needle", "pathGlobs": globs})
			require.Equal(t, []string{"foo/bar/n:1:1:needle"}, lines(out))
		}
		require.Zero(t, good[fs.SearchOutput](t, b, "repo.search", args{"query": "needle", "pathGlobs": []string{"out/**"}}).TotalMatches)
	})
}

// The first matches by path are returned though files come in any order, and
// all are counted.
func TestTheFirstOfManyMatchesAreReturned(t *testing.T) {
	engines(t, func(t *testing.T, b *runtimetest.Bench) {
		var want []string
		for i := range 300 {
			b.Write(fmt.Sprintf("d%d/f%03d", i%7, i), "needle\nneedle\n")
		}
		for d := range 7 {
			for i := range 300 {
				if i%7 == d {
					want = append(want, fmt.Sprintf("d%d/f%03d:1:1:needle", d, i), fmt.Sprintf("d%d/f%03d:2:1:needle", d, i))
				}
			}
		}
		for _, n := range []int{1, 3, 60, 200} {
			out := good[fs.SearchOutput](t, b, "repo.search", args{"query": "needle", "maxResults": n})
			require.Equal(t, want[:n], lines(out))
			require.Equal(t, 600, out.TotalMatches)
			require.Equal(t, 300, out.FilesWithMatches)
		}
	})
}

func TestWhatWasFoundInTimeIsReturned(t *testing.T) {
	b := runtimetest.New(t, fs.StuckAfterOneMatch(50*time.Millisecond))
	out := good[fs.SearchOutput](t, b, "repo.search", args{"query": "needle"})
	require.True(t, out.TimedOut && out.Truncated)
	require.Equal(t, []string{"f:1:1:needle"}, lines(out))
	require.Equal(t, 1, out.TotalMatches)
}

// A search must not tell what a run may not read, not even by counting.
func TestASearchTellsNothingOfWhatMayNotBeRead(t *testing.T) {
	for _, tool := range []*runtime.Tool{fs.WalkOnly(), fs.RipgrepOnly()} {
		b := runtimetest.NewRun(t, runtime.RunSpec{Permissions: runtime.Permissions{
			Paths: runtime.AllowDeny{Deny: []string{"secret/**", "**/.env"}},
		}}, tool)
		for _, p := range []string{"open/a", "open/.env", "secret/b"} {
			b.Write(p, "needle\x20\n")
		}
		b.Write("secret/bin", "needle\x00\n")
		for _, in := range []args{{}, {"pathGlobs": []string{"secret/**", "open/**"}}, {"pathGlobs": []string{"**/.env", "open"}}} {
			in["query"], in["includeHidden"] = "needle", true
			out := good[fs.SearchOutput](t, b, "repo.search", in)
			require.Equal(t, []string{"open/a:1:1:needle "}, lines(out))
			require.Equal(t, 1, out.TotalMatches)
			require.Equal(t, 1, out.FilesWithMatches)
			require.Empty(t, out.Skipped)
		}
	}
}

func TestWhatRgCouldNotReadIsNamed(t *testing.T) {
	var got []string
	for _, s := range fs.Complaints("./ok/se: cret: Permission denied (os error 13)\nrg: ./locked: Permission denied (os error 13)\n" +
		"./dir: IO error for operation on ./dir: Permission denied (os error 13)\nrg: ./x: Input/output error (os error 5)\nrg: ./secret: Permission denied (os error 13)\nsome other words\n") {
		got = append(got, s.Path+" "+s.Reason)
	}
	require.Equal(t, []string{"ok/se: cret permission", "locked permission", "dir permission", "x unreadable"}, got)
}

// The figures that count: repo.search against rg run by hand, over 10,000
// files, in one interleaved run.
func BenchmarkSearchOfTenThousandFiles(b *testing.B) {
	bench := runtimetest.New(b, fs.Tools()...)
	filler := strings.Repeat("some line of code that does not match anything here\n", 60)
	for i := range 10_000 {
		content := filler
		if i%100 == 0 {
			content += "a needle in it\n"
		}
		bench.Write(fmt.Sprintf("d%02d/e%02d/f%d.go", i%50, i/50%20, i), content)
	}
	for _, c := range []struct {
		name, query string
		matches     int
	}{{"few", "needle", 100}, {"all", "some line", 600_000}, {"none", "absent", 0}} {
		b.Run(c.name, func(b *testing.B) { againstRg(b, bench, c.query, c.matches) })
	}
}

func againstRg(b *testing.B, bench *runtimetest.Bench, query string, matches int) {
	var hand, ours []time.Duration
	for b.Loop() {
		begun := time.Now()
		cmd := exec.Command("rg", "--no-config", "--line-number", "--column", query, "./")
		cmd.Dir = bench.Dir
		out, err := cmd.Output()
		if matches > 0 {
			require.NoError(b, err)
		}
		require.Equal(b, matches, strings.Count(string(out), "\n"))
		hand = append(hand, time.Since(begun))
		begun = time.Now()
		found := good[fs.SearchOutput](b, bench, "repo.search", args{"query": query})
		ours = append(ours, time.Since(begun))
		require.Equal(b, matches, found.TotalMatches)
	}
	slices.Sort(hand)
	slices.Sort(ours)
	h, o := hand[len(hand)/2], ours[len(ours)/2]
	b.ReportMetric(float64(h.Microseconds())/1000, "hand-ms")
	b.ReportMetric(float64(o.Microseconds())/1000, "ours-ms")
	b.ReportMetric(float64(o)/float64(h), "ratio")
}
