package workspace_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/runtime/workspace"
)

func TestWhatIsExportedCanBeImportedAgain(t *testing.T) {
	box := newBox(t)
	box.write(t, "a/b.txt", "text")
	box.write(t, "a/caf\xe9", "latin")
	box.write(t, strings.Repeat("long/", 40)+"name", "deep")
	require.NoError(t, os.Chmod(filepath.Join(box.dir, "a/b.txt"), 0o750))
	require.NoError(t, os.Symlink("a/b.txt", filepath.Join(box.dir, "l")))
	require.NoError(t, unix.Mkfifo(filepath.Join(box.dir, "pipe"), 0o600))

	var one, two bytes.Buffer
	stats, err := workspace.ExportTar(t.Context(), box, &one)
	require.NoError(t, err)
	require.Len(t, stats.Skipped, 1)
	require.Contains(t, stats.Skipped[0], "pipe")
	_, err = workspace.ExportTar(t.Context(), box, &two)
	require.NoError(t, err)
	require.Equal(t, one.Bytes(), two.Bytes(), "the same workspace gives the same bytes")

	back := newBox(t)
	limits := small()
	limits.Entries = 100
	_, err = workspace.ImportTar(t.Context(), back, bytes.NewReader(one.Bytes()), t.TempDir(), limits)
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(box.dir, "pipe")))
	require.Equal(t, box.list(t), back.list(t))
	info, err := back.info("a/b.txt")
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o750), info.Mode)
}

func TestADirectoryOfTheHostIsCopiedAndNothingElse(t *testing.T) {
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("s"), 0o600))
	src := newBox(t) // only for its directory
	src.write(t, "a/b", "content")
	src.write(t, ".git/HEAD", "ref")
	require.NoError(t, os.Symlink("a/b", filepath.Join(src.dir, "in")))
	require.NoError(t, os.Symlink(outside, filepath.Join(src.dir, "out")))
	require.NoError(t, os.Symlink("../"+filepath.Base(outside)+"/secret", filepath.Join(src.dir, "out2")))
	require.NoError(t, unix.Mkfifo(filepath.Join(src.dir, "pipe"), 0o600))

	box := newBox(t)
	stats, err := workspace.CopyDir(t.Context(), box, src.dir, small())
	require.NoError(t, err)
	require.Equal(t, []string{".git", ".git/HEAD", "a", "a/b", "in"}, box.list(t))
	require.Equal(t, runtime.UploadStats{Files: 2, Directories: 2, Symlinks: 1, Bytes: 10}, stats.UploadStats)
	require.Len(t, stats.Skipped, 3)

	limits := small()
	limits.Entries = 3
	none := newBox(t)
	_, err = workspace.CopyDir(t.Context(), none, src.dir, limits)
	problem(t, err, runtime.ProblemTooLarge)
	require.Empty(t, none.list(t))
	_, err = workspace.CopyDir(t.Context(), none, src.dir+"/missing", limits)
	require.Error(t, err)
}
