package workspace_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/agent/workspace"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// open returns a workspace and its directory, beside which a secret lies.
func open(t testing.TB) (*workspace.Root, string) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/secret", []byte("secret"), 0o644))
	ws := dir + "/ws"
	require.NoError(t, os.Mkdir(ws, 0o755))
	r, err := workspace.Open(ws, false)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r, ws
}

func put(t testing.TB, path, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
}

func hashOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func read(r *workspace.Root, path string) (string, string, error) {
	reading, err := r.Read(sandbox.ReadRequest{Path: path, Limit: 1 << 20})
	if err != nil {
		return "", "", err
	}
	defer reading.Close()
	var out bytes.Buffer
	hash, err := reading.Copy(make([]byte, 7), func(p []byte) error { out.Write(p); return nil })
	return out.String(), hash, err
}

// apply makes changes with their Data.
func apply(r *workspace.Root, changes ...sandbox.Change) ([]sandbox.Applied, error) {
	has := make([]bool, len(changes))
	for i, c := range changes {
		has[i] = c.Data != nil
	}
	return r.Apply(changes, has, func(i int) io.Reader { return bytes.NewReader(changes[i].Data) })
}

func write(path, content, base string) sandbox.Change {
	return sandbox.Change{Op: sandbox.OpWrite, Path: path, Data: []byte(content), Base: sandbox.Precondition{Hash: base}}
}

// onlyFiles fails if a temporary file was left anywhere.
func noTemporaries(t testing.TB, dir string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		require.NotContains(t, p, ".sandboxd-tmp-")
		return err
	}))
}

func TestNoPathLeadsOut(t *testing.T) {
	t.Run("openat2", func(t *testing.T) {
		r, ws := open(t)
		noPathLeadsOut(t, r, ws)
	})
	t.Run("without openat2", func(t *testing.T) {
		r, ws := open(t)
		require.NoError(t, workspace.WithoutOpenat2(r, ws))
		noPathLeadsOut(t, r, ws)
	})
}

func noPathLeadsOut(t *testing.T, r *workspace.Root, ws string) {
	put(t, ws+"/in", "inside")
	put(t, ws+"/dir/deep", "deep")
	for link, target := range map[string]string{
		"abs": "/etc/passwd", "rel": "../secret", "dirout": "..", "root": "/", "proc": "/proc/self/root/etc/passwd",
		"absin": ws + "/in", "ok": "in", "okdir": "dir", "chain": "rel", "magic": "/proc/self/cwd",
	} {
		require.NoError(t, os.Symlink(target, ws+"/"+link))
	}
	for _, path := range []string{"../secret", "/etc/passwd", "dir/../../secret", "abs", "rel", "dirout/secret", "root/etc/passwd", "proc", "absin", "chain", "magic/x"} {
		t.Run(path, func(t *testing.T) {
			_, _, err := read(r, path)
			require.Equal(t, sandbox.KindPathEscapes, sandbox.KindOf(err), "%v", err)
			_, err = apply(r, write(path+"/new", "x", ""))
			require.Contains(t, []sandbox.Kind{sandbox.KindPathEscapes, sandbox.KindNotDirectory}, sandbox.KindOf(err), "%v", err)
			err = r.Fill(sandbox.Entry{Path: path + "/new", Info: sandbox.FileInfo{Type: sandbox.TypeFile}}, strings.NewReader("x"))
			require.Contains(t, []sandbox.Kind{sandbox.KindPathEscapes, sandbox.KindNotDirectory}, sandbox.KindOf(err), "%v", err)
		})
	}
	t.Run("control: links inside are followed", func(t *testing.T) {
		got, hash, err := read(r, "ok")
		require.NoError(t, err)
		require.Equal(t, "inside", got)
		require.Equal(t, hashOf("inside"), hash)
		got, _, err = read(r, "okdir/deep")
		require.NoError(t, err)
		require.Equal(t, "deep", got)
		_, err = apply(r, write("okdir/new", "n", ""))
		require.NoError(t, err)
	})
	secret, err := os.ReadFile(filepath.Dir(ws) + "/secret")
	require.NoError(t, err)
	require.Equal(t, "secret", string(secret))
}

