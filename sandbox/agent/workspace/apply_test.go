package workspace_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/agent/workspace"
	"github.com/stretchr/testify/require"
)

func content(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

func TestAStaleBaseIsRefusedAndTheFileUntouched(t *testing.T) {
	r, ws := open(t)
	put(t, ws+"/f", "two")
	before, err := os.Stat(ws + "/f")
	require.NoError(t, err)
	for _, c := range []sandbox.Change{
		write("f", "three", hashOf("one")),
		{Op: sandbox.OpDelete, Path: "f", Base: sandbox.Precondition{Hash: hashOf("one")}},
		{Op: sandbox.OpMove, Path: "f", To: "g", Base: sandbox.Precondition{Hash: hashOf("one")}},
	} {
		_, err := apply(r, c)
		var refused *sandbox.Error
		require.True(t, errors.As(err, &refused))
		require.Equal(t, sandbox.KindHashMismatch, refused.Kind)
		require.Equal(t, hashOf("two"), refused.CurrentHash)
		after, err := os.Stat(ws + "/f")
		require.NoError(t, err)
		require.True(t, os.SameFile(before, after))
		require.Equal(t, "two", content(t, ws+"/f"))
	}
	_, err = apply(r, write("gone", "x", hashOf("one")))
	require.Equal(t, sandbox.KindHashMismatch, sandbox.KindOf(err), "the file must exist")
	require.NoFileExists(t, ws+"/gone")
	_, err = apply(r, sandbox.Change{Op: sandbox.OpWrite, Path: "f", Data: []byte("x"), Base: sandbox.Precondition{Absent: true}})
	require.Equal(t, sandbox.KindExists, sandbox.KindOf(err))
	noTemporaries(t, ws)

	a, err := apply(r, write("f", "three", hashOf("two")))
	require.NoError(t, err, "control: the right base")
	require.Equal(t, []sandbox.Applied{{Path: "f", OldHash: hashOf("two"), Hash: hashOf("three"), Bytes: 5}}, a)
	require.Equal(t, "three", content(t, ws+"/f"))
	noTemporaries(t, ws)
}

func TestOfConcurrentWritersExactlyOneWins(t *testing.T) {
	r, ws := open(t)
	for round := range 50 {
		base := fmt.Sprintf("base %d", round)
		put(t, ws+"/f", base)
		var won atomic.Int32
		var winner atomic.Value
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				mine := fmt.Sprintf("writer %d of %d", i, round)
				_, err := apply(r, write("f", mine, hashOf(base)))
				if err == nil {
					won.Add(1)
					winner.Store(mine)
				} else if sandbox.KindOf(err) != sandbox.KindHashMismatch {
					t.Errorf("a loser got %v", err)
				}
			})
		}
		all.Wait()
		require.EqualValues(t, 1, won.Load())
		require.Equal(t, winner.Load(), content(t, ws+"/f"))
	}
	noTemporaries(t, ws)
}

// A writer that is not the agent renames its file over ours at any moment.
func TestAForeignWritersFileIsNeverLost(t *testing.T) {
	r, ws := open(t)
	put(t, ws+"/f", "0")
	stop, done := make(chan struct{}), make(chan struct{})
	var foreign atomic.Int64
	go func() {
		defer close(done)
		for i := 1; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.WriteFile(ws+"/tmp", []byte("foreign"), 0o644)
			if os.Rename(ws+"/tmp", ws+"/f") == nil {
				foreign.Add(1)
			}
			time.Sleep(50 * time.Microsecond)
		}
	}()
	wins, refused := 0, 0
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		_, hash, err := read(r, "f")
		require.NoError(t, err)
		a, err := apply(r, write("f", "ours", hash))
		if err == nil {
			wins++
			// What was displaced is what the caller had seen.
			require.Equal(t, hash, a[0].OldHash)
			continue
		}
		require.Equal(t, sandbox.KindHashMismatch, sandbox.KindOf(err), "%v", err)
		refused++
	}
	close(stop)
	<-done
	require.Positive(t, wins)
	require.Positive(t, foreign.Load())
	t.Logf("%d wins, %d refused, %d foreign writes", wins, refused, foreign.Load())
	noTemporaries(t, ws)
}

func TestReadersSeeOldOrNewAndNeverAPart(t *testing.T) {
	r, ws := open(t)
	old, next := strings.Repeat("a", 100_000), strings.Repeat("b", 100_000)
	put(t, ws+"/f", old)
	stop, done := make(chan struct{}), make(chan struct{})
	var torn atomic.Int32
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if data, err := os.ReadFile(ws + "/f"); err != nil || (string(data) != old && string(data) != next) {
				torn.Add(1)
			}
		}
	}()
	for i := range 100 {
		text := old
		if i%2 == 0 {
			text = next
		}
		_, err := apply(r, write("f", text, ""))
		require.NoError(t, err)
	}
	close(stop)
	<-done
	require.Zero(t, torn.Load())
}

