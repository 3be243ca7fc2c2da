package artifact_test

import (
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/runtime/artifact"
)

func capture(text string, head, tail, chunk int) artifact.Excerpt {
	c := artifact.NewCapture(head, tail)
	for len(text) > 0 {
		n := min(chunk, len(text))
		_, _ = io.WriteString(c, text[:n])
		text = text[n:]
	}
	return c.Excerpt()
}

func TestAShortStreamIsKeptWhole(t *testing.T) {
	for _, text := range []string{"", "a", strings.Repeat("ä", 60)} {
		e := capture(text, 100, 100, 7)
		require.Equal(t, text, string(e.Head))
		require.Empty(t, e.Tail)
		require.Zero(t, e.Omitted)
	}
}

func TestHeadAndTailAreTheStreamsOwnAndTheGapIsCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("abc\näß漢😀")), 0, 3000, -1).Draw(t, "text")
		head, tail := rapid.IntRange(0, 300).Draw(t, "head"), rapid.IntRange(0, 300).Draw(t, "tail")
		e := capture(text, head, tail, rapid.IntRange(1, 900).Draw(t, "chunk"))
		require.True(t, strings.HasPrefix(text, string(e.Head)))
		require.True(t, strings.HasSuffix(text, string(e.Tail)))
		require.EqualValues(t, len(text), len(e.Head)+len(e.Tail)+int(e.Omitted))
		require.True(t, utf8.Valid(e.Head), "no rune is cut")
		require.True(t, utf8.Valid(e.Tail), "no rune is cut")
		if e.Omitted > 0 {
			require.LessOrEqual(t, len(e.Head), head)
			require.LessOrEqual(t, len(e.Tail), tail)
			require.Greater(t, len(e.Head), head-utf8.UTFMax)
			require.Greater(t, len(e.Tail), tail-utf8.UTFMax)
		}
	})
}

func TestControlSequencesAreNotCut(t *testing.T) {
	unit := "\x1b[38;5;200mx\x1b[0m\x1b]8;;http://example.org/\x1b\\l\x1b]8;;\a"
	text := strings.Repeat(unit, 200)
	for head := range 60 {
		e := capture(text, 500+head, 500+head, 97)
		for _, part := range [][]byte{e.Head, e.Tail} {
			got := artifact.Clean(part).Text
			require.NotEmpty(t, got)
			require.Empty(t, strings.Trim(got, "xl"), "%q", got)
		}
		require.Equal(t, e.Tail[0] == 0x1b || e.Tail[0] == 'x' || e.Tail[0] == 'l', true)
	}
}

func TestCleanKeepsWhatAPersonWouldSee(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain", "a\tb\nc", "a\tb\nc"},
		{"colour", "\x1b[1;31mred\x1b[0m", "red"},
		{"title and link", "\x1b]0;title\aa\x1b]8;;http://x\x1b\\b", "ab"},
		{"clipboard", "\x1b]52;c;ZXZpbA==\a.", "."},
		{"dos lines", "a\r\nb\r\n", "a\nb\n"},
		{"progress", "10%\r50%\r100%\ndone", "100%\ndone"},
		{"progress at the end", "10%\r50%\r", "50%"},
		{"erase line", "abc\r\x1b[Kd\n", "d\n"},
		{"backspace", "abc\b\bxy\n\b\bz", "axy\nz"},
		{"backspace over runes", "ä漢\bx", "äx"},
		{"bell and nul", "a\ab\x00c\x7f", "abc"},
		{"c1", "a\u009b31mb\u0085", "a31mb"},
		{"bidi", "a\u202eb\u2066c", "abc"},
		{"tags", "a\U000e0041b", "ab"},
		{"unfinished at the end", "abc\x1b[31", "abc"},
		{"unfinished string hides nothing", "a\x1b]0;title\nevidence\nmore", "a0;title\nevidence\nmore"},
		{"string over lines hides nothing", "a\x1bPx\nevidence\x1b\\b", "ax\nevidenceb"},
		{"sequence broken off", "\x1b[3\nx", "\nx"},
		{"escape alone", "a\x1b", "a"},
		{"charset", "\x1b(Bx", "Bx"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, artifact.Clean([]byte(c.in)).Text)
		})
	}
	got := artifact.Clean([]byte("a\xffb\xc3"))
	require.Equal(t, artifact.Cleaned{Text: "a\ufffdb\ufffd", InvalidUTF8: true}, got)
	require.True(t, artifact.Clean([]byte("1\r2")).Rewritten)
}

func FuzzClean(f *testing.F) {
	f.Add([]byte("\x1b[31mx\r\n\b\x1b]0;t\a\xff\u202e"))
	f.Fuzz(func(t *testing.T, text []byte) {
		got := artifact.Clean(text).Text
		require.True(t, utf8.ValidString(got))
		require.NotContains(t, got, "\x1b")
		require.NotContains(t, got, "\r")
		require.Equal(t, got, artifact.Clean([]byte(got)).Text, "what is clean stays as it is")
	})
}

func FuzzCapture(f *testing.F) {
	f.Add([]byte("\x1b[31mx\xff\xf0\x9f"), uint16(3), uint16(4), uint64(1))
	f.Fuzz(func(t *testing.T, text []byte, head, tail uint16, seed uint64) {
		c := artifact.NewCapture(int(head), int(tail))
		rnd := rand.New(rand.NewPCG(seed, 1))
		for rest := text; len(rest) > 0; {
			n := 1 + rnd.IntN(len(rest))
			_, _ = c.Write(rest[:n])
			rest = rest[n:]
		}
		e := c.Excerpt()
		require.True(t, strings.HasPrefix(string(text), string(e.Head)))
		require.True(t, strings.HasSuffix(string(text), string(e.Tail)))
		require.Equal(t, len(text), len(e.Head)+len(e.Tail)+int(e.Omitted))
	})
}

func TestDescribeTellsTextFromBinary(t *testing.T) {
	for _, c := range []struct {
		in, kind string
		binary   bool
	}{
		{"hello\n", "text/plain; charset=utf-8", false},
		{"", "text/plain", false},
		{`{"a":1}`, "application/json", false},
		{"a\x00b", "application/octet-stream", true},
		{"\x89PNG\r\n\x1a\n", "image/png", true},
		{"\x7fELF\x02\x01\x01", "application/x-elf", true},
	} {
		require.Equal(t, artifact.Description{Type: c.kind, Binary: c.binary}, artifact.Describe([]byte(c.in)), "%q", c.in)
	}
}
