package git_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/runtime/runtimetest"
	gittool "github.com/sandboxd/sandboxd/tools/git"
)

func TestACleanRepositoryHasAnEmptyDiff(t *testing.T) {
	d := committed(t, map[string]string{"a": "1\n"}).diff(args{})
	require.Empty(t, d.Diff)
	require.Empty(t, d.Files)
	require.Empty(t, d.Untracked)
	require.False(t, d.Truncated)
}

func TestADiffShowsWhatGitShows(t *testing.T) {
	r := committed(t, map[string]string{
		"modified": "1\n2\n3\n", "deleted": "gone\n", "old": "a long enough\ncontent\nto be seen\nagain\n", "no newline": "x", "exec": "#!/bin/sh\n",
	})
	r.Write("modified", "1\ntwo\n3\n4\n")
	r.remove("deleted")
	r.git("mv", "old", "new")
	r.Write("no newline", "y")
	r.Write("added", "A\n")
	r.git("add", "added")
	require.NoError(t, os.Chmod(filepath.Join(r.Dir, "exec"), 0o755))
	r.Write("untracked", "U\n")
	d := r.diff(args{})
	require.ElementsMatch(t, []string{
		"modified modified", "deleted deleted", "renamed new <- old", "modified no newline", "added added", "modified exec",
	}, files(d))
	require.Equal(t, []gittool.Name{{Path: "untracked"}}, d.Untracked)
	require.Equal(t, r.git("diff", "HEAD", "--find-renames", "--full-index")+"\n", d.Diff)
	for _, f := range d.Files {
		if f.Path == "modified" {
			require.Equal(t, []int{2, 1}, []int{f.Additions, f.Deletions})
		}
	}
}

func TestStagedComparesTheIndexAlone(t *testing.T) {
	r := committed(t, map[string]string{"a": "1\n", "b": "1\n"})
	r.Write("a", "staged\n")
	r.git("add", "a")
	r.Write("a", "later\n")
	r.Write("b", "later\n")
	d := r.diff(args{"staged": true})
	require.Equal(t, []string{"modified a"}, files(d))
	require.Contains(t, d.Diff, "+staged\n")
	require.NotContains(t, d.Diff, "later")
	require.Empty(t, d.Untracked)
	d = r.diff(args{})
	require.Equal(t, []string{"modified a", "modified b"}, files(d))
	require.NotContains(t, d.Diff, "staged")
}

func TestBeforeTheFirstCommitEverythingIsNew(t *testing.T) {
	r := newRepo(t)
	require.Empty(t, r.diff(args{}).Files)
	r.Write("a", "1\n")
	r.git("add", "a")
	for _, staged := range []bool{false, true} {
		require.Equal(t, []string{"added a"}, files(r.diff(args{"staged": staged})))
	}
	r.bad(runtime.CodeGitFailed, "git.diff", args{"base": "HEAD"})
}

func TestABaseMayBeOneRevisionOrARange(t *testing.T) {
	r := committed(t, map[string]string{"f": "1\n"})
	r.git("tag", "v1")
	r.git("switch", "-q", "-c", "side")
	r.commit(map[string]string{"side": "s\n"})
	r.git("switch", "-q", "main")
	r.commit(map[string]string{"f": "2\n"})
	r.commit(map[string]string{"f": "3\n"})
	r.Write("f", "work\n")
	head := r.git("rev-parse", "HEAD")
	for _, c := range []struct {
		base  string
		files []string
		has   string
	}{
		{"HEAD", []string{"modified f"}, "-3\n+work\n"},
		{"v1", []string{"modified f"}, "-1\n+work\n"},
		{"HEAD~1", []string{"modified f"}, "-2\n+work\n"},
		{head[:10], []string{"modified f"}, "-3\n+work\n"},
		{"v1..HEAD", []string{"modified f"}, "-1\n+3\n"},
		{"v1..", []string{"modified f"}, "-1\n+3\n"},
		{"HEAD..v1", []string{"modified f"}, "-3\n+1\n"},
		{"side..main", []string{"modified f", "deleted side"}, "-s\n"},
		{"main...side", []string{"added side"}, "+s\n"},
		{"side...main", []string{"modified f"}, "-1\n+3\n"},
		{"HEAD@{1}", []string{"modified f"}, "-2\n+work\n"},
	} {
		t.Run(c.base, func(t *testing.T) {
			d := r.diff(args{"base": c.base})
			require.Equal(t, c.files, files(d))
			require.Contains(t, d.Diff, c.has)
		})
	}
	d := r.diff(args{"base": "v1", "staged": true})
	require.Contains(t, d.Diff, "-1\n+3\n")
}