func TestBadNamesAreRefused(t *testing.T) {
	r, _ := open(t)
	for _, path := range []string{"a\x00b", strings.Repeat("n", 256), strings.Repeat("d/", 2100) + "f", ".sandboxd-tmp-x", "d/.sandboxd-tmp-x"} {
		_, err := r.Stat(path)
		require.Equal(t, sandbox.KindInvalid, sandbox.KindOf(err), "%.20q: %v", path, err)
		_, err = apply(r, write(path, "x", ""))
		require.Equal(t, sandbox.KindInvalid, sandbox.KindOf(err))
	}
	for _, path := range []string{"", ".", "x/.."} {
		_, err := apply(r, write(path, "x", ""))
		require.Equal(t, sandbox.KindInvalid, sandbox.KindOf(err), "%q", path)
	}
	odd := "odd \xff\u202e\nname"
	_, err := apply(r, write(odd, "x", ""))
	require.NoError(t, err, "control: any other bytes are a name")
	got, _, err := read(r, odd)
	require.NoError(t, err)
	require.Equal(t, "x", got)
}

func TestASwappedLinkNeverLeaksTheSecret(t *testing.T) {
	r, ws := open(t)
	put(t, ws+"/a/file", "mine")
	// The attacker exchanges a directory with a link to the outside.
	put(t, filepath.Dir(ws)+"/file", "secret")
	require.NoError(t, os.Symlink("..", ws+"/b"))
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, ws+"/a", unix.AT_FDCWD, ws+"/b", unix.RENAME_EXCHANGE)
			}
		}
	}()
	naive, ours, reads := 0, 0, 0
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		// The control: check the path, then use it.
		if real, err := filepath.EvalSymlinks(ws + "/a/file"); err == nil && strings.HasPrefix(real, ws) {
			if data, err := os.ReadFile(ws + "/a/file"); err == nil && string(data) == "secret" {
				naive++
			}
		}
		got, _, err := read(r, "a/file")
		if err == nil {
			reads++
		}
		if got == "secret" {
			ours++
		}
		_, _ = apply(r, write("a/file", "mine", ""))
	}
	close(stop)
	<-done
	require.Positive(t, naive, "control: the naive reader is fooled")
	require.Positive(t, reads, "control: reads do succeed")
	require.Zero(t, ours)
	secret, err := os.ReadFile(filepath.Dir(ws) + "/file")
	require.NoError(t, err)
	require.Equal(t, "secret", string(secret), "no write went outside")
}

func TestWhatIsNotRegularAnswersAtOnce(t *testing.T) {
	r, ws := open(t)
	require.NoError(t, unix.Mkfifo(ws+"/fifo", 0o644))
	require.NoError(t, os.Mkdir(ws+"/dir", 0o755))
	sock, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	require.NoError(t, err)
	defer unix.Close(sock)
	require.NoError(t, unix.Bind(sock, &unix.SockaddrUnix{Name: ws + "/sock"}))
	put(t, ws+"/file", "x")
	require.NoError(t, os.Symlink("file", ws+"/link"))
	begin := time.Now()
	for path, want := range map[string]sandbox.Kind{"fifo": sandbox.KindNotRegular, "sock": sandbox.KindNotRegular, "dir": sandbox.KindIsDirectory} {
		_, _, err := read(r, path)
		require.Equal(t, want, sandbox.KindOf(err), path)
		_, err = apply(r, write(path, "x", ""))
		require.Equal(t, want, sandbox.KindOf(err), path)
		_, err = apply(r, sandbox.Change{Op: sandbox.OpDelete, Path: path})
		require.Equal(t, want, sandbox.KindOf(err), path)
	}
	require.Less(t, time.Since(begin), time.Second)
	_, err = apply(r, write("link", "y", ""))
	require.Equal(t, sandbox.KindNotRegular, sandbox.KindOf(err), "a link is not written through")
	info, err := r.Stat("link")
	require.NoError(t, err)
	require.Equal(t, sandbox.TypeSymlink, info.Type)
	require.Equal(t, "file", info.Target)
	noTemporaries(t, ws)
}

