package summary_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/tools/shell/summary"
)

// The samples are what the tools wrote, only their directory was renamed.
func TestErrorsOfKnownToolchainsAreFound(t *testing.T) {
	for sample, want := range map[string][]summary.Finding{
		"gotest": {
			{File: "parser/p_test.go", Line: 7, Message: "TestAdd: Add(1, 2) = -1, want 3"},
			{File: "parser/p_test.go", Line: 10, Message: "TestAdd/sub: second failure"},
		},
		"gopanic": {{File: "parser/p.go", Line: 5, Message: "panic: runtime error: invalid memory address or nil pointer dereference"}},
		"gobuild": {
			{File: "parser/bad.go", Line: 3, Column: 14, Message: "declared and not used: x"},
			{File: "parser/bad.go", Line: 3, Column: 29, Message: "too many return values"},
		},
		"gcc": {
			{File: "bad.c", Line: 4, Column: 17, Message: "expected expression before ‘;’ token"},
			{File: "bad.c", Line: 5, Column: 10, Message: "‘y’ undeclared (first use in this function)"},
		},
		"ld": {{File: "link.c", Line: 2, Message: "undefined reference to `helper'"}},
		"unittest": {
			{File: "test_calc.py", Line: 5, Message: "test_div: ZeroDivisionError: division by zero"},
			{File: "test_calc.py", Line: 10, Message: "test_add: AssertionError: 2 != 3"},
		},
		"pytest": {
			{File: "test_calc.py", Line: 10, Message: "AssertionError: 2 != 3"},
			{File: "test_calc.py", Line: 5, Message: "ZeroDivisionError: division by zero"},
			{File: "test_more.py", Line: 10, Message: "assert 5 == 6"},
		},
		"javac": {
			{File: "App.java", Line: 2, Message: "incompatible types: String cannot be converted to int"},
			{File: "App.java", Line: 3, Message: "cannot find symbol"},
		},
		"cargobuild": {{File: "src/lib.rs", Line: 10, Column: 23, Message: "E0308 mismatched types"}},
		"cargotest":  {{File: "src/lib.rs", Line: 7, Column: 9, Message: "tests::adds: assertion `left == right` failed"}},
		"tsc": {
			{File: "src/a.ts", Line: 1, Column: 7, Message: "TS2322: Type 'string' is not assignable to type 'number'."},
			{File: "src/a.ts", Line: 2, Column: 32, Message: "TS2304: Cannot find name 'y'."},
		},
		"tscpretty": {
			{File: "src/a.ts", Line: 1, Column: 7, Message: "TS2322: Type 'string' is not assignable to type 'number'."},
			{File: "src/a.ts", Line: 2, Column: 32, Message: "TS2304: Cannot find name 'y'."},
		},
		"jest": {
			{File: "src/sum.test.js", Line: 5, Column: 23, Message: "sum › adds: expect(received).toBe(expected) // Object.is equality"},
			{File: "src/sum.test.js", Line: 8, Column: 10, Message: "sum › throws: TypeError: Cannot read properties of null (reading 'x')"},
		},
	} {
		t.Run(sample, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", sample+".txt"))
			require.NoError(t, err)
			require.Equal(t, want, summary.Of("/workspace", string(text), ""))
			require.Equal(t, want, summary.Of("/workspace", "", string(text)))
		})
	}
}

func TestUnknownOutputHasNoSummary(t *testing.T) {
	for _, text := range []string{
		"", "hello\nworld\n", "error: something\n", "12:34:56 connected\n", "see http://a.example:80: error\n",
		"bad.c:4:7: warning: unused variable\n", "1 2 3\n", strings.Repeat("x", 1<<20), "drwxr-xr-x 2 a b 4096 Dec 1 02:53 .\n",
	} {
		require.Empty(t, summary.Of("/workspace", text, text), "%.60q", text)
	}
}

func FuzzSummaryIsBounded(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(f, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		found := summary.Of("/workspace", text, "")
		require.LessOrEqual(t, len(found), 20)
		for _, one := range found {
			require.NotEmpty(t, one.Message)
			require.Less(t, len(one.Message), 600)
			require.Less(t, len(one.File), 1100)
			require.True(t, utf8.ValidString(one.Message) && utf8.ValidString(one.File))
			require.GreaterOrEqual(t, one.Line, 0)
			require.LessOrEqual(t, one.Line, 100_000_000)
		}
	})
}
