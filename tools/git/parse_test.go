package git_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	gittool "github.com/sandboxd/sandboxd/tools/git"
)

const (
	modes = "100644 100644 100644"
	ids   = "1111111111111111111111111111111111111111 2222222222222222222222222222222222222222"
)

// nul writes records as git does with -z.
func nul(records ...string) []byte { return []byte(strings.Join(records, "\x00") + "\x00") }

func TestStatusRecordsAreReadByTheirKind(t *testing.T) {
	s, err := gittool.ParseStatus(nul(
		"# branch.oid 1111111111111111111111111111111111111111", "# branch.head a branch", "# branch.upstream o/a", "# branch.ab +1 -x", "# new.header ?",
		"1 .M N... "+modes+" "+ids+" with blank", "2 R. N... "+modes+" "+ids+" R100 to", "from",
		"u UU N... "+modes+" 100644 "+ids+" 3333333333333333333333333333333333333333 both", "? new\nline", "! ignored",
	))
	require.NoError(t, err)
	require.Equal(t, gittool.ParsedStatus{
		Branch: "a branch", Head: "1111111111111111111111111111111111111111",
		Paths: []string{"with blank", "to", "both", "new\nline"}, States: []string{"modified", "renamed", "conflicted", "untracked"},
	}, s)
}

func TestStatusThatIsCutOffKeepsWhatCameBefore(t *testing.T) {
	whole := nul("# branch.head main", "1 .M N... "+modes+" "+ids+" a", "2 R. N... "+modes+" "+ids+" R100 to", "from")
	_, err := gittool.ParseStatus(whole)
	require.NoError(t, err)
	for n := range whole {
		s, err := gittool.ParseStatus(whole[:n])
		require.LessOrEqual(t, len(s.Paths), 1)
		if n > 0 && whole[n-1] != 0 {
			require.Error(t, err, "%q", whole[:n])
		}
	}
}

func TestDiffRecordsAreJoinedWithTheirCounts(t *testing.T) {
	changes, err := gittool.ParseDiff(nul(
		":100644 100644 1 2 M", "a\tb", ":100644 100644 1 2 R090", "from", "to", ":000000 100644 0 2 A", "bin", ":100644 000000 1 0 U", "c", ":100644 100644 1 0 M", "c",
		"1\t2\ta\tb", "3\t0\t", "from", "to", "-\t-\tbin", "5\t0\tunknown",
	))
	require.NoError(t, err)
	require.Equal(t, []gittool.ParsedChange{
		{Path: "a\tb", Word: "modified", Added: 1, Deleted: 2}, {Path: "to", From: "from", Word: "renamed", Added: 3},
		{Path: "bin", Word: "added", Binary: true}, {Path: "c", Word: "conflicted"},
	}, changes)
}

func TestDiffRecordsThatAreNoneAreErrors(t *testing.T) {
	for _, raw := range [][]byte{
		nul("no record"), nul(":1 2 3 4"), nul(":1 2 3 4 M"), nul(":1 2 3 4 R100", "from"), nul("1\t2"), nul("x\ty\tz", "z"), nul(":1 2 3 4 M", "f", "x\t1\tf"), nul("1\t1\t", "a"),
	} {
		changes, err := gittool.ParseDiff(raw)
		if err == nil { // counts of a file that no record named are passed over
			require.Empty(t, changes, "%q", raw)
		}
	}
	_, err := gittool.ParseDiff(nul("no record"))
	require.Error(t, err)
}

func FuzzParseStatus(f *testing.F) {
	f.Add(nul("# branch.oid (initial)", "# branch.head main", "? a"))
	f.Add(nul("1 .M N... "+modes+" "+ids+" with blank", "2 R. N... "+modes+" "+ids+" R100 to", "from"))
	f.Add(nul("u UU N... "+modes+" 100644 "+ids+" "+ids[:40]+" both", "! x"))
	f.Add([]byte("2 "))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := gittool.ParseStatus(raw)
		require.LessOrEqual(t, len(s.Paths), strings.Count(string(raw), "\x00")+1)
		for i, path := range s.Paths {
			require.NotContains(t, path, "\x00")
			require.NotEmpty(t, s.States[i])
		}
		if err == nil {
			require.True(t, len(raw) == 0 || raw[len(raw)-1] == 0)
		}
	})
}

func FuzzParseDiff(f *testing.F) {
	f.Add(nul(":100644 100644 1 2 M", "a", "1\t2\ta"))
	f.Add(nul(":100644 100644 1 2 R090", "from", "to", "3\t0\t", "from", "to"))
	f.Add(nul(":000000 100644 0 2 A", "bin", "-\t-\tbin"))
	f.Add([]byte(": \x00\t\t"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		changes, _ := gittool.ParseDiff(raw)
		seen := map[string]bool{}
		for _, c := range changes {
			require.False(t, seen[c.Path], "each file once")
			seen[c.Path] = true
			require.NotContains(t, c.Path, "\x00")
			require.NotEmpty(t, c.Word)
			require.GreaterOrEqual(t, c.Added, 0)
			require.GreaterOrEqual(t, c.Deleted, 0)
		}
	})
}
