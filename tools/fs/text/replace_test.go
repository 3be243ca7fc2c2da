package text_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/tools/fs/text"
)

func TestReplacingKeepsTheBytesAroundIt(t *testing.T) {
	for _, c := range []struct{ name, src, old, replacement, want string }{
		{"plain", "a b c", "b", "B", "a B c"},
		{"LF stands for CRLF", "a\r\nb\r\nc\r\n", "a\nb", "x\ny", "x\r\ny\r\nc\r\n"},
		{"new lines take the ending around them", "a\r\nb\r\n", "b", "b\nc", "a\r\nb\r\nc\r\n"},
		{"mixed endings stay", "a\nb\r\nc\n", "b\n", "B\nBB\n", "a\nB\r\nBB\r\nc\n"},
		{"to the line's end", "a\r\nb\r\n", "a\n", "", "b\r\n"},
		{"from the line's end", "a\r\nb\r\n", "\nb", "\nc", "a\r\nc\r\n"},
		{"CRLF stands for LF", "a\nb\n", "a\r\nb", "x\r\ny", "x\ny\n"},
		{"mark", text.BOM + "a", "a", "b", text.BOM + "b"},
		{"latin-1", "caf\xe9 x", "é x", "è y", "caf\xe8 y"},
		{"UTF-8 in a broken file", "é \xff", "é", "è", "è \xff"},
		{"UTF-16", "\xff\xfea\x00b\x00", "a", "ß", "\xff\xfe\xdf\x00b\x00"},
		{"emptied", "a", "a", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := text.Replace([]byte(c.src), c.old, c.replacement, false)
			require.NotNil(t, r.Data)
			require.Equal(t, c.want, string(r.Data))
		})
	}
}

func TestOneTextInSeveralPlacesIsNotReplaced(t *testing.T) {
	r := text.Replace([]byte("x\ny\nx\n"), "x", "z", false)
	require.Nil(t, r.Data)
	require.Equal(t, []int{1, 3}, r.Lines)
	require.Nil(t, text.Replace([]byte("aaa"), "aa", "b", false).Data, "places that overlap are two")
	require.Equal(t, "z\ny\nz\n", string(text.Replace([]byte("x\ny\nx\n"), "x", "z", true).Data))
	require.Empty(t, text.Replace([]byte("abc"), "x", "y", true).Lines)
}

func TestWhatTheEncodingHasNotIsSaidSo(t *testing.T) {
	r := text.Replace([]byte("caf\xe9"), "é", "☕", false)
	require.True(t, r.Unencodable)
	require.Nil(t, r.Data)
}

// Where text is found as it is, replacing all of it is what strings does.
func TestReplacingAllAgreesWithTheLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := rapid.StringOfN(rapid.SampledFrom([]rune("ab\né")), 0, 30, -1).Draw(t, "src")
		old := rapid.StringOfN(rapid.SampledFrom([]rune("ab\né")), 1, 3, -1).Draw(t, "old")
		r := text.Replace([]byte(src), old, "X", true)
		require.Equal(t, strings.Count(src, old), len(r.Lines))
		if len(r.Lines) > 0 {
			require.True(t, bytes.Equal([]byte(strings.ReplaceAll(src, old, "X")), r.Data))
		}
	})
}
