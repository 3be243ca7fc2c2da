package patch_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/tools/fs/patch"
)

func refused(t *testing.T, src, diff string) *patch.MismatchError {
	t.Helper()
	_, err := one(t, src, diff)
	e, ok := errors.AsType[*patch.MismatchError](err)
	require.True(t, ok, "not refused: %v", err)
	return e
}

// numbered is a file of lines l1…ln.
func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "l%d\n", i+1)
	}
	return b.String()
}

func TestAHunkThatFitsInSeveralPlacesIsRefusedWithTheirLines(t *testing.T) {
	lines := strings.Split(numbered(100), "\n")
	for _, at := range []int{10, 40, 90} {
		lines[at-1] = "  return nil"
	}
	src := strings.Join(lines, "\n")
	e := refused(t, src, "@@ -60,1 +60,1 @@\n-  return nil\n+  return err\n")
	require.Equal(t, patch.ReasonAmbiguous, e.Reason)
	require.Equal(t, []int{10, 40, 90}, e.Candidates)
	require.Contains(t, e.Message, "10, 40, 90")

	r, err := one(t, src, "@@ -40,1 +40,1 @@\n-  return nil\n+  return err\n")
	require.NoError(t, err, "the stated line decides")
	require.Equal(t, "  return err", strings.Split(string(r.Data), "\n")[39])
}

func TestAMismatchNamesTheNearestPlaceAndWhatDiffers(t *testing.T) {
	src := strings.Replace(numbered(50), "l31\n", "l31 changed since\n", 1)
	e := refused(t, src, "@@ -28,5 +28,5 @@\n l29\n l30\n l31\n-l32\n+L32\n l33\n")
	require.Equal(t, patch.ReasonNoMatch, e.Reason)
	require.Equal(t, &patch.Nearest{
		StartLine: 29, EndLine: 33, Equal: 4, Of: 5, DiffersAt: 31, Expected: "l31", Found: "l31 changed since",
		Lines: []string{"l29", "l30", "l31 changed since", "l32", "l33"},
	}, e.Nearest)
	require.Equal(t, 4, e.PatchLine)
	require.Contains(t, e.Message, `at line 31 the patch expects "l31", the file has "l31 changed since"`)
}

// Two functions that are nearly the same: the hunk's context is of the first,
// which has changed since; the second must not take it.
func TestThereIsNoSimilarityMatching(t *testing.T) {
	src := "func f1() {\n\tx := 9\n\ty := 2\n\treturn\n}\nfunc f2() {\n\tx := 1\n\ty := 2\n\treturn\n}\n"
	e := refused(t, src, "@@ -1,5 +1,5 @@\n func f1() {\n \tx := 1\n-\ty := 2\n+\ty := 3\n \treturn\n }\n")
	require.Equal(t, patch.ReasonNoMatch, e.Reason)
	require.Equal(t, 2, e.Nearest.DiffersAt)
}

func TestHunksThatOverlapOrAreOutOfOrderAreRefused(t *testing.T) {
	src := numbered(5)
	overlap := "@@ -1,3 +1,3 @@\n l1\n-l2\n+L2\n l3\n@@ -2,3 +2,3 @@\n l2\n-l3\n+L3\n l4\n"
	require.Equal(t, patch.ReasonOverlap, refused(t, src, overlap).Reason)
	reversed := "@@ -4,1 +4,1 @@\n-l4\n+L4\n@@ -1,1 +1,1 @@\n-l1\n+L1\n"
	require.Equal(t, patch.ReasonOrder, refused(t, src, reversed).Reason)

	r, err := one(t, src, "@@ -1,2 +1,2 @@\n l1\n-l2\n+L2\n@@ -3,2 +3,2 @@\n-l3\n+L3\n l4\n")
	require.NoError(t, err, "hunks may touch")
	require.Equal(t, "l1\nL2\nL3\nl4\nl5\n", string(r.Data))
}

func TestAChangeThatIsMadeAlreadyIsSaidSo(t *testing.T) {
	e := refused(t, "a\nB\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n")
	require.Equal(t, patch.ReasonApplied, e.Reason)
}

func TestTheMarkerForNoFinalNewlineMustStandAtTheEnd(t *testing.T) {
	e := refused(t, "a\nb\nc\n", "@@ -1,2 +1,2 @@\n a\n-b\n+B\n\\ No newline at end of file\n")
	require.Equal(t, patch.ReasonFinalEnd, e.Reason)
	e = refused(t, "a\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+B\n")
	require.Equal(t, patch.ReasonNoMatch, e.Reason)
}

func TestADeleteMustRemoveEveryLine(t *testing.T) {
	const diff = "diff --git a/f b/f\ndeleted file mode 100644\n--- a/f\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-l1\n-l2\n"
	require.Equal(t, patch.ReasonIncomplete, refused(t, numbered(3), diff).Reason)
	r, err := one(t, numbered(2), diff)
	require.NoError(t, err)
	require.Nil(t, r.Data)
}

