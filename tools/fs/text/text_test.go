package text_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/tools/fs/text"
)

// someBytes draws bytes that are rich in endings and broken characters.
func someBytes() *rapid.Generator[[]byte] {
	piece := rapid.SampledFrom([]string{"a", "bc", "\n", "\r\n", "\r", "é", "☕", "𝄞", "\xff", "\xc3", "\xe2\x98", text.BOM, ""})
	return rapid.Map(rapid.SliceOfN(piece, 0, 30), func(ps []string) []byte { return []byte(strings.Join(ps, "")) })
}

func TestLinesJoinToTheBytesTheyWereCutFrom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := someBytes().Draw(t, "data")
		require.Equal(t, string(data), string(text.Join(text.Split(data))))
	})
}

func TestAFileInPartsIsToldAsAWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := someBytes().Draw(t, "data")
		whole, parts := text.NewScanner(), text.NewScanner()
		whole.Write(data)
		for rest := data; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "part")
			parts.Write(rest[:n])
			rest = rest[n:]
		}
		require.Equal(t, whole.Encoding(), parts.Encoding())
		require.Equal(t, whole.Endings(), parts.Endings())
		require.Equal(t, whole.Lines(), parts.Lines())
		require.Equal(t, int64(len(text.Split(data))), whole.Lines())
	})
}

func TestAWindowInPartsKeepsWhatAWholeOneKeeps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := someBytes().Draw(t, "data")
		from := rapid.Int64Range(1, 8).Draw(t, "from")
		to := rapid.Int64Range(from, 12).Draw(t, "to")
		limit := rapid.IntRange(1, 40).Draw(t, "limit")
		w := text.NewWindow(from, to, limit)
		for rest := data; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "part")
			w.Write(rest[:n])
			rest = rest[n:]
		}
		lines := bytes.SplitAfter(data, []byte("\n"))
		if len(lines[len(lines)-1]) == 0 {
			lines = lines[:len(lines)-1]
		}
		var want []byte
		last := from - 1
		for n := from; n <= min(to, int64(len(lines))) && len(want)+len(lines[n-1]) <= limit; n++ {
			want, last = append(want, lines[n-1]...), n
		}
		if w.Cut() {
			require.Equal(t, from, w.Last())
			require.Empty(t, want)
			require.True(t, bytes.HasPrefix(lines[from-1], w.Content()))
			return
		}
		require.Equal(t, string(want), string(w.Content()))
		require.Equal(t, last, w.Last())
		require.Equal(t, last < min(to, int64(len(lines))), w.Full())
	})
}

func TestALongLineIsCutBetweenCharacters(t *testing.T) {
	w := text.NewWindow(1, 1, 4)
	w.Write([]byte("ab☕☕☕\n"))
	require.Equal(t, "ab", string(w.Content()))
	require.True(t, w.Cut())
}

func TestEncodingsAreToldApart(t *testing.T) {
	for data, want := range map[string]text.Encoding{
		"":                              text.UTF8,
		"abc":                           text.UTF8,
		"é":                             text.UTF8,
		text.BOM + "a":                  text.UTF8BOM,
		"caf\xe9":                       text.Latin1,
		"é \xff":                        text.Unknown8Bit,
		"a\x00b":                        text.Binary,
		"\xff\xfea\x00":                 text.UTF16LE,
		"\xfe\xff\x00a":                 text.UTF16BE,
		"\xff\xfe\x00\x00a\x00\x00\x00": text.Binary,
		"truncated \xe2\x98":            text.Latin1,
	} {
		require.Equal(t, want, text.Detect([]byte(data)), "%q", data)
	}
}

func TestUTF16ComesBackTheSameOrIsNotDecoded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := append([]byte("\xff\xfe"), rapid.SliceOfN(rapid.Byte(), 0, 12).Draw(t, "data")...)
		decoded, ok := text.DecodeUTF16(data, text.UTF16LE)
		if ok {
			require.Equal(t, data, text.EncodeUTF16(decoded, text.UTF16LE))
		}
	})
	decoded, ok := text.DecodeUTF16([]byte("\xfe\xff\x00a\xd8\x34\xdd\x1e"), text.UTF16BE)
	require.True(t, ok)
	require.Equal(t, "a𝄞", string(decoded))
	_, ok = text.DecodeUTF16([]byte("\xff\xfe\x00\xd8"), text.UTF16LE)
	require.False(t, ok, "a lone surrogate")
}

func TestEveryByteHasAViewAndAWayBack(t *testing.T) {
	var all []byte
	for b := range 256 {
		all = append(all, byte(b))
	}
	raw, ok := text.ToLatin1(text.View(all))
	require.True(t, ok)
	require.Equal(t, all, raw)
	_, ok = text.ToLatin1([]byte("☕"))
	require.False(t, ok)
}
