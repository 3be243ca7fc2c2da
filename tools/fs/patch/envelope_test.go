package patch_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/tools/fs/patch"
)

const twoFunctions = "func a() {\n\treturn nil\n}\n\nfunc b() {\n\treturn nil\n}\n"

func envelope(body string) string { return "*** Begin Patch\n" + body + "*** End Patch\n" }

func TestAnEnvelopeSaysWhatHappensToEachFile(t *testing.T) {
	p, err := patch.Parse(envelope("*** Add File: new.txt\n+one\n+two\n*** Delete File: gone.txt\n*** Update File: old.go\n*** Move to: moved.go\n@@ func b() {\n-\treturn nil\n+\treturn err\n"), patch.Options{})
	require.NoError(t, err)
	require.Len(t, p.Files, 3)
	r, err := p.Files[0].Apply(nil)
	require.NoError(t, err)
	require.Equal(t, "one\ntwo\n", string(r.Data))
	r, err = p.Files[1].Apply([]byte("whatever\n"))
	require.NoError(t, err)
	require.Nil(t, r.Data)
	require.Equal(t, []any{patch.OpRename, "old.go", "moved.go"}, []any{p.Files[2].Op, p.Files[2].Old, p.Files[2].New})
	r, err = p.Files[2].Apply([]byte(twoFunctions))
	require.NoError(t, err, "the anchor tells the two apart")
	require.Equal(t, strings.Replace(twoFunctions, "func b() {\n\treturn nil", "func b() {\n\treturn err", 1), string(r.Data))
}

func TestAChangeWithoutNumbersGoesToItsOnlyPlace(t *testing.T) {
	for name, c := range map[string]struct{ src, body, want, note string }{
		"nested anchors":        {"class A\n def f\n  x\nclass B\n def f\n  x\n", "@@ class B\n@@ def f\n-  x\n+  y\n", "class A\n def f\n  x\nclass B\n def f\n  y\n", ""},
		"no @@ at first":        {"a\nb\n", " a\n-b\n+B\n", "a\nB\n", ""},
		"addition at anchor":    {"a\nb\n", "@@ a\n+x\n", "a\nx\nb\n", ""},
		"addition at the end":   {"a\nb\n", "@@\n+x\n*** End of File\n", "a\nb\nx\n", ""},
		"end of file":           {"x\ny\nx\n", "@@\n-x\n+z\n*** End of File\n", "x\ny\nz\n", ""},
		"CRLF and BOM kept":     {"\xef\xbb\xbfa\r\nb\r\n", "@@\n a\n-b\n+B\n", "\xef\xbb\xbfa\r\nB\r\n", ""},
		"space at line ends":    {"a  \nb\n", "@@\n a\n-b\n+B\n", "a  \nB\n", "space at the ends"},
		"space around":          {"\ta\nb\n", "@@\n a\n-b\n+B\n", "\ta\nB\n", "space around lines"},
		"typographic quotes":    {"say \u201chi\u201d\nb\n", "@@\n say \"hi\"\n-b\n+B\n", "say \u201chi\u201d\nB\n", "typographic"},
		"label that is no line": {"a\nb\n", "@@ somewhere else\n a\n-b\n+B\n", "a\nB\n", ""},
		"two in a row":          {"a\nb\na\nb\nc\n", "@@ a\n-b\n+B\n@@ a\n-b\n+C\n", "a\nB\na\nC\nc\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := patch.Parse(envelope("*** Update File: f\n"+c.body), patch.Options{})
			require.NoError(t, err)
			r, err := p.Files[0].Apply([]byte(c.src))
			require.NoError(t, err)
			require.Equal(t, c.want, string(r.Data))
			require.Contains(t, strings.Join(r.Notes, "\n"), c.note)
			if c.note == "" {
				require.Empty(t, r.Notes)
			}
		})
	}
}

func TestAChangeWithoutNumbersThatFitsTwiceIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		src, body  string
		candidates []int
	}{
		"exactly":                   {twoFunctions, "@@\n-\treturn nil\n+\treturn err\n", []int{2, 6}},
		"but for space":             {"x \ny\nx \n", "@@\n-x\n+z\n", []int{1, 3}},
		"but for space, and anchor": {"a\nx \ny\nx \n", "@@ a\n-x\n+z\n", []int{2, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := patch.Parse(envelope("*** Update File: f\n"+c.body), patch.Options{})
			require.NoError(t, err)
			_, err = p.Files[0].Apply([]byte(c.src))
			m, ok := errors.AsType[*patch.MismatchError](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, patch.ReasonAmbiguous, m.Reason)
			require.Equal(t, c.candidates, m.Candidates)
		})
	}
}

func TestAnEnvelopeThatCannotBeReadNamesItsLine(t *testing.T) {
	for body, line := range map[string]int{
		"garbage\n":                              2,
		"*** Update File: f\n":                   2,
		"*** Update File: \n@@\n-a\n":            2,
		"*** Add File: f\nno plus\n":             3,
		"*** Update File: f\n@@\n a\nb\n":        5,
		"*** Frobnicate File: f\n":               2,
		"*** Delete File: f\n*** End Patch\nx\n": 4,
	} {
		_, err := patch.Parse(envelope(body), patch.Options{})
		e, ok := errors.AsType[*patch.SyntaxError](err)
		require.True(t, ok, "%q: %v", body, err)
		require.Equal(t, line, e.Line, "%q: %v", body, err)
	}
}
