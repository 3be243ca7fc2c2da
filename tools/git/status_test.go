package git_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/runtime/runtimetest"
	gittool "github.com/sandboxd/sandboxd/tools/git"
)

func TestACleanRepositoryIsSaidToBeClean(t *testing.T) {
	r := committed(t, map[string]string{"a.txt": "a\n"})
	s := r.status(args{})
	require.True(t, s.Clean)
	require.Empty(t, s.Entries)
	require.Equal(t, "main", *s.Branch)
	require.Equal(t, r.git("rev-parse", "HEAD"), *s.Head)
	require.False(t, s.Detached || s.Unborn || s.Truncated)
}

func TestEveryStateOfAFileIsTold(t *testing.T) {
	r := committed(t, map[string]string{
		"modified": "1\n", "staged": "1\n", "both": "1\n", "deleted": "1\n", "removed": "1\n", "typed": "1\n",
		"old name": "a long enough\ncontent\nto be seen\nagain\n", ".gitignore": "*.o\n", "ignored.c": "",
	})
	r.Write("modified", "2\n")
	r.Write("staged", "2\n")
	r.Write("both", "2\n")
	r.git("add", "staged", "both")
	r.Write("both", "3\n")
	r.remove("deleted")
	r.git("rm", "-q", "removed")
	r.git("mv", "old name", "new name")
	r.remove("typed")
	require.NoError(t, os.Symlink("modified", filepath.Join(r.Dir, "typed")))
	r.Write("dir/untracked", "")
	r.Write("x.o", "")
	r.Write("added", "")
	r.git("add", "added")
	s := r.status(args{})
	require.ElementsMatch(t, []string{
		"modified .M modified", "modified M. staged", "modified MM both", "deleted .D deleted", "deleted D. removed",
		"renamed R. new name <- old name", "type-changed .T typed", "added A. added", "untracked ?? dir/untracked",
	}, states(s))
	require.Equal(t, 9, s.Total)
	require.False(t, s.Clean)
}

func TestAConflictIsToldAsSuch(t *testing.T) {
	r := committed(t, map[string]string{"f": "base\n"})
	r.git("switch", "-q", "-c", "other")
	r.commit(map[string]string{"f": "theirs\n"})
	r.git("switch", "-q", "main")
	r.commit(map[string]string{"f": "ours\n"})
	r.mergeFails("other")
	require.Equal(t, []string{"conflicted UU f"}, states(r.status(args{})))
	require.Equal(t, []string{"conflicted f"}, files(r.diff(args{"staged": true})))
	d := r.diff(args{})
	require.Equal(t, []string{"modified f"}, files(d))
	require.Contains(t, d.Diff, "+<<<<<<<")
}

func TestHeadIsToldWhereItHasNoBranchOrNoCommit(t *testing.T) {
	r := newRepo(t)
	s := r.status(args{})
	require.True(t, s.Unborn)
	require.Nil(t, s.Head)
	require.Equal(t, "main", *s.Branch)
	r.commit(map[string]string{"a": "1\n"})
	r.git("checkout", "-q", "--detach")
	s = r.status(args{})
	require.True(t, s.Detached)
	require.Nil(t, s.Branch)
	require.Equal(t, r.git("rev-parse", "HEAD"), *s.Head)
}

func TestTheDistanceToTheUpstreamIsTold(t *testing.T) {
	r := committed(t, map[string]string{"a": "1\n"})
	require.Nil(t, r.status(args{}).Ahead)
	r.git("branch", "base")
	r.commit(map[string]string{"a": "2\n"})
	r.commit(map[string]string{"a": "3\n"})
	r.git("branch", "-q", "--set-upstream-to=base")
	s := r.status(args{})
	require.Equal(t, "base", s.Upstream)
	require.Equal(t, 2, *s.Ahead)
	require.Equal(t, 0, *s.Behind)
}

// oddNames are names that break line-based readers.
func oddNames() []string {
	return []string{"new\nline", "tab\there", "quo\"te", "back\\slash", " blanks ", "-dash", ":(glob)*", "ünïcode", "a -> b", "*"}
}

func TestOddNamesComeBackExactly(t *testing.T) {
	r := newRepo(t)
	for _, name := range oddNames() {
		r.Write(name, "x\n")
	}
	latin := "caf\xe9"
	require.NoError(t, os.WriteFile(filepath.Join(r.Dir, latin), []byte("x\n"), 0o644))
	for _, step := range []string{"untracked", "added"} {
		var got []string
		for _, e := range r.status(args{}).Entries {
			require.Equal(t, step, e.State)
			if e.PathBase64 == "" {
				got = append(got, e.Path)
				continue
			}
			raw, err := base64.StdEncoding.DecodeString(e.PathBase64)
			require.NoError(t, err)
			require.Equal(t, latin, string(raw))
			require.Equal(t, "caf\uFFFD", e.Path)
		}
		require.ElementsMatch(t, oddNames(), got)
		r.git("add", "-A")
	}
}

