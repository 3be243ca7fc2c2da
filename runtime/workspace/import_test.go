package workspace_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/runtime/workspace"
	"github.com/sandboxd/sandboxd/sandbox"
)

type entry struct {
	name   string
	typ    byte
	body   string
	target string
	mode   int64
}

func file(name, body string) entry { return entry{name: name, typ: tar.TypeReg, body: body} }

func link(name, target string) entry { return entry{name: name, typ: tar.TypeSymlink, target: target} }

func pack(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.typ, Linkname: e.target, Mode: e.mode, Size: int64(len(e.body)),
			ModTime: time.Unix(1_700_000_000, 0)}
		if e.mode == 0 {
			h.Mode = 0o644
		}
		if e.typ == tar.TypeXGlobalHeader {
			h = &tar.Header{Typeflag: e.typ, PAXRecords: map[string]string{"comment": "abc"}}
		}
		require.NoError(t, w.WriteHeader(h))
		_, err := w.Write([]byte(e.body))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return buf.Bytes()
}

func gz(t testing.TB, b []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	_, err := w.Write(b)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return buf.Bytes()
}

func zst(t testing.TB, b []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	return w.EncodeAll(b, nil)
}

func small() workspace.Limits {
	l := workspace.DefaultLimits()
	l.Entries, l.TotalBytes, l.FileBytes, l.RatioFloor = 20, 1<<20, 512<<10, 64<<10
	return l
}

func problem(t testing.TB, err error, code runtime.ProblemCode, says ...string) {
	t.Helper()
	var p *runtime.Problem
	require.ErrorAs(t, err, &p)
	require.Equal(t, code, p.Code, p.Detail)
	for _, part := range says {
		require.Contains(t, p.Detail, part)
	}
}

func TestAnArchiveIsUnpackedWhateverItsCompression(t *testing.T) {
	plain := pack(t,
		entry{typ: tar.TypeXGlobalHeader},
		entry{name: "./", typ: tar.TypeDir, mode: 0o755},
		entry{name: "./src/", typ: tar.TypeDir, mode: 0o555},
		file("src/a.txt", "hello"), entry{name: "run.sh", typ: tar.TypeReg, body: "#!", mode: 0o6755},
		file("deep/er/f", ""), link("src/up", "../run.sh"), file("caf\xe9", "not utf-8"),
	)
	for name, body := range map[string][]byte{"plain": plain, "gzip": gz(t, plain), "zstd": zst(t, plain)} {
		t.Run(name, func(t *testing.T) {
			box, dir := newBox(t), t.TempDir()
			// A slow reader: the first bytes come one by one.
			stats, err := workspace.ImportTar(t.Context(), box, iotest.OneByteReader(bytes.NewReader(body)), dir, small())
			require.NoError(t, err)
			require.Equal(t, runtime.UploadStats{Files: 4, Directories: 1, Symlinks: 1, Bytes: 16}, stats.UploadStats)
			require.Equal(t, []string{"caf\xe9", "deep", "deep/er", "deep/er/f", "run.sh", "src", "src/a.txt", "src/up"}, box.list(t))
			info, err := os.Stat(filepath.Join(box.dir, "run.sh"))
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o755), info.Mode(), "setuid is dropped")
			got, err := os.ReadFile(filepath.Join(box.dir, "src/up"))
			require.NoError(t, err)
			require.Equal(t, "#!", string(got))
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Empty(t, left, "the spool is gone")
		})
	}
}