func TestARevisionThatIsNoneIsRefusedWithWhatToDo(t *testing.T) {
	r := committed(t, map[string]string{"f": "1\n"})
	for _, base := range []string{"nosuch", "nosuch..HEAD", "HEAD..nosuch", "HEAD~9", strings.Repeat("0", 40), "HEAD^{tree}", "HEAD^@"} {
		res := r.bad(runtime.CodeGitFailed, "git.diff", args{"base": base})
		require.NotContains(t, res.SafeMessage, "^{commit}", base)
	}
	for _, base := range []string{"HEAD:f", ":/work", "HEAD^{/work}", "a b", "-p", "--output=x", "^HEAD", "HEAD..-p", "--..HEAD", "x\ny", "*"} {
		r.bad(runtime.CodeSchemaViolation, "git.diff", args{"base": base})
	}
	r.bad(runtime.CodeSchemaViolation, "git.diff", args{"base": "HEAD..HEAD", "staged": true})
}

func TestUnrelatedHistoriesHaveNoForkPoint(t *testing.T) {
	r := committed(t, map[string]string{"f": "1\n"})
	r.git("switch", "-q", "--orphan", "island")
	r.commit(map[string]string{"g": "quite different\n"})
	res := r.bad(runtime.CodeGitFailed, "git.diff", args{"base": "main...island"})
	require.Contains(t, res.SafeMessage, "not related")
	require.Equal(t, []string{"deleted f", "added g"}, files(r.diff(args{"base": "main..island"})))
}

func TestPathsNarrowTheDiffAndAreTakenLiterally(t *testing.T) {
	r := newRepo(t)
	all := map[string]string{"dir/a": "1\n", "dir/b": "1\n", "other": "1\n", "star": "1\n"}
	for _, name := range oddNames() {
		all[name] = "1\n"
	}
	r.commit(all)
	for name := range all {
		r.Write(name, "2\n")
	}
	r.Write("dir/new", "")
	r.Write("new", "")
	d := r.diff(args{"paths": []string{"dir", "other"}})
	require.Equal(t, []string{"modified dir/a", "modified dir/b", "modified other"}, files(d))
	require.Equal(t, []gittool.Name{{Path: "dir/new"}}, d.Untracked)
	for _, name := range oddNames() {
		if strings.ContainsAny(name, "\n") {
			continue
		}
		d := r.diff(args{"paths": []string{name}})
		require.Equal(t, []string{"modified " + name}, files(d), "%q", name)
		require.Equal(t, 1, strings.Count(d.Diff, "diff --git"), "%q", name)
	}
	require.Empty(t, files(r.diff(args{"paths": []string{"nosuch"}})))
	require.Len(t, r.diff(args{"paths": []string{"."}}).Files, len(all))
}

func TestPathsOfARepositoryBelowAreThoseOfTheWorkspace(t *testing.T) {
	r := repo{runtimetest.New(t, gittool.Tools()...), t}
	r.Write("lib/src/a", "1\n")
	r.Write("lib/b", "1\n")
	lib := filepath.Join(r.Dir, "lib")
	gitIn(t, lib, "init", "-q")
	gitIn(t, lib, "add", "-A")
	require.Equal(t, []string{"added lib/b", "added lib/src/a"}, files(r.diff(args{"path": "lib"})))
	require.Equal(t, []string{"added lib/src/a"}, files(r.diff(args{"path": "lib", "paths": []string{"lib/src"}})))
	require.Equal(t, []string{"added lib/src/a"}, files(r.diff(args{"path": "lib/src", "paths": []string{"lib/src/a"}})))
	require.Len(t, r.diff(args{"path": "lib/src", "paths": []string{"lib"}}).Files, 2)
	require.Len(t, r.diff(args{"path": "lib", "paths": []string{"lib/."}}).Files, 2)
	r.bad(runtime.CodePathInvalid, "git.diff", args{"path": "lib", "paths": []string{"src"}})
}

func TestBinaryFilesAreNamedAndNotShown(t *testing.T) {
	r := committed(t, map[string]string{"bin": "a\x00b", "text": "1\n"})
	r.Write("bin", "a\x00c")
	r.Write("text", "2\n")
	d := r.diff(args{})
	require.True(t, d.Files[0].Binary)
	require.Equal(t, "bin", d.Files[0].Path)
	require.False(t, d.Files[1].Binary)
	require.Contains(t, d.Diff, "Binary files a/bin and b/bin differ")
}

