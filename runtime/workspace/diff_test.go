package workspace_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/runtime/workspace"
)

func newStore(t testing.TB) *workspace.Store {
	t.Helper()
	return workspace.NewStore(filepath.Join(t.TempDir(), "bases"), workspace.DefaultLimits())
}

func git(t testing.TB, dir string, stdin []byte, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(stdin)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "git %v: %s\n%s", args, out, stdin)
	return string(out)
}

func copyTree(t testing.TB, from, to string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "cp", "-a", from+"/.", to).CombinedOutput()
	require.NoError(t, err, string(out))
}

// changes are what the oracle is asked about. Each starts from the same tree.
var trees = map[string]func(t testing.TB, b *dirFiles){
	"nothing": func(testing.TB, *dirFiles) {},
	"line changed": func(t testing.TB, b *dirFiles) {
		b.write(t, "text", strings.ReplaceAll(lines(40), "line 20\n", "LINE\n"))
	},
	"first line":   func(t testing.TB, b *dirFiles) { b.write(t, "text", "new\n"+lines(40)) },
	"last line":    func(t testing.TB, b *dirFiles) { b.write(t, "text", lines(40)+"new\n") },
	"all but none": func(t testing.TB, b *dirFiles) { b.write(t, "text", "only\n") },
	"emptied":      func(t testing.TB, b *dirFiles) { b.write(t, "text", "") },
	"filled":       func(t testing.TB, b *dirFiles) { b.write(t, "empty", "now\nsome\n") },
	"newline lost": func(t testing.TB, b *dirFiles) { b.write(t, "text", strings.TrimSuffix(lines(40), "\n")) },
	"newline won":  func(t testing.TB, b *dirFiles) { b.write(t, "no newline", "a\nb\n") },
	"no newline":   func(t testing.TB, b *dirFiles) { b.write(t, "no newline", "a\nc") },
	"two hunks": func(t testing.TB, b *dirFiles) {
		b.write(t, "text", strings.NewReplacer("line 3\n", "x\n", "line 30\n", "y\nz\n").Replace(lines(40)))
	},
	"touching": func(t testing.TB, b *dirFiles) {
		b.write(t, "text", strings.NewReplacer("line 10\n", "x\n", "line 17\n", "y\n").Replace(lines(40)))
	},
	"one apart": func(t testing.TB, b *dirFiles) {
		b.write(t, "text", strings.NewReplacer("line 10\n", "x\n", "line 18\n", "").Replace(lines(40)))
	},
	"crlf":          func(t testing.TB, b *dirFiles) { b.write(t, "crlf", "a\r\nB\r\nc\r\n") },
	"added":         func(t testing.TB, b *dirFiles) { b.write(t, "new/file", "content\n") },
	"added empty":   func(t testing.TB, b *dirFiles) { b.write(t, "new/empty", "") },
	"deleted":       func(t testing.TB, b *dirFiles) { remove(t, b, "text") },
	"deleted empty": func(t testing.TB, b *dirFiles) { remove(t, b, "empty") },
	"mode":          func(t testing.TB, b *dirFiles) { require.NoError(t, os.Chmod(filepath.Join(b.dir, "text"), 0o755)) },
	"mode and text": func(t testing.TB, b *dirFiles) {
		b.write(t, "text", "x\n")
		require.NoError(t, os.Chmod(filepath.Join(b.dir, "text"), 0o755))
	},
	"odd names": func(t testing.TB, b *dirFiles) {
		for _, n := range []string{"sp ace", "tab\there", "new\nline", `quo"te`, `back\slash`, "caf\xe9", "ünïcode", "-dash", "bell\a", " lead", "trail ", "d r/in side"} {
			b.write(t, n, "content\n")
		}
	},
	"odd names changed": func(t testing.TB, b *dirFiles) {
		b.write(t, "was \"odd\" \xff", "changed\n")
		b.write(t, "was spaced", "changed\n")
	},
	"link changed": func(t testing.TB, b *dirFiles) { remove(t, b, "link"); symlink(t, b, "link", "empty") },
	"link added":   func(t testing.TB, b *dirFiles) { symlink(t, b, "link2", "text") },
	"link to file": func(t testing.TB, b *dirFiles) { remove(t, b, "link"); b.write(t, "link", "a file\n") },
	"file to link": func(t testing.TB, b *dirFiles) { remove(t, b, "text"); symlink(t, b, "text", "empty") },
	"file to dir":  func(t testing.TB, b *dirFiles) { remove(t, b, "text"); b.write(t, "text/below", "x\n") },
	"dir to file": func(t testing.TB, b *dirFiles) {
		require.NoError(t, os.RemoveAll(filepath.Join(b.dir, "dir")))
		b.write(t, "dir", "x\n")
	},
	"latin text": func(t testing.TB, b *dirFiles) { b.write(t, "latin", "caf\xe9 changed\n\xff\xfe\n") },
	"fifo and git": func(t testing.TB, b *dirFiles) {
		require.NoError(t, unix.Mkfifo(filepath.Join(b.dir, "pipe"), 0o600))
		b.write(t, "sub/.git/config", "x")
		b.write(t, "sub/.gitignore", "kept\n")
	},
}