func TestABadEntryIsRefusedByNameAndNothingIsWritten(t *testing.T) {
	many := make([]entry, 21)
	for i := range many {
		many[i] = file(fmt.Sprintf("f%d", i), "")
	}
	for name, c := range map[string]struct {
		entries []entry
		code    runtime.ProblemCode
		says    string
	}{
		"absolute":             {[]entry{file("/etc/passwd", "x")}, runtime.ProblemBadRequest, "/etc/passwd"},
		"dots":                 {[]entry{file("a/../../x", "x")}, runtime.ProblemBadRequest, "a/../../x"},
		"dots inside":          {[]entry{file("a/../x", "x")}, runtime.ProblemBadRequest, "a/../x"},
		"long part":            {[]entry{file(strings.Repeat("n", 256), "x")}, runtime.ProblemBadRequest, "too long"},
		"long path":            {[]entry{file(strings.Repeat("n/", 2100)+"f", "x")}, runtime.ProblemBadRequest, "too long"},
		"the workspace":        {[]entry{link("./", "a")}, runtime.ProblemBadRequest, "workspace itself"},
		"hard link":            {[]entry{{name: "h", typ: tar.TypeLink, target: "good"}}, runtime.ProblemBadRequest, `"h": it is a hard link`},
		"char device":          {[]entry{{name: "null", typ: tar.TypeChar}}, runtime.ProblemBadRequest, "null"},
		"block device":         {[]entry{{name: "sda", typ: tar.TypeBlock}}, runtime.ProblemBadRequest, "sda"},
		"fifo":                 {[]entry{{name: "pipe", typ: tar.TypeFifo}}, runtime.ProblemBadRequest, "pipe"},
		"absolute link":        {[]entry{link("l", "/etc")}, runtime.ProblemBadRequest, "absolute target"},
		"link out":             {[]entry{link("a/l", "../../etc")}, runtime.ProblemBadRequest, "points outside"},
		"link out after name":  {[]entry{link("d", "a/b"), link("l", "d/../../..")}, runtime.ProblemBadRequest, `".." after a name`},
		"empty link":           {[]entry{link("l", "")}, runtime.ProblemBadRequest, "empty"},
		"through a link":       {[]entry{link("d", "sub"), file("d/x", "x")}, runtime.ProblemBadRequest, "parent"},
		"link in place of dir": {[]entry{file("d/x", "x"), link("d", "sub")}, runtime.ProblemBadRequest, "twice"},
		"file in place of dir": {[]entry{file("d/x", "x"), file("d", "")}, runtime.ProblemBadRequest, "twice"},
		"below a file":         {[]entry{file("d", "x"), file("d/x", "")}, runtime.ProblemBadRequest, "parent"},
		"file twice":           {[]entry{file("d", "x"), file("./d", "y")}, runtime.ProblemBadRequest, "twice"},
		"too many":             {many, runtime.ProblemTooLarge, "20 entries"},
		"parents count":        {[]entry{file(strings.Repeat("p/", 25)+"f", "")}, runtime.ProblemTooLarge, "20 entries"},
		"one too large":        {[]entry{file("big", strings.Repeat("x", 600<<10))}, runtime.ProblemTooLarge, "big"},
		"too large together": {[]entry{file("a", strings.Repeat("x", 500<<10)), file("b", strings.Repeat("x", 500<<10)),
			file("c", strings.Repeat("x", 100<<10))}, runtime.ProblemTooLarge, "together"},
	} {
		t.Run(name, func(t *testing.T) {
			box := newBox(t)
			body := pack(t, append([]entry{file("good", "good")}, c.entries...)...)
			_, err := workspace.ImportTar(t.Context(), box, bytes.NewReader(body), t.TempDir(), small())
			problem(t, err, c.code, c.says)
			require.Empty(t, box.list(t))
			// The control: the good entry alone is taken.
			_, err = workspace.ImportTar(t.Context(), box, bytes.NewReader(pack(t, file("good", "good"))), t.TempDir(), small())
			require.NoError(t, err)
			require.Equal(t, []string{"good"}, box.list(t))
		})
	}
}

func TestWhatIsNoWholeTarIsRefused(t *testing.T) {
	good := pack(t, file("a", strings.Repeat("content ", 1000)))
	flipped := bytes.Clone(gz(t, good))
	flipped[len(flipped)-6] ^= 0xff // the sum at its end
	for name, c := range map[string]struct {
		body []byte
		code runtime.ProblemCode
	}{
		"empty":               {nil, runtime.ProblemBadRequest},
		"text":                {[]byte(strings.Repeat("no archive ", 100)), runtime.ProblemBadRequest},
		"cut":                 {good[:len(good)/2], runtime.ProblemBadRequest},
		"cut gzip":            {gz(t, good)[:40], runtime.ProblemBadRequest},
		"gzip magic only":     {[]byte{0x1f, 0x8b}, runtime.ProblemBadRequest},
		"cut zstd":            {zst(t, good)[:20], runtime.ProblemBadRequest},
		"wrong sum":           {flipped, runtime.ProblemBadRequest},
		"a second archive":    {append(bytes.Clone(good), good...), runtime.ProblemBadRequest},
		"bzip2":               {[]byte("BZh91AY&SY"), runtime.ProblemMediaType},
		"xz":                  {[]byte("\xfd7zXZ\x00rest"), runtime.ProblemMediaType},
		"zip":                 {[]byte("PK\x03\x04rest"), runtime.ProblemMediaType},
		"gzip bomb":           {gz(t, pack(t, file("z", strings.Repeat("\x00", 400<<10)), file("y", strings.Repeat("\x00", 400<<10)))), runtime.ProblemTooLarge},
		"zstd bomb":           {zst(t, pack(t, file("z", strings.Repeat("\x00", 400<<10)), file("y", strings.Repeat("\x00", 400<<10)))), runtime.ProblemTooLarge},
		"bomb behind the end": {gz(t, append(bytes.Clone(good), make([]byte, 4<<20)...)), runtime.ProblemTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			box := newBox(t)
			_, err := workspace.ImportTar(t.Context(), box, bytes.NewReader(c.body), t.TempDir(), small())
			problem(t, err, c.code)
			require.Empty(t, box.list(t))
		})
	}
}