func TestCharactersThatTheFileCannotStoreAreRefused(t *testing.T) {
	e := refused(t, "caf\xe9\n", "@@ -1 +1 @@\n-café\n+café ☕\n")
	require.Equal(t, patch.ReasonUnencodable, e.Reason)
}

func TestHarmlessSlipsOfAPatchAreForgivenAndNoted(t *testing.T) {
	src := "a\n\nc\nd\n"
	for name, c := range map[string]struct{ diff, want, note string }{
		"no final newline of the patch":    {"@@ -3,2 +3,2 @@\n c\n-d\n+D", "a\n\nc\nD\n", ""},
		"lost space of an empty context":   {"@@ -1,3 +1,3 @@\n a\n\n-c\n+C\n", "a\n\nC\nd\n", ""},
		"trimmed trailing context":         {"@@ -1,4 +1,4 @@\n-a\n+A\n", "A\n\nc\nd\n", "recounted"},
		"wrong counts":                     {"@@ -1,9 +1,7 @@\n-a\n+A\n \n c\n", "A\n\nc\nd\n", "recounted"},
		"counts too small":                 {"@@ -3,1 +3,1 @@\n c\n-d\n+D\n", "a\n\nc\nD\n", "recounted"},
		"no numbers":                       {"@@\n c\n-d\n+D\n", "a\n\nc\nD\n", ""},
		"wrong line, one place":            {"@@ -1,2 +1,2 @@\n c\n-d\n+D\n", "a\n\nc\nD\n", ""},
		"Markdown fence":                   {"```diff\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+A\n```\n", "A\n\nc\nd\n", "fence"},
		"no prefixes":                      {"--- f\n+++ f\n@@ -1 +1 @@\n-a\n+A\n", "A\n\nc\nd\n", ""},
		"time stamps":                      {"--- f.orig\t2026-01-01 00:00:00\n+++ f\t2026-01-01 00:00:01\n@@ -1 +1 @@\n-a\n+A\n", "A\n\nc\nd\n", ""},
		"a mail around it, and signature":  {"From 1 Mon\nSubject: x\n\n---\n f | 2 +-\n\ndiff --git a/f b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+A\n-- \n2.39.5\n", "A\n\nc\nd\n", ""},
		"removed line that looks a header": {"--- a/f\n+++ b/f\n@@ -1,1 +1,1 @@\n-a\n+A\n", "A\n\nc\nd\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := patch.Parse(c.diff, patch.Options{Path: "f"})
			require.NoError(t, err)
			r, err := p.Files[0].Apply([]byte(src))
			require.NoError(t, err)
			require.Equal(t, c.want, string(r.Data))
			notes := strings.Join(p.Notes, "\n")
			if c.note == "" {
				require.Empty(t, notes)
			}
			require.Contains(t, notes, c.note)
		})
	}
}

func TestLinesThatLookLikeHeadersAreContentWhereCountsSaySo(t *testing.T) {
	r, err := one(t, "-- a\nx\n", "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n--- a\n+++ b\n x\n")
	require.NoError(t, err)
	require.Equal(t, "++ b\nx\n", string(r.Data))
}

func TestPatchesThatCannotBeReadNameTheirLine(t *testing.T) {
	for name, c := range map[string]struct {
		diff, path, message string
		line                int
	}{
		"nothing":                 {"hello\n", "", "unified diff is required", 0},
		"hunk without header":     {"@@ -1 +1 @@\n-a\n+b\n", "", "no file header", 1},
		"line without a sign":     {"--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\nb\n", "", "begins with none of", 5},
		"broken hunk header":      {"--- a/f\n+++ b/f\n@@ -x +1 @@\n-a\n+b\n", "", "not a hunk header", 3},
		"binary":                  {"diff --git a/f b/f\nGIT binary patch\nliteral 1\n", "", "base64", 2},
		"binary files differ":     {"diff --git a/f b/f\nBinary files a/f and b/f differ\n", "", "base64", 2},
		"symbolic link":           {"diff --git a/f b/f\nnew file mode 120000\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+/etc/passwd\n", "", "symbolic link", 1},
		"submodule":               {"diff --git a/f b/f\nindex 1..2 160000\nnew file mode 160000\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+Subproject commit 1\n", "", "submodule", 1},
		"names that disagree":     {"diff --git a/x b/x\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n", "", "different files", 1},
		"rename that disagrees":   {"diff --git a/x b/y\nrename from x\nrename to z\n", "", "different files", 1},
		"two names, no rename":    {"--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n", "", "rename from", 1},
		"other than the argument": {"--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-a\n+b\n", "a.txt", "path argument", 1},
		"one file twice":          {"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n--- a/f\n+++ b/f\n@@ -2 +2 @@\n-a\n+b\n", "", "two sections", 6},
		"create with context":     {"--- /dev/null\n+++ b/f\n@@ -1 +1,2 @@\n a\n+b\n", "", "context or removed", 3},
		"merge diff":              {"diff --cc f\n", "", "combined diff", 1},
		"both sides null":         {"--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n", "", "name the file", 1},
		"no hunk":                 {"--- a/f\n+++ b/f\n", "", "no hunk", 1},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := patch.Parse(c.diff, patch.Options{Path: c.path})
			e, ok := errors.AsType[*patch.SyntaxError](err)
			require.True(t, ok, "%v", err)
			require.Contains(t, e.Message, c.message)
			require.Equal(t, c.line, e.Line)
		})
	}
}