func lines(n int) string {
	var s strings.Builder
	for i := range n {
		fmt.Fprintf(&s, "line %d\n", i)
	}
	return s.String()
}

func remove(t testing.TB, b *dirFiles, path string) {
	t.Helper()
	require.NoError(t, os.Remove(filepath.Join(b.dir, path)))
}

func symlink(t testing.TB, b *dirFiles, path, target string) {
	t.Helper()
	require.NoError(t, os.Symlink(target, filepath.Join(b.dir, path)))
}

func baseTree(t testing.TB) *dirFiles {
	t.Helper()
	b := newBox(t)
	b.write(t, "text", lines(40))
	b.write(t, "empty", "")
	b.write(t, "no newline", "a\nb")
	b.write(t, "crlf", "a\r\nb\r\nc\r\n")
	b.write(t, "dir/file", "x\n")
	b.write(t, "latin", "caf\xe9\n")
	b.write(t, "was \"odd\" \xff", "x\n")
	b.write(t, "was spaced", "x\n")
	b.write(t, ".git/HEAD", "ref: refs/heads/main\n")
	symlink(t, b, "link", "text")
	return b
}

// TestGitAppliesTheDiffAndGetsTheWorkspace asks git itself: applied to a copy
// of the base, the diff gives the workspace, and in reverse the base.
func TestGitAppliesTheDiffAndGetsTheWorkspace(t *testing.T) {
	for name, edit := range trees {
		t.Run(name, func(t *testing.T) {
			box, store := baseTree(t), newStore(t)
			oracle := filepath.Join(t.TempDir(), "oracle")
			require.NoError(t, os.Mkdir(oracle, 0o755))
			copyTree(t, box.dir, oracle)
			require.NoError(t, os.RemoveAll(filepath.Join(oracle, ".git")))
			require.NoError(t, store.SaveBase(t.Context(), "run_1", box))
			edit(t, box)

			var patch bytes.Buffer
			require.NoError(t, store.Diff(t.Context(), "run_1", box, &patch))
			changed, err := store.Changed(t.Context(), "run_1", box)
			require.NoError(t, err)
			if patch.Len() == 0 {
				require.Empty(t, changed)
				require.Equal(t, "nothing", name)
				return
			}
			require.NotEmpty(t, changed)
			git(t, oracle, patch.Bytes(), "apply", "--check", "-")
			git(t, oracle, patch.Bytes(), "apply", "-")
			same(t, box, oracle)
			git(t, oracle, patch.Bytes(), "apply", "-R", "-")
			same(t, baseTree(t), oracle)
		})
	}
}

// same compares what git would see of two trees.
func same(t *testing.T, box *dirFiles, oracle string) {
	t.Helper()
	store := newStore(t)
	require.NoError(t, store.SaveBase(t.Context(), "run_1", box))
	other := &dirFiles{dir: oracle}
	changed, err := store.Changed(t.Context(), "run_1", other)
	require.NoError(t, err)
	require.Empty(t, changed)
}

func TestRandomEditsSurviveTheOracle(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for trial := range 60 {
		box, store := newBox(t), newStore(t)
		kinds := []int{20, 300, 100_000}[trial%3]
		before := randomLines(rng, 200, kinds)
		box.write(t, "f", strings.Join(before, ""))
		oracle := filepath.Join(t.TempDir(), "oracle")
		require.NoError(t, os.Mkdir(oracle, 0o755))
		copyTree(t, box.dir, oracle)
		require.NoError(t, store.SaveBase(t.Context(), "run_1", box))
		after := append([]string(nil), before...)
		for range 1 + rng.IntN(30) {
			i := rng.IntN(len(after))
			after = append(after[:i:i], append(randomLines(rng, rng.IntN(4), kinds), after[i+rng.IntN(min(4, len(after)-i)):]...)...)
			if len(after) == 0 {
				after = []string{"x"}
			}
		}
		text := strings.Join(after, "")
		if trial%4 == 0 {
			text = strings.TrimSuffix(text, "\n")
		}
		box.write(t, "f", text)
		var patch bytes.Buffer
		require.NoError(t, store.Diff(t.Context(), "run_1", box, &patch))
		if patch.Len() == 0 {
			continue
		}
		git(t, oracle, patch.Bytes(), "apply", "-")
		got, err := os.ReadFile(filepath.Join(oracle, "f"))
		require.NoError(t, err)
		require.Equal(t, text, string(got))
	}
}

// randomLines are alike the more often the fewer kinds there are.
func randomLines(rng *rand.Rand, n, kinds int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%d\n", rng.IntN(kinds))
	}
	return out
}