func TestWhatIsInTheWayIsFoundBeforeAnythingIsWritten(t *testing.T) {
	for name, c := range map[string]struct {
		entry entry
		says  string
	}{
		"file onto directory": {file("dir", "x"), "has a dir there"},
		"link onto directory": {link("dir", "file"), "has a dir there"},
		"directory onto file": {entry{name: "file/", typ: tar.TypeDir}, "has a file there"},
		"below a file":        {file("file/x", "x"), "a parent of it is a file"},
		"below a link":        {file("link/x", "x"), "a parent of it is a symlink"},
	} {
		t.Run(name, func(t *testing.T) {
			box := newBox(t)
			box.write(t, "dir/x", "x")
			box.write(t, "file", "old")
			require.NoError(t, os.Symlink("dir", filepath.Join(box.dir, "link")))
			before := box.list(t)
			body := pack(t, file("aaa", "new"), c.entry)
			_, err := workspace.ImportTar(t.Context(), box, bytes.NewReader(body), t.TempDir(), small())
			problem(t, err, runtime.ProblemConflict, c.says)
			require.Equal(t, before, box.list(t))
			// The control: files replace files, directories join directories.
			_, err = workspace.ImportTar(t.Context(), box, bytes.NewReader(pack(t, file("file", "new"), file("dir/y", ""))), t.TempDir(), small())
			require.NoError(t, err)
			got, err := os.ReadFile(filepath.Join(box.dir, "file"))
			require.NoError(t, err)
			require.Equal(t, "new", string(got))
		})
	}
}

func TestAnUploadThatBreaksOffWritesNothing(t *testing.T) {
	box := newBox(t)
	broken := errors.New("connection reset")
	body := io.MultiReader(bytes.NewReader(pack(t, file("a", "x"))), iotest.ErrReader(broken))
	_, err := workspace.ImportTar(t.Context(), box, body, t.TempDir(), small())
	require.ErrorIs(t, err, broken)
	require.Empty(t, box.list(t))
}

func TestAFullBoxIsToldAsTheBoxSaysIt(t *testing.T) {
	box := newBox(t)
	box.full = 1
	_, err := workspace.ImportTar(t.Context(), box, bytes.NewReader(pack(t, file("a", "x"), file("b", "y"))), t.TempDir(), small())
	require.Equal(t, sandbox.KindDiskFull, sandbox.KindOf(err))
}

func FuzzImportTar(f *testing.F) {
	plain := pack(f, file("a/b", "x"), link("l", "a/b"), entry{name: "d/", typ: tar.TypeDir})
	f.Add(plain)
	f.Add(gz(f, plain))
	f.Add(zst(f, plain))
	f.Fuzz(func(t *testing.T, body []byte) {
		parent := t.TempDir()
		box := &dirFiles{dir: filepath.Join(parent, "box"), full: -1}
		require.NoError(t, os.Mkdir(box.dir, 0o755))
		root, err := os.OpenRoot(box.dir)
		require.NoError(t, err)
		defer func() { require.NoError(t, root.Close()) }()
		box.root = root
		_, err = workspace.ImportTar(t.Context(), box, bytes.NewReader(body), t.TempDir(), small())
		if err != nil {
			var p *runtime.Problem
			if !errors.As(err, &p) {
				t.Fatalf("neither taken nor refused: %v", err)
			}
			require.Empty(t, box.list(t))
		}
		beside, err := os.ReadDir(parent)
		require.NoError(t, err)
		require.Len(t, beside, 1)
	})
}
