package fs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/tools/fs"
)

func TestAReadReturnsTheBytesAndTheHashOfTheWhole(t *testing.T) {
	b := bench(t)
	const content = "one\r\ntwo\nthree"
	b.Write("f", content)
	out := good[fs.ReadOutput](t, b, "file.read", args{"path": "f"})
	require.Equal(t, content, out.Content)
	require.Equal(t, hashOf(content), out.Hash)
	require.Equal(t, "mixed", out.EOL)
	require.Equal(t, "utf-8", out.Encoding)
	require.EqualValues(t, 3, *out.TotalLines)
	require.EqualValues(t, 1, out.StartLine)
	require.EqualValues(t, 3, out.EndLine)
	require.False(t, out.Truncated || out.FinalNewline || out.Binary || out.HasBOM)
}

func TestRangesOfLines(t *testing.T) {
	b := bench(t)
	b.Write("f", "1\n2\n3")
	for _, c := range []struct {
		in       args
		want     string
		from, to int64
	}{
		{args{"startLine": 2}, "2\n3", 2, 3},
		{args{"startLine": 3, "endLine": 3}, "3", 3, 3},
		{args{"endLine": 1}, "1\n", 1, 1},
		{args{"startLine": 2, "endLine": 2147483647}, "2\n3", 2, 3},
		{args{"startLine": 4, "endLine": 10}, "", 4, 3},
	} {
		c.in["path"] = "f"
		out := good[fs.ReadOutput](t, b, "file.read", c.in)
		require.Equal(t, c.want, out.Content, c.in)
		require.Equal(t, c.from, out.StartLine, c.in)
		require.Equal(t, c.to, out.EndLine, c.in)
		require.EqualValues(t, 3, *out.TotalLines)
		require.Equal(t, hashOf("1\n2\n3"), out.Hash, "always of the whole file")
	}
	for _, in := range []args{{"startLine": 0}, {"startLine": -1}, {"startLine": 2, "endLine": 1}, {"maxBytes": 0}, {"startLine": 1e12}} {
		in["path"] = "f"
		bad(t, b, runtime.CodeSchemaViolation, "file.read", in)
	}
}

func TestAnEmptyFileIsSaidToBeEmpty(t *testing.T) {
	b := bench(t)
	b.Write("f", "")
	r := b.Call("file.read", args{"path": "f"})
	require.Contains(t, r.SafeMessage, "empty")
	out := good[fs.ReadOutput](t, b, "file.read", args{"path": "f"})
	require.Zero(t, *out.TotalLines)
	require.Equal(t, hashOf(""), out.Hash)
	require.Equal(t, "none", out.EOL)
}

func TestALongAnswerIsCutAtALineAndGoesOn(t *testing.T) {
	b := bench(t)
	var want strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&want, "line %d ☕\n", i)
	}
	b.Write("f", want.String())
	var got strings.Builder
	for next := int64(1); next != 0; {
		out := good[fs.ReadOutput](t, b, "file.read", args{"path": "f", "startLine": next, "maxBytes": 20_000})
		require.LessOrEqual(t, len(out.Content), 20_000)
		require.Equal(t, out.NextLine != 0, out.Truncated)
		require.Equal(t, hashOf(want.String()), out.Hash)
		got.WriteString(out.Content)
		next = out.NextLine
	}
	require.Equal(t, want.String(), got.String())
}

func TestAHugeLineIsCutBetweenCharacters(t *testing.T) {
	b := bench(t)
	b.Write("f", strings.Repeat("☕", 1_000_000))
	out := good[fs.ReadOutput](t, b, "file.read", args{"path": "f", "endLine": 1, "maxBytes": 1000})
	require.Equal(t, strings.Repeat("☕", 333), out.Content)
	require.True(t, out.LineTruncated)
	require.True(t, out.Truncated)
}

func TestEncodingsAreShownAsText(t *testing.T) {
	b := bench(t)
	for name, c := range map[string]struct{ bytes, content, encoding string }{
		"bom":    {"\xef\xbb\xbfimport os\n", "import os\n", "utf-8-bom"},
		"utf16":  {"\xff\xfen\x00\xe9\x00\n\x00", "né\n", "utf-16le"},
		"latin1": {"caf\xe9\n", "café\n", "latin-1"},
		"broken": {"é\n\xff\n", "é\nÿ\n", "unknown-8bit"},
	} {
		b.Write(name, c.bytes)
		out := good[fs.ReadOutput](t, b, "file.read", args{"path": name})
		require.Equal(t, c.content, out.Content, name)
		require.Equal(t, c.encoding, out.Encoding, name)
		require.Equal(t, hashOf(c.bytes), out.Hash, name)
	}
}

