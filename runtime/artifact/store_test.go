package artifact_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sandboxd/sandboxd/runtime/artifact"
	"github.com/sandboxd/sandboxd/runtime/redact"
	"github.com/stretchr/testify/require"
)

const run = "run_0190aaaa-0000-7000-8000-000000000001"

func open(t *testing.T, opts artifact.Options) (*artifact.Store, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "artifacts")
	s, err := artifact.Open(dir, opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s, dir
}

func redacting(values map[string]string) func(io.Writer) artifact.Filter {
	r := redact.New(redact.Config{Values: values, KnownFormats: true})
	return func(w io.Writer) artifact.Filter { return r.Writer(w) }
}

func read(t *testing.T, s *artifact.Store, id string, view artifact.View) string {
	t.Helper()
	f, err := s.Open(run, id, view)
	require.NoError(t, err)
	b, err := io.ReadAll(f)
	require.NoError(t, err)
	require.EqualValues(t, len(b), f.Bytes)
	require.NoError(t, f.Close())
	return string(b)
}

func sum(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

func TestBothViewsAreKeptAndDescribed(t *testing.T) {
	for name, text := range map[string]string{
		"no secret": "hello world",
		"a secret":  strings.Repeat("hello ", 20000) + "topsecret" + strings.Repeat(" world", 20000),
		"first":     "topsecret",
		"last":      "hello topsecret",
		"nothing":   "",
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := open(t, artifact.Options{})
			w, err := s.Create(artifact.Meta{RunID: run, Name: "stdout", Type: "text/plain"}, redacting(map[string]string{"A": "topsecret"}))
			require.NoError(t, err)
			for rest := text; rest != ""; {
				n := min(len(rest), 4099)
				_, err := io.WriteString(w, rest[:n])
				require.NoError(t, err)
				rest = rest[n:]
			}
			info, err := w.Commit()
			require.NoError(t, err)
			clean := strings.ReplaceAll(text, "topsecret", "[REDACTED:secret:A]")
			require.Equal(t, text, read(t, s, info.ID, artifact.Raw))
			require.Equal(t, clean, read(t, s, info.ID, artifact.Redacted))
			require.Equal(t, sum(clean), info.SHA256)
			require.EqualValues(t, len(clean), info.Bytes)
			require.Equal(t, sum(text), info.RawSHA256)
			require.EqualValues(t, len(text), info.RawBytes)
			require.True(t, artifact.ValidID(info.ID))
			require.Equal(t, "stdout", info.Name)
		})
	}
}

func TestAMissingRedactedViewNeverGivesTheRawOne(t *testing.T) {
	s, dir := open(t, artifact.Options{})
	w, err := s.Create(artifact.Meta{RunID: run}, nil)
	require.NoError(t, err)
	info, err := w.Commit()
	require.NoError(t, err)
	require.Empty(t, read(t, s, info.ID, artifact.Redacted), "control: it can be read")
	require.NoError(t, os.Remove(filepath.Join(dir, run, info.ID+".redacted")))
	_, err = s.Open(run, info.ID, artifact.Redacted)
	require.ErrorIs(t, err, artifact.ErrNotFound)
}

func TestIdsAreNeverUsedAsPaths(t *testing.T) {
	s, dir := open(t, artifact.Options{})
	w, err := s.Create(artifact.Meta{RunID: run}, nil)
	require.NoError(t, err)
	info, err := w.Commit()
	require.NoError(t, err)
	outside := filepath.Join(filepath.Dir(dir), info.ID+".raw")
	require.NoError(t, os.WriteFile(outside, []byte("outside"), 0o600))
	require.Empty(t, read(t, s, info.ID, artifact.Raw), "control: the id itself opens")
	for _, id := range []string{"", "../" + info.ID, info.ID + "/", "..", strings.ToUpper(info.ID), info.ID + "\n", info.ID + "\x00", "art_../../etc/passwd", "art_0190aaaa-0000-4000-8000-000000000001"} {
		_, err := s.Open(run, id, artifact.Raw)
		require.ErrorIs(t, err, artifact.ErrInvalidID, "%q", id)
	}
	for _, r := range []string{"", "..", ".", "run/..", run + "/", "-x", "a\x00"} {
		_, err := s.Open(r, info.ID, artifact.Raw)
		require.ErrorIs(t, err, artifact.ErrInvalidID, "%q", r)
		require.ErrorIs(t, s.DeleteRun(r), artifact.ErrInvalidID)
		_, err = s.Create(artifact.Meta{RunID: r}, nil)
		require.ErrorIs(t, err, artifact.ErrInvalidID)
	}
	_, err = s.Open(run, info.ID, "other")
	require.ErrorIs(t, err, artifact.ErrInvalidID)
	_, err = s.Open("run_other", info.ID, artifact.Raw)
	require.ErrorIs(t, err, artifact.ErrNotFound, "an artifact belongs to one run")
}

func TestASymlinkInTheStoreIsNotFollowed(t *testing.T) {
	s, dir := open(t, artifact.Options{})
	w, err := s.Create(artifact.Meta{RunID: run}, nil)
	require.NoError(t, err)
	info, err := w.Commit()
	require.NoError(t, err)
	name := filepath.Join(dir, run, info.ID+".raw")
	require.NoError(t, os.Remove(name))
	require.NoError(t, os.Symlink("/etc/passwd", name))
	_, err = s.Open(run, info.ID, artifact.Raw)
	require.Error(t, err)
}