func TestAPartAndTheWholeHashComeTogether(t *testing.T) {
	r, ws := open(t)
	content := strings.Repeat("0123456789", 1000)
	put(t, ws+"/f", content)
	for _, c := range []struct{ offset, limit int64 }{{0, 10}, {5, 20}, {9990, 100}, {20000, 5}, {0, 0}, {3, 9997}} {
		reading, err := r.Read(sandbox.ReadRequest{Path: "f", Offset: c.offset, Limit: c.limit})
		require.NoError(t, err)
		var out bytes.Buffer
		hash, err := reading.Copy(make([]byte, 64), func(p []byte) error { out.Write(p); return nil })
		require.NoError(t, err)
		require.NoError(t, reading.Close())
		from := min(c.offset, int64(len(content)))
		require.Equal(t, content[from:min(from+c.limit, int64(len(content)))], out.String())
		require.Equal(t, hashOf(content), hash)
	}
}

// visits collects a walk.
type visits struct {
	entries []sandbox.Entry
	content map[string]string
	current string
}

func (v *visits) Entry(e sandbox.Entry, content bool) error {
	v.entries = append(v.entries, e)
	if content {
		v.current = e.Path
		v.content[e.Path] = ""
	}
	return nil
}
func (v *visits) Content(p []byte) error     { v.content[v.current] += string(p); return nil }
func (v *visits) ContentEnd(err error) error { return err }

func (v *visits) paths() []string {
	var out []string
	for _, e := range v.entries {
		out = append(out, e.Path)
	}
	return out
}

func walk(t testing.TB, r *workspace.Root, req sandbox.WalkRequest) *visits {
	t.Helper()
	v := &visits{content: map[string]string{}}
	require.NoError(t, r.Walk(req, v))
	return v
}

func TestAWalkIsInOrderAndPrunedAndHashed(t *testing.T) {
	r, ws := open(t)
	for _, p := range []string{"b", "a/z", "a/b/c", "a-b", "node_modules/x/y", ".sandboxd-tmp-left"} {
		put(t, ws+"/"+p, p)
	}
	require.NoError(t, os.Symlink("../..", ws+"/a/up"))
	all := []string{"a", "a/b", "a/b/c", "a/up", "a/z", "a-b", "b", "node_modules", "node_modules/x", "node_modules/x/y"}
	require.Equal(t, all, walk(t, r, sandbox.WalkRequest{}).paths())
	require.Equal(t, []string{"a", "a-b", "b", "node_modules"}, walk(t, r, sandbox.WalkRequest{Depth: 1}).paths())
	require.Equal(t, []string{"a/b", "a/b/c", "a/up", "a/z"}, walk(t, r, sandbox.WalkRequest{Path: "a"}).paths())
	require.Equal(t, all[:8], walk(t, r, sandbox.WalkRequest{Prune: []string{"node_modules"}}).paths())
	v := walk(t, r, sandbox.WalkRequest{Hash: true, ContentMax: 3, Names: map[string]bool{"b": true, "a/b/c": true}})
	require.Equal(t, map[string]string{"b": "b"}, v.content)
	for _, e := range v.entries {
		switch e.Path {
		case "b", "a/b/c":
			require.Equal(t, hashOf(e.Path), e.Hash)
		default:
			require.Empty(t, e.Hash)
		}
		require.Nil(t, e.Err)
	}
	err := r.Walk(sandbox.WalkRequest{Path: "a/up"}, v)
	require.Equal(t, sandbox.KindPathEscapes, sandbox.KindOf(err))
	stop := errors.New("stop")
	require.ErrorIs(t, r.Walk(sandbox.WalkRequest{}, stopper{stop}), stop)
}

type stopper struct{ err error }

func (s stopper) Entry(sandbox.Entry, bool) error { return s.err }
func (s stopper) Content([]byte) error            { return nil }
func (s stopper) ContentEnd(error) error          { return nil }