func TestAFailedChangeUndoesTheEarlierOnes(t *testing.T) {
	r, ws := open(t)
	for _, p := range []string{"a", "b", "c", "d", "e"} {
		put(t, ws+"/"+p, p)
	}
	require.NoError(t, os.Chmod(ws+"/a", 0o600))
	steps := []sandbox.Change{
		write("a", "A", hashOf("a")),
		write("new/deep/file", "n", ""),
		{Op: sandbox.OpDelete, Path: "b", Base: sandbox.Precondition{Hash: hashOf("b")}},
		{Op: sandbox.OpMove, Path: "c", To: "moved/c", Base: sandbox.Precondition{Hash: hashOf("c")}},
		{Op: sandbox.OpMove, Path: "d", To: "moved/d", Data: []byte("D"), Base: sandbox.Precondition{Hash: hashOf("d")}},
	}
	_, err := apply(r, append(steps, write("e", "E", hashOf("stale")))...)
	require.Equal(t, sandbox.KindHashMismatch, sandbox.KindOf(err))
	for _, p := range []string{"a", "b", "c", "d", "e"} {
		require.Equal(t, p, content(t, ws+"/"+p))
	}
	require.NoDirExists(t, ws+"/new")
	require.NoDirExists(t, ws+"/moved")
	noTemporaries(t, ws)

	applied, err := apply(r, append(steps, write("e", "E", hashOf("e")))...)
	require.NoError(t, err, "control: with the right base all are made")
	require.Len(t, applied, 6)
	require.Equal(t, "A", content(t, ws+"/a"))
	require.Equal(t, "n", content(t, ws+"/new/deep/file"))
	require.NoFileExists(t, ws+"/b")
	require.Equal(t, "c", content(t, ws+"/moved/c"))
	require.Equal(t, "D", content(t, ws+"/moved/d"))
	require.NoFileExists(t, ws+"/d")
	require.Equal(t, sandbox.Applied{Path: "moved/d", Created: true, OldHash: hashOf("d"), Hash: hashOf("D"), Bytes: 1}, applied[4])
	info, err := os.Stat(ws + "/a")
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode(), "the mode is kept")
	noTemporaries(t, ws)
}

func TestDataThatBreakOffChangeNothing(t *testing.T) {
	r, ws := open(t)
	put(t, ws+"/f", "old")
	gone := errors.New("connection lost")
	_, err := r.Apply([]sandbox.Change{write("g", "", ""), write("f", "", "")}, []bool{true, true}, func(i int) io.Reader {
		if i == 0 {
			return strings.NewReader("new")
		}
		return io.MultiReader(strings.NewReader("half"), failing{gone})
	})
	require.ErrorIs(t, err, gone)
	require.Equal(t, "old", content(t, ws+"/f"))
	require.NoFileExists(t, ws+"/g")
	noTemporaries(t, ws)
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestAMoveNeverOverwrites(t *testing.T) {
	r, ws := open(t)
	put(t, ws+"/a", "a")
	put(t, ws+"/b", "b")
	for _, data := range [][]byte{nil, []byte("new")} {
		_, err := apply(r, sandbox.Change{Op: sandbox.OpMove, Path: "a", To: "b", Data: data})
		require.Equal(t, sandbox.KindExists, sandbox.KindOf(err))
	}
	_, err := apply(r, sandbox.Change{Op: sandbox.OpMove, Path: "none", To: "c"})
	require.Equal(t, sandbox.KindNotFound, sandbox.KindOf(err))
	require.Equal(t, "a", content(t, ws+"/a"))
	require.Equal(t, "b", content(t, ws+"/b"))
	noTemporaries(t, ws)
}

func TestAReadOnlyWorkspaceTakesNoChange(t *testing.T) {
	dir := t.TempDir()
	put(t, dir+"/f", "x")
	r, err := workspace.Open(dir, true)
	require.NoError(t, err)
	defer r.Close()
	_, err = apply(r, write("f", "y", ""))
	require.Equal(t, sandbox.KindReadOnly, sandbox.KindOf(err))
	err = r.Fill(sandbox.Entry{Path: "d", Info: sandbox.FileInfo{Type: sandbox.TypeDir}}, nil)
	require.Equal(t, sandbox.KindReadOnly, sandbox.KindOf(err))
	got, _, err := read(r, "f")
	require.NoError(t, err, "control: it can be read")
	require.Equal(t, "x", got)
}

func TestFillMakesEntriesAndReplacesFilesAndLinks(t *testing.T) {
	r, ws := open(t)
	put(t, ws+"/target", "untouched")
	require.NoError(t, os.Symlink("target", ws+"/f"))
	fill := func(path string, typ sandbox.FileType, mode fs.FileMode, target, data string) error {
		return r.Fill(sandbox.Entry{Path: path, Info: sandbox.FileInfo{Type: typ, Mode: mode, Target: target}}, strings.NewReader(data))
	}
	require.NoError(t, fill("x/y/run", sandbox.TypeFile, 0o755, "", "#!"))
	require.NoError(t, fill("f", sandbox.TypeFile, 0, "", "new"))
	require.NoError(t, fill("d", sandbox.TypeDir, 0o700, "", ""))
	require.NoError(t, fill("d", sandbox.TypeDir, 0o750, "", ""))
	require.NoError(t, fill("l", sandbox.TypeSymlink, 0, "../outside", ""))
	require.NoError(t, fill("", sandbox.TypeDir, 0o755, "", ""))
	require.Equal(t, sandbox.KindNotRegular, sandbox.KindOf(fill("p", sandbox.TypeFIFO, 0o644, "", "")))
	require.Equal(t, sandbox.KindPathEscapes, sandbox.KindOf(fill("../p", sandbox.TypeFile, 0o644, "", "")))
	require.Equal(t, "untouched", content(t, ws+"/target"), "the link was replaced, not followed")
	require.Equal(t, "new", content(t, ws+"/f"))
	info, err := os.Stat(ws + "/x/y/run")
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o755), info.Mode())
	target, err := os.Readlink(ws + "/l")
	require.NoError(t, err)
	require.Equal(t, "../outside", target, "a link is made as it is; following it is refused")
	noTemporaries(t, ws)
}