func TestABinaryFileIsDescribedNotShown(t *testing.T) {
	b := bench(t)
	png := "\x89PNG\x0d\x0a\x1a\x0a\x00\x00\x00\x0dIHDR"
	b.Write("p.png", png)
	b.Write("k.js", "key=\"a\x00b\"\nneedle\n")
	out := good[fs.ReadOutput](t, b, "file.read", args{"path": "p.png"})
	require.Equal(t, "image/png", out.MediaType)
	require.Equal(t, hashOf(png), out.Hash)
	require.Empty(t, out.Content)
	out = good[fs.ReadOutput](t, b, "file.read", args{"path": "k.js"})
	require.True(t, out.Binary)
	require.Contains(t, b.Call("file.read", args{"path": "k.js"}).SafeMessage, "binary")
}

func TestWhatIsNoRegularFileIsRefusedAtOnce(t *testing.T) {
	b := bench(t)
	b.Write("dir/f", "inside")
	require.NoError(t, syscall.Mkfifo(filepath.Join(b.Dir, "pipe"), 0o666))
	for link, to := range map[string]string{"z": "/dev/zero", "e": "/etc", "in": "dir/f"} {
		require.NoError(t, os.Symlink(to, filepath.Join(b.Dir, link)))
	}
	begun := time.Now()
	for path, code := range map[string]runtime.Code{
		"pipe": runtime.CodeNotRegularFile, "z": runtime.CodePathTraversal, "e/passwd": runtime.CodePathTraversal,
		"dir": runtime.CodeIsDirectory, "missing": runtime.CodeFileNotFound, "../x": runtime.CodePathTraversal,
	} {
		bad(t, b, code, "file.read", args{"path": path})
	}
	require.Less(t, time.Since(begun), 5*time.Second)
	require.Equal(t, "inside", good[fs.ReadOutput](t, b, "file.read", args{"path": "in"}).Content, "a link that stays inside is followed")
}

// One line of an 8 GiB file, and no more memory than the parts it is read in.
func TestALineOfAHugeFileCostsNoMemory(t *testing.T) {
	b := bench(t)
	b.Write("big", strings.Repeat("first\n", 100_000))
	require.NoError(t, os.Truncate(filepath.Join(b.Dir, "big"), 8<<30))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(200 << 20))
	begun := time.Now()
	out := good[fs.ReadOutput](t, b, "file.read", args{"path": "big", "endLine": 1})
	require.Equal(t, "first\n", out.Content)
	require.Empty(t, out.Hash, "not made up")
	require.Nil(t, out.TotalLines)
	require.EqualValues(t, 8<<30, out.Bytes)
	require.Less(t, time.Since(begun), 5*time.Second)
	bad(t, b, runtime.CodeFileTooLarge, "file.read", args{"path": "big"})
	bad(t, b, runtime.CodeFileTooLarge, "file.read", args{"path": "big", "startLine": 200_000, "endLine": 200_001})
}

func TestAListingIsInOrderCountedAndBounded(t *testing.T) {
	b := bench(t)
	for _, p := range []string{"b/2", "b/1", "a", ".hidden", "c"} {
		b.Write(p, "x")
	}
	require.NoError(t, os.Symlink("b", filepath.Join(b.Dir, "link")))
	paths := func(o fs.ListOutput) (all []string) {
		for _, e := range o.Entries {
			all = append(all, e.Path+" "+string(e.Type))
		}
		return all
	}
	one := good[fs.ListOutput](t, b, "file.list", args{})
	require.Equal(t, []string{".hidden file", "a file", "b dir", "c file", "link symlink"}, paths(one))
	require.Equal(t, "b", one.Entries[4].Target)
	require.Equal(t, "0644", one.Entries[0].Mode)
	two := good[fs.ListOutput](t, b, "file.list", args{"depth": 2, "limit": 4})
	require.Equal(t, []string{".hidden file", "a file", "b dir", "b/1 file"}, paths(two))
	require.Equal(t, 7, two.Total)
	require.True(t, two.Truncated)
	require.Equal(t, []string{"b/1 file", "b/2 file"}, paths(good[fs.ListOutput](t, b, "file.list", args{"path": "./b/"})))
	bad(t, b, runtime.CodeFileNotFound, "file.list", args{"path": "missing"})
	bad(t, b, runtime.CodeNotDirectory, "file.list", args{"path": "a"})
	bad(t, b, runtime.CodePathTraversal, "file.list", args{"path": ".."})
	bad(t, b, runtime.CodeSchemaViolation, "file.list", args{"depth": 0})
}

func TestAPathIsDescribedWithoutFollowingIt(t *testing.T) {
	b := bench(t)
	b.Write("f", "x")
	require.NoError(t, os.Link(filepath.Join(b.Dir, "f"), filepath.Join(b.Dir, "g")))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(b.Dir, "l")))
	f := good[fs.StatOutput](t, b, "file.stat", args{"path": "f"})
	require.Equal(t, hashOf("x"), f.Hash)
	require.EqualValues(t, 2, f.Links)
	require.WithinDuration(t, time.Now(), f.ModTime, time.Minute)
	l := good[fs.StatOutput](t, b, "file.stat", args{"path": "l"})
	require.Equal(t, "/etc/passwd", l.Target)
	require.Empty(t, l.Hash)
	bad(t, b, runtime.CodeFileNotFound, "file.stat", args{"path": "missing"})
}