func TestOddNamesAndContentsOfADiffAreValidText(t *testing.T) {
	r := newRepo(t)
	latin := "caf\xe9"
	require.NoError(t, os.WriteFile(filepath.Join(r.Dir, latin), []byte("cr\xe8me br\xfbl\xe9e\n"), 0o644))
	for _, name := range oddNames() {
		r.Write(name, "x\n")
	}
	r.git("add", "-A")
	d := r.diff(args{})
	require.Contains(t, d.Diff, "+cr\uFFFDme")
	var got []string
	for _, f := range d.Files {
		require.Equal(t, 1, f.Additions, f.Path)
		if f.PathBase64 != "" {
			raw, err := base64.StdEncoding.DecodeString(f.PathBase64)
			require.NoError(t, err)
			require.Equal(t, latin, string(raw))
			continue
		}
		got = append(got, f.Path)
	}
	require.ElementsMatch(t, oddNames(), got)
}

func TestNoArgumentBecomesAnOptionOfGit(t *testing.T) {
	r := committed(t, map[string]string{"f": "1\n"})
	r.Write("f", "2\n")
	made := filepath.Join(t.TempDir(), "made")
	r.git("diff", "--output="+made)
	require.FileExists(t, made, "control: git would write it")
	require.NoError(t, os.Remove(made))
	for _, a := range []args{
		{"base": "--output=" + made}, {"base": "-O" + made}, {"base": "HEAD..--output=" + made}, {"base": "--output=" + made + "..HEAD"},
		{"paths": []string{"--output=made"}}, {"paths": []string{"-Omade"}}, {"paths": []string{"--", "--output=made"}},
		{"path": "--output=made"}, {"path": "-C"},
	} {
		res := r.Call("git.diff", a)
		if res.Status == runtime.Succeeded {
			require.Empty(t, runtimetest.Output[gittool.DiffResult](t, res).Files, "%v names no file", a)
		}
		require.NoFileExists(t, made)
		require.NoFileExists(t, filepath.Join(r.Dir, "made"))
	}
}

func TestALongDiffIsCutAndWholeAsArtifact(t *testing.T) {
	r := committed(t, map[string]string{"f": "start\n"})
	var long strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&long, "line %d of a long file\n", i)
	}
	r.Write("f", long.String())
	res := r.Call("git.diff", args{})
	require.Equal(t, runtime.Succeeded, res.Status, res.SafeMessage)
	require.True(t, res.Truncated)
	d := runtimetest.Output[gittool.DiffResult](t, res)
	require.True(t, d.Truncated)
	require.Equal(t, 20_000, d.Files[0].Additions)
	require.Less(t, len(d.Diff), 40_000)
	require.Contains(t, d.Diff, "+line 0 of")
	require.Contains(t, d.Diff, "+line 19999 of")
	require.Len(t, res.Artifacts, 1)
	require.Contains(t, d.Diff, res.Artifacts[0].ID)
	require.Equal(t, r.git("diff", "HEAD", "--full-index")+"\n", r.artifact(res.Artifacts[0].ID))
}

func TestAFileThatBecameADirectoryDoesNotUncoverWhatIsDenied(t *testing.T) {
	r := newRepoWith(t, runtime.RunSpec{Permissions: runtime.Permissions{Paths: runtime.AllowDeny{Deny: []string{"a/secret"}}}})
	r.commit(map[string]string{"a": "was a file\n"})
	r.remove("a")
	r.Write("a/secret", "tiger\n")
	r.Write("a/open", "lamb\n")
	r.git("add", "-A")
	d := r.diff(args{})
	require.Equal(t, []string{"deleted a", "added a/open"}, files(d))
	require.Contains(t, d.Diff, "lamb")
	require.NotContains(t, d.Diff, "tiger")
	require.Equal(t, 1, d.Hidden)
}

func TestVeryManyFilesAreCountedAndTheFirstAreShown(t *testing.T) {
	r := newRepo(t)
	for i := range 1100 {
		r.Write(fmt.Sprintf("%s/%s/%04d", strings.Repeat("d", 200), strings.Repeat("e", 200), i), "x\n")
	}
	r.git("add", "-A")
	d := r.diff(args{})
	require.Equal(t, 1100, d.Total)
	require.Len(t, d.Files, 1000)
	require.True(t, d.Truncated)
	require.NotEmpty(t, d.Diff)
}

// artifact reads what others than an auditor see of an artifact.
func (r repo) artifact(id string) string {
	r.t.Helper()
	content, _, err := r.Kernel.OpenArtifact(context.Background(), id, "redacted")
	require.NoError(r.t, err)
	defer content.Close()
	raw, err := io.ReadAll(content)
	require.NoError(r.t, err)
	return string(raw)
}
