package workspace_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/runtime/workspace"
	"github.com/sandboxd/sandboxd/sandbox/sandboxtest"
)

// TestTheWholeWayThroughARealAgent goes by the agent's own walk, read and fill.
func TestTheWholeWayThroughARealAgent(t *testing.T) {
	box := sandboxtest.NewLocal(t)
	here := &dirFiles{dir: box.Facts().WorkspacePath, full: -1}
	store, ctx := newStore(t), t.Context()
	var entries []entry
	for i := range 300 {
		entries = append(entries, file(fmt.Sprintf("src/%03d/f", i), strings.Repeat(fmt.Sprintf("line %d\n", i), 200)))
	}
	entries = append(entries, file("caf\xe9", "latin\n"), link("link", "src/000/f"), file("bin", "\x00\x01"), file("empty", ""))
	stats, err := store.Import(ctx, box.Files(), bytes.NewReader(zst(t, pack(t, entries...))))
	require.NoError(t, err)
	require.Equal(t, 303, stats.Files)
	require.Equal(t, 1, stats.Symlinks)
	require.NoError(t, store.SaveBase(ctx, "run_1", box.Files()))

	var patch bytes.Buffer
	require.NoError(t, store.Diff(ctx, "run_1", box.Files(), &patch))
	require.Empty(t, patch.String())
	oracle := filepath.Join(t.TempDir(), "oracle")
	require.NoError(t, os.Mkdir(oracle, 0o755))
	copyTree(t, here.dir, oracle)

	here.write(t, "src/005/f", "changed\n")
	here.write(t, "caf\xe9", "latin\xff\n")
	here.write(t, "empty", "no more\n")
	here.write(t, "new/one", "x")
	remove(t, here, "src/007/f")
	remove(t, here, "link")
	changed, err := store.Changed(ctx, "run_1", box.Files())
	require.NoError(t, err)
	require.Equal(t, []string{"caf\xe9", "empty", "link", "new/one", "src/005/f", "src/007/f"}, changed)
	require.NoError(t, store.Diff(ctx, "run_1", box.Files(), &patch))
	git(t, oracle, patch.Bytes(), "apply", "-")
	same(t, here, oracle)

	var archive bytes.Buffer
	require.NoError(t, store.Export(ctx, box.Files(), &archive))
	back := sandboxtest.NewLocal(t)
	_, err = store.Import(ctx, back.Files(), &archive)
	require.NoError(t, err)
	changed, err = store.Changed(ctx, "run_1", back.Files())
	require.NoError(t, err)
	require.Len(t, changed, 6)

	third := sandboxtest.NewLocal(t)
	copied, err := store.CopyDir(ctx, third.Files(), oracle)
	require.NoError(t, err)
	require.Equal(t, 303, copied.Files)
	_, err = store.Import(ctx, third.Files(), bytes.NewReader(pack(t, file("src", "in the way"))))
	problem(t, err, runtime.ProblemConflict)
}

// BenchmarkDiffOfOneAmong10000 is the usual case: a repository of 10,000 files of
// 4 KiB in which one has changed.
func BenchmarkDiffOfOneAmong10000(b *testing.B) {
	box := sandboxtest.NewLocal(b)
	here := &dirFiles{dir: box.Facts().WorkspacePath, full: -1}
	for i := range 10_000 {
		here.write(b, fmt.Sprintf("d%02d/f%d", i%100, i), strings.Repeat(fmt.Sprintf("%08d\n", i), 455))
	}
	store := workspace.NewStore(b.TempDir(), workspace.DefaultLimits())
	require.NoError(b, store.SaveBase(b.Context(), "run_1", box.Files()))
	here.write(b, "d00/f0", "changed\n")
	for b.Loop() {
		var patch bytes.Buffer
		require.NoError(b, store.Diff(b.Context(), "run_1", box.Files(), &patch))
		require.NotZero(b, patch.Len())
	}
}