func TestARepositoryBelowTheWorkspaceIsFoundByPath(t *testing.T) {
	b := runtimetest.New(t, gittool.Tools()...)
	r := repo{b, t}
	r.Write("lib/deep/f.txt", "1\n")
	gitIn(t, filepath.Join(r.Dir, "lib"), "init", "-q", "-b", "trunk")
	for _, path := range []string{"lib", "lib/", "./lib", "lib/deep"} {
		s := r.status(args{"path": path})
		require.Equal(t, "trunk", *s.Branch)
		require.Equal(t, []string{"untracked ?? lib/deep/f.txt"}, states(s), path)
	}
	r.bad(runtime.CodeNotARepository, "git.status", args{})
	r.bad(runtime.CodeNotARepository, "git.diff", args{})
}

func TestWithoutARepositoryThereIsNoAnswerFromAbove(t *testing.T) {
	r := repo{runtimetest.New(t, gittool.Tools()...), t}
	above := filepath.Dir(r.Dir)
	gitIn(t, above, "init", "-q")
	require.Equal(t, above, gitIn(t, r.Dir, "rev-parse", "--show-toplevel"), "control: git itself finds the one above")
	for _, tool := range []string{"git.status", "git.diff"} {
		res := r.bad(runtime.CodeNotARepository, tool, args{})
		require.Equal(t, runtime.Failed, res.Status)
	}
}

func TestPathsThatLeadOutOfTheWorkspaceAreRefused(t *testing.T) {
	r := committed(t, map[string]string{"sub/a": "1\n"})
	outside := t.TempDir()
	gitIn(t, outside, "init", "-q")
	require.NoError(t, os.Symlink(outside, filepath.Join(r.Dir, "link")))
	r.status(args{"path": "sub"})
	r.bad(runtime.CodePathTraversal, "git.status", args{"path": "../x"})
	r.bad(runtime.CodePathTraversal, "git.status", args{"path": outside})
	r.bad(runtime.CodePathTraversal, "git.diff", args{"paths": []string{"../x"}})
	require.NotEqual(t, runtime.Succeeded, r.Call("git.status", args{"path": "link"}).Status)
	r.bad(runtime.CodeCwdInvalid, "git.status", args{"path": "missing"})
}

func TestABareRepositoryHasNoStatus(t *testing.T) {
	r := repo{runtimetest.New(t, gittool.Tools()...), t}
	gitIn(t, r.Dir, "init", "-q", "--bare", "bare.git")
	r.bad(runtime.CodeNotARepository, "git.status", args{"path": "bare.git"})
}

func TestALongStatusIsCutAndSaysSo(t *testing.T) {
	r := newRepo(t)
	for i := range 12 {
		r.Write("f"+strconv.Itoa(i), "")
	}
	s := r.status(args{"limit": 5})
	require.Len(t, s.Entries, 5)
	require.Equal(t, 12, s.Total)
	require.True(t, s.Truncated)
	require.False(t, r.status(args{"limit": 12}).Truncated)
	r.bad(runtime.CodeSchemaViolation, "git.status", args{"limit": 0})
}

func TestPathsThatTheRunMayNotReadAreCountedAndNotNamed(t *testing.T) {
	r := newRepoWith(t, runtime.RunSpec{Permissions: runtime.Permissions{Paths: runtime.AllowDeny{Deny: []string{"**/.env", "secret/**"}}}})
	r.commit(map[string]string{"a": "1\n", "x/.env": "K=tiger\n", "secret/s": "tiger\n", "secret/moved": "tiger tiger\nburning bright\nin the forests\nof the night\n"})
	r.Write("a", "2\n")
	r.Write("x/.env", "K=lion\n")
	r.Write("secret/new", "lion\n")
	r.git("mv", "secret/moved", "found")
	for _, tool := range []string{"git.status", "git.diff"} {
		res := r.Call(tool, args{})
		require.Equal(t, runtime.Succeeded, res.Status, res.SafeMessage)
		for _, hidden := range []string{"tiger", "lion", ".env", "secret"} {
			require.NotContains(t, string(res.StructuredOutput), hidden, tool)
		}
	}
	s := r.status(args{})
	require.Equal(t, 2, s.Hidden)
	require.Contains(t, states(s), "modified .M a")
	d := r.diff(args{})
	require.Equal(t, []string{"modified a"}, files(d))
	require.Equal(t, 3, d.Hidden)
	require.Contains(t, d.Diff, "+2")
	r.bad(runtime.CodeReadScopeDenied, "git.diff", args{"paths": []string{"x/.env"}})
	r.bad(runtime.CodeReadScopeDenied, "git.status", args{"path": "secret/deep"})
}