func TestHeadersSayWhatHappensToEachFile(t *testing.T) {
	p, err := patch.Parse(strings.Join([]string{
		"--- /dev/null", "+++ b/plain", "@@ -0,0 +1,2 @@", "+1", "+2",
		"diff --git a/old name.txt b/new name.txt", "similarity index 90%", "rename from old name.txt", "rename to new name.txt",
		"--- a/old name.txt\t", "+++ b/new name.txt\t", "@@ -1 +1 @@", "-a", "+b",
		"diff --git a/run.sh b/run.sh", "old mode 100644", "new mode 100755",
		`diff --git "a/\303\244.txt" "b/\303\244.txt"`, "deleted file mode 100644", "index 1..0",
		"diff --git a/empty b/empty", "new file mode 100755", "index 0..0",
		"diff --git a/x b/y", "copy from x", "copy to y", "",
	}, "\n"), patch.Options{})
	require.NoError(t, err)
	type row struct {
		op       patch.Op
		old, new string
		mode     fs.FileMode
		hunks    int
	}
	var got []row
	for _, f := range p.Files {
		got = append(got, row{f.Op, f.Old, f.New, f.Mode, len(f.Hunks)})
	}
	require.Equal(t, []row{
		{patch.OpCreate, "", "plain", 0, 1},
		{patch.OpRename, "old name.txt", "new name.txt", 0, 1},
		{patch.OpModify, "run.sh", "run.sh", 0o755, 0},
		{patch.OpDelete, "ä.txt", "", 0, 0},
		{patch.OpCreate, "", "empty", 0o755, 0},
		{patch.OpCopy, "x", "y", 0, 0},
	}, got)
}

// What a patch or its sender makes long costs time in proportion, and no more.
func TestHostilePatchesAreRefusedAtOnce(t *testing.T) {
	begun := time.Now()
	for _, diff := range []string{
		"diff --git " + strings.Repeat("a ", 1<<21) + "\nold mode 100644\nnew mode 100755\n",
		strings.Repeat("\n", 8<<20),
		"--- a/f\n+++ b/f\n" + strings.Repeat("@@ -1,2000000000 +1,2000000000 @@\n a\n", 100_000),
		strings.Repeat("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n", 5000),
	} {
		_, err := patch.Parse(diff, patch.Options{})
		require.Error(t, err)
	}
	p, err := patch.Parse("--- a/f\n+++ b/f\n"+strings.Repeat("@@ -1,2 +1,2 @@\n a\n-x\n+y\n", 19_000), patch.Options{})
	require.NoError(t, err)
	_, err = p.Files[0].Apply([]byte(strings.Repeat("a\n", 500_000)))
	require.Error(t, err)
	require.Less(t, time.Since(begun), 10*time.Second)
}

// Names are input: they come out as written, for the kernel to judge.
func TestNamesThatLeadOutAreNotHidden(t *testing.T) {
	for diff, want := range map[string]string{
		"diff --git a/a.txt b/../../etc/x\nrename from a.txt\nrename to ../../etc/x\n": "../../etc/x",
		"--- a/f\n+++ b//etc/passwd\n@@ -1 +1 @@\n-a\n+b\n":                            "",
		"--- /dev/null\n+++ b//etc/passwd\n@@ -0,0 +1 @@\n+b\n":                        "/etc/passwd",
		"--- /dev/null\n+++ /etc/passwd\n@@ -0,0 +1 @@\n+b\n":                          "/etc/passwd",
		"--- /dev/null\n+++ \"b/..\\057x\"\n@@ -0,0 +1 @@\n+b\n":                       "../x",
	} {
		p, err := patch.Parse(diff, patch.Options{})
		if want == "" {
			require.Error(t, err)
			continue
		}
		require.NoError(t, err, diff)
		require.Equal(t, want, p.Files[0].New)
	}
}

func TestQuotedNamesAreReadAsGitWritesThem(t *testing.T) {
	p, err := patch.Parse("--- /dev/null\n+++ \"b/tab\\tquote\\\"back\\\\slash\\303\\244\\a\"\n@@ -0,0 +1 @@\n+x\n", patch.Options{})
	require.NoError(t, err)
	require.Equal(t, "tab\tquote\"back\\slashä\a", p.Files[0].New)
	for _, broken := range []string{`"b/x`, `"b/\q"`, `"b/\777"`, `"b/\9"`, `"b/x"y`} {
		_, err := patch.Parse("--- /dev/null\n+++ "+broken+"\n@@ -0,0 +1 @@\n+x\n", patch.Options{})
		require.Error(t, err, broken)
	}
}