func TestManySmallEditsStaySmall(t *testing.T) {
	box, store := newBox(t), newStore(t)
	before := make([]string, 4000)
	for i := range before {
		before[i] = fmt.Sprintf("line %d\n", i)
	}
	box.write(t, "f", strings.Join(before, ""))
	require.NoError(t, store.SaveBase(t.Context(), "run_1", box))
	for i := 0; i < len(before); i += 20 {
		before[i] = "edited\n"
	}
	box.write(t, "f", strings.Join(before, ""))
	var patch bytes.Buffer
	sum, err := store.DiffSummary(t.Context(), "run_1", box, &patch)
	require.NoError(t, err)
	require.Equal(t, workspace.Summary{Modified: 1, Insertions: 200, Deletions: 200}, sum)
}

func TestHostileTextsAreComparedInBoundedTime(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	box, store := newBox(t), newStore(t)
	for _, kinds := range []int{1, 2, 9, 1000, 1_000_000} {
		var a, b strings.Builder
		for a.Len() < 1<<20-10 {
			fmt.Fprintf(&a, "%d\n", rng.IntN(kinds))
			fmt.Fprintf(&b, "%d\n", rng.IntN(kinds))
		}
		box.write(t, "f", a.String())
		require.NoError(t, store.SaveBase(t.Context(), "run_1", box))
		box.write(t, "f", b.String()[:min(b.Len(), 1<<20)])
		start := time.Now()
		require.NoError(t, store.Diff(t.Context(), "run_1", box, &bytes.Buffer{}))
		require.Less(t, time.Since(start), 20*time.Second, "%d kinds of line", kinds)
	}
}

func TestBinaryAndLargeFilesAreNamedOnly(t *testing.T) {
	box := newBox(t)
	limits := workspace.DefaultLimits()
	limits.BaseFileBytes = 1000
	store := workspace.NewStore(t.TempDir(), limits)
	box.write(t, "bin", "a\x00b")
	box.write(t, "large", strings.Repeat("x\n", 600))
	box.write(t, "text", "a\n")
	require.NoError(t, store.SaveBase(t.Context(), "run_1", box))
	box.write(t, "bin", "a\x00c")
	box.write(t, "large", strings.Repeat("x\n", 601))
	box.write(t, "grew", strings.Repeat("y\n", 600))
	box.write(t, "text", "b\n")
	var patch bytes.Buffer
	sum, err := store.DiffSummary(t.Context(), "run_1", box, &patch)
	require.NoError(t, err)
	require.Equal(t, workspace.Summary{Added: 1, Modified: 3, Binary: 3, Insertions: 1, Deletions: 1}, sum)
	require.Contains(t, patch.String(), "Binary files a/bin and b/bin differ\n")
	require.Contains(t, patch.String(), "new file mode 100644\nBinary files /dev/null and b/grew differ\n")
	require.NotContains(t, patch.String(), "\x00")
}

func TestADiffIsBounded(t *testing.T) {
	box := newBox(t)
	limits := workspace.DefaultLimits()
	limits.DiffBytes = 10_000
	store := workspace.NewStore(t.TempDir(), limits)
	require.NoError(t, store.SaveBase(t.Context(), "run_1", box))
	for i := range 50 {
		box.write(t, fmt.Sprintf("f%02d", i), lines(100))
	}
	var patch bytes.Buffer
	sum, err := store.DiffSummary(t.Context(), "run_1", box, &patch)
	require.NoError(t, err)
	require.Equal(t, 50, sum.Added)
	require.Greater(t, sum.Binary, 30)
	require.Less(t, patch.Len(), 30_000)
	require.Equal(t, 50, strings.Count(patch.String(), "diff --git "))
}

func TestANewBaseTakesTheOldOnesPlaceAndADamagedOneIsToldOf(t *testing.T) {
	box, dir := baseTree(t), t.TempDir()
	store := workspace.NewStore(dir, workspace.DefaultLimits())
	require.NoError(t, store.SaveBase(t.Context(), "run_1", box))
	box.write(t, "text", "changed\n")
	require.NoError(t, store.SaveBase(t.Context(), "run_1", box))
	var patch bytes.Buffer
	require.NoError(t, store.Diff(t.Context(), "run_1", box, &patch))
	require.Empty(t, patch.String())
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, list, 1)

	problem(t, store.Diff(t.Context(), "run_2", box, &patch), runtime.ProblemNotFound)
	for _, id := range []string{"", "..", "a/b", "../run_1"} {
		problem(t, store.SaveBase(t.Context(), id, box), runtime.ProblemBadRequest)
	}
	path := filepath.Join(dir, list[0].Name())
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, whole[:len(whole)-3], 0o600))
	require.ErrorContains(t, store.Diff(t.Context(), "run_1", box, &patch), "damaged")
	require.NoError(t, store.Forget("run_1"))
	require.NoError(t, store.Forget("run_1"))
	problem(t, store.Diff(t.Context(), "run_1", box, &patch), runtime.ProblemNotFound)
}

func TestAWorkspaceTooLargeToCompareIsRefused(t *testing.T) {
	box := baseTree(t)
	limits := workspace.DefaultLimits()
	limits.BaseEntries = 3
	store := workspace.NewStore(t.TempDir(), limits)
	problem(t, store.SaveBase(t.Context(), "run_1", box), runtime.ProblemTooLarge)
}