func TestAbortLeavesNothing(t *testing.T) {
	s, dir := open(t, artifact.Options{})
	w, err := s.Create(artifact.Meta{RunID: run}, redacting(map[string]string{"A": "topsecret"}))
	require.NoError(t, err)
	_, err = io.WriteString(w, "topsecret and more")
	require.NoError(t, err)
	require.NotEmpty(t, files(t, dir), "control: something was there")
	require.NoError(t, w.Abort())
	require.NoError(t, w.Abort())
	require.Empty(t, files(t, dir))
	_, err = w.Commit()
	require.Error(t, err)
}

func TestLeftoversOfACrashAreRemovedAtOpenAndCommittedOnesStay(t *testing.T) {
	s, dir := open(t, artifact.Options{})
	w, err := s.Create(artifact.Meta{RunID: run}, nil)
	require.NoError(t, err)
	_, err = io.WriteString(w, "kept")
	require.NoError(t, err)
	info, err := w.Commit()
	require.NoError(t, err)
	_, err = s.Create(artifact.Meta{RunID: run}, nil)
	require.NoError(t, err)
	require.Len(t, files(t, dir), 3)

	again, err := artifact.Open(dir, artifact.Options{})
	require.NoError(t, err)
	require.Len(t, files(t, dir), 2)
	require.Equal(t, "kept", read(t, again, info.ID, artifact.Redacted), "the store needs nothing but the ids")
	require.NoError(t, again.DeleteRun(run))
	require.NoError(t, again.DeleteRun(run))
	require.Empty(t, files(t, dir))
	require.NoError(t, again.Close())
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, path)
		}
		return err
	}))
	return out
}

func TestAFullDiskIsItsOwnErrorAndLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	s, err := artifact.Open(dir, artifact.Options{KeepFreeBytes: 1 << 62})
	require.NoError(t, err)
	_, err = s.Create(artifact.Meta{RunID: run}, nil)
	require.ErrorIs(t, err, artifact.ErrDiskFull)
	require.NoError(t, s.Close())

	small := smallDisk(t)
	if small == "" {
		return
	}
	s, err = artifact.Open(filepath.Join(small, "a"), artifact.Options{})
	require.NoError(t, err)
	w, err := s.Create(artifact.Meta{RunID: run}, nil)
	require.NoError(t, err)
	_, err = w.Write(bytes.Repeat([]byte("x"), 4<<20))
	require.ErrorIs(t, err, artifact.ErrDiskFull)
	_, err = w.Commit()
	require.ErrorIs(t, err, artifact.ErrDiskFull)
	require.Empty(t, files(t, small))
	require.NoError(t, s.Close())
}

func TestTooLongAStreamIsCutAndFlagged(t *testing.T) {
	s, _ := open(t, artifact.Options{MaxBytes: 10})
	w, err := s.Create(artifact.Meta{RunID: run}, nil)
	require.NoError(t, err)
	for range 4 {
		n, err := io.WriteString(w, "1234")
		require.NoError(t, err)
		require.Equal(t, 4, n)
	}
	info, err := w.Commit()
	require.NoError(t, err)
	require.True(t, info.Truncated)
	require.EqualValues(t, 10, info.Bytes)
	require.Equal(t, "1234123412", read(t, s, info.ID, artifact.Raw))
}

func TestRangesAreClamped(t *testing.T) {
	s, _ := open(t, artifact.Options{})
	w, err := s.Create(artifact.Meta{RunID: run}, nil)
	require.NoError(t, err)
	_, err = io.WriteString(w, "0123456789")
	require.NoError(t, err)
	info, err := w.Commit()
	require.NoError(t, err)
	for _, c := range []struct {
		off   int64
		limit int
		want  string
	}{{0, 3, "012"}, {8, 100, "89"}, {10, 5, ""}, {99, 5, ""}, {-5, 2, "01"}} {
		got, size, err := s.ReadRange(run, info.ID, artifact.Redacted, c.off, c.limit)
		require.NoError(t, err)
		require.EqualValues(t, 10, size)
		require.Equal(t, c.want, string(got))
	}
}

func TestManyWritersAtOnce(t *testing.T) {
	s, dir := open(t, artifact.Options{})
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			w, err := s.Create(artifact.Meta{RunID: run}, nil)
			if err == nil {
				_, err = w.Write(bytes.Repeat([]byte{byte(i)}, 1000))
			}
			if err == nil && i%2 == 0 {
				_, err = w.Commit()
			} else if err == nil {
				err = w.Abort()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Len(t, files(t, dir), 16)
}

func TestAFailingFilterFailsTheArtifact(t *testing.T) {
	s, dir := open(t, artifact.Options{})
	w, err := s.Create(artifact.Meta{RunID: run}, func(io.Writer) artifact.Filter { return broken{} })
	require.NoError(t, err)
	_, err = io.WriteString(w, "x")
	require.ErrorIs(t, err, errBroken)
	_, err = w.Commit()
	require.ErrorIs(t, err, errBroken)
	require.Empty(t, files(t, dir))
}

var errBroken = errors.New("broken")

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }
func (broken) Close() error              { return errBroken }
func (broken) Changed() bool             { return false }
