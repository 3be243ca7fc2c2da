package git_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/runtime"
	gittool "github.com/sandboxd/sandboxd/tools/git"
)

func TestLogListsCommitsNewestFirst(t *testing.T) {
	r := committed(t, map[string]string{"a": "1\n"})
	r.Write("b", "1\n")
	r.git("add", "-A")
	r.git("commit", "-q", "-m", "second é\n\nWhy it was\ndone.")
	log := good[gittool.LogResult](r, "git.log", args{})
	require.Len(t, log.Commits, 2)
	require.False(t, log.Truncated)
	c := log.Commits[0]
	require.Equal(t, r.git("rev-parse", "HEAD"), c.ID)
	require.Equal(t, []string{r.git("rev-parse", "HEAD~1")}, c.Parents)
	require.Equal(t, "Ada", c.AuthorName)
	require.Equal(t, "ada@example.org", c.AuthorEmail)
	require.True(t, strings.HasPrefix(c.AuthoredAt, "2024-01-02T03:04:05"), c.AuthoredAt)
	require.Equal(t, "second é", c.Subject)
	require.Equal(t, "Why it was\ndone.", c.Body)
	require.Empty(t, log.Commits[1].Parents)

	log = good[gittool.LogResult](r, "git.log", args{"limit": 1})
	require.Len(t, log.Commits, 1)
	require.True(t, log.Truncated)
	log = good[gittool.LogResult](r, "git.log", args{"paths": []string{"a"}})
	require.Len(t, log.Commits, 1)
	require.Equal(t, "work", log.Commits[0].Subject)
	log = good[gittool.LogResult](r, "git.log", args{"rev": "HEAD~1..HEAD"})
	require.Len(t, log.Commits, 1)
	require.Equal(t, "second é", log.Commits[0].Subject)
}

func TestLogOfARepositoryWithoutCommitsIsEmpty(t *testing.T) {
	require.Empty(t, good[gittool.LogResult](newRepo(t), "git.log", args{}).Commits)
}

func TestShowTellsACommitAndItsChanges(t *testing.T) {
	r := committed(t, map[string]string{"a": "1\n"})
	r.commit(map[string]string{"a": "2\n", "dir/b": "new\n"})
	s := good[gittool.ShowResult](r, "git.show", args{"rev": "HEAD"})
	require.Equal(t, r.git("rev-parse", "HEAD"), s.Commit.ID)
	require.Len(t, s.Files, 2)
	require.Contains(t, *s.Diff, "-1\n+2\n")
	require.Contains(t, *s.Diff, "+++ b/dir/b")
	require.Nil(t, s.Content)

	root := good[gittool.ShowResult](r, "git.show", args{"rev": "HEAD~1"})
	require.Contains(t, *root.Diff, "+1\n")
	require.Equal(t, "added", root.Files[0].Status)
}

func TestShowTellsAFileAsItWas(t *testing.T) {
	r := committed(t, map[string]string{"a": "1\n", "dir/b": "old\n", ":(top)odd*": "odd\n"})
	r.remove("a")
	r.commit(map[string]string{"dir/b": "new\n"})
	for path, want := range map[string]string{"a": "1\n", "dir/b": "old\n", "./dir//b": "old\n", ":(top)odd*": "odd\n"} {
		s := good[gittool.ShowResult](r, "git.show", args{"rev": "HEAD~1", "path": path})
		require.Equal(t, want, *s.Content, path)
		require.Equal(t, int64(len(want)), *s.Bytes)
		require.Equal(t, "100644", s.Mode)
		require.Nil(t, s.Diff)
	}
	require.Equal(t, "new\n", *good[gittool.ShowResult](r, "git.show", args{"rev": "HEAD", "path": "dir/b"}).Content)
	r.bad(runtime.CodeFileNotFound, "git.show", args{"rev": "HEAD", "path": "a"})
	r.bad(runtime.CodeIsDirectory, "git.show", args{"rev": "HEAD", "path": "dir"})
}

func TestShowAndLogTakeARepositoryBelowTheWorkspace(t *testing.T) {
	r := committed(t, map[string]string{"a": "1\n"})
	r.Write("sub/f", "sub\n")
	gitIn(t, r.Dir+"/sub", "init", "-q")
	gitIn(t, r.Dir+"/sub", "add", "-A")
	gitIn(t, r.Dir+"/sub", "commit", "-q", "-m", "below")
	require.Equal(t, "below", good[gittool.LogResult](r, "git.log", args{"path": "sub"}).Commits[0].Subject)
	s := good[gittool.ShowResult](r, "git.show", args{"rev": "HEAD", "path": "sub"})
	require.Equal(t, "below", s.Commit.Subject)
	require.Equal(t, "sub/f", s.Files[0].Path)
	s = good[gittool.ShowResult](r, "git.show", args{"rev": "HEAD", "path": "sub/f", "repository": "sub"})
	require.Equal(t, "sub\n", *s.Content)
}

func TestRevisionsThatAreNoneAreRefused(t *testing.T) {
	r := committed(t, map[string]string{"a": "1\n"})
	for _, rev := range []string{"--output=x", "-p", "HEAD:a", ":/work", "a b", "HEAD^{/work}", "a..b..c"} {
		r.bad(runtime.CodeSchemaViolation, "git.show", args{"rev": rev})
		r.bad(runtime.CodeSchemaViolation, "git.log", args{"rev": rev})
	}
	r.bad(runtime.CodeGitFailed, "git.show", args{"rev": "no-such"})
	r.bad(runtime.CodeGitFailed, "git.log", args{"rev": "no-such"})
}

func TestShowLeavesOutWhatTheRunMayNotRead(t *testing.T) {
	r := newRepoWith(t, runtime.RunSpec{Permissions: runtime.Permissions{Paths: runtime.AllowDeny{Deny: []string{"secret/**"}}}})
	r.commit(map[string]string{"open": "fine\n", "secret/key": "hush\n"})
	s := good[gittool.ShowResult](r, "git.show", args{"rev": "HEAD"})
	require.Len(t, s.Files, 1)
	require.Equal(t, 1, s.Hidden)
	require.Contains(t, *s.Diff, "fine")
	require.NotContains(t, *s.Diff, "hush")
	r.bad(runtime.CodeReadScopeDenied, "git.show", args{"rev": "HEAD", "path": "secret/key"})
	require.Equal(t, "fine\n", *good[gittool.ShowResult](r, "git.show", args{"rev": "HEAD", "path": "open"}).Content)
}

func FuzzParseLog(f *testing.F) {
	id := strings.Repeat("a", 40)
	f.Add(nul(id, id+" "+id, "Ada", "a@b", "2024-01-02T03:04:05Z", "2024-01-02T03:04:05Z", "subject", "body\n"))
	f.Add(nul(id, "", "", "", "", "", "", "", "x"))
	f.Add([]byte("\x00"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		commits, _ := gittool.ParseLog(raw)
		for _, c := range commits {
			require.LessOrEqual(t, len(c.Subject), 1000)
			require.LessOrEqual(t, len(c.Body), 4000)
			require.NotNil(t, c.Parents)
		}
		gittool.ParseTreeEntry(raw)
	})
}
