package patch_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/tools/fs/patch"
)

func one(t *testing.T, src, diff string) (*patch.Result, error) {
	t.Helper()
	p, err := patch.Parse(diff, patch.Options{Path: "f"})
	require.NoError(t, err)
	require.Len(t, p.Files, 1)
	before := strings.Clone(src)
	r, err := p.Files[0].Apply([]byte(src))
	require.Equal(t, before, src)
	return r, err
}

func TestBytesOutsideTheChangeAreKept(t *testing.T) {
	for _, c := range []struct{ name, src, diff, want string }{
		{"LF patch on CRLF file", "a\r\nb\r\nc\r\n", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", "a\r\nB\r\nc\r\n"},
		{"CRLF patch on LF file", "a\nb\nc\n", "@@ -1,3 +1,3 @@\r\n a\r\n-b\r\n+B\r\n c\r\n", "a\nB\nc\n"},
		{"CRLF patch on CRLF file", "a\r\nb\r\n", "@@ -1,2 +1,3 @@\r\n a\r\n+x\r\n b\r\n", "a\r\nx\r\nb\r\n"},
		{"git diff of CRLF file", "a\r\nb\r\n", "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\r\n-b\r\n+B\r\n", "a\r\nB\r\n"},
		{"git diff that converts to LF", "a\r\nb\r\n", "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\r\n-b\r\n+b\n", "a\r\nb\n"},
		{"git diff that converts to CRLF", "a\nb\n", "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+b\r\n", "a\nb\r\n"},
		{"mixed endings stay", "a\r\nb\nc\r\nd\n", "@@ -1,4 +1,4 @@\n a\n-b\n+B\n c\n d\n", "a\r\nB\nc\r\nd\n"},
		{"insert takes the ending before it", "a\r\nb\nc\n", "@@ -1,2 +1,3 @@\n a\n+x\n b\n", "a\r\nx\r\nb\nc\n"},
		{"BOM stays, first line matches", "\xef\xbb\xbfimport os\nx\n", "@@ -1,2 +1,2 @@\n-import os\n+import sys\n x\n", "\xef\xbb\xbfimport sys\nx\n"},
		{"BOM spelled out", "\xef\xbb\xbfimport os\nx\n", "@@ -1,2 +1,2 @@\n-\ufeffimport os\n+\ufeffimport sys\n x\n", "\xef\xbb\xbfimport sys\nx\n"},
		{"BOM removed on purpose", "\xef\xbb\xbfa\nx\n", "@@ -1,2 +1,2 @@\n-\ufeffa\n+a\n x\n", "a\nx\n"},
		{"one BOM only", "\xef\xbb\xbfa\nx\n", "@@ -1,2 +1,2 @@\n-a\n+\ufeffb\n x\n", "\xef\xbb\xbfb\nx\n"},
		{"append after an unterminated line", "hello\nworld", "@@ -1,2 +1,3 @@\n hello\n world\n+tail\n", "hello\nworld\ntail\n"},
		{"missing final newline stays", "l1\nl2\nl3", "@@ -1,2 +1,2 @@\n-l1\n+L1\n l2\n", "L1\nl2\nl3"},
		{"replaced last line stays unterminated", "l1\nl2", "@@ -1,2 +1,2 @@\n l1\n-l2\n+L2\n", "l1\nL2"},
		{"marker removes the final newline", "a\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n+b\n\\ No newline at end of file\n", "a\nb"},
		{"marker adds the final newline", "a\nb", "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n", "a\nb\n"},
		{"append at the end", "a\nb\n", "@@ -2 +2,2 @@\n b\n+c\n", "a\nb\nc\n"},
		{"into an empty file", "", "@@ -0,0 +1 @@\n+x\n", "x\n"},
		{"emptied", "x\n", "@@ -1 +0,0 @@\n-x\n", ""},
		{"latin-1 stays, inserted too", "caf\xe9\nx\n", "@@ -1,2 +1,3 @@\n café\n+né\n x\n", "caf\xe9\nn\xe9\nx\n"},
		{"bytes that are not UTF-8 stay", "é\n\xff\xfe\xfd\nx\n", "@@ -3 +3 @@\n-x\n+ü\n", "é\n\xff\xfe\xfd\nü\n"},
		{"UTF-16 with its mark", "\xff\xfea\x00\n\x00b\x00\r\x00\n\x00", "@@ -2 +2 @@\n-b\n+ß\n", "\xff\xfea\x00\n\x00\xdf\x00\r\x00\n\x00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := one(t, c.src, c.diff)
			require.NoError(t, err)
			require.Equal(t, c.want, string(r.Data))
		})
	}
}
