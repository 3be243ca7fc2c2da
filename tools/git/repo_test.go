package git_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/runtime/runtimetest"
	gittool "github.com/sandboxd/sandboxd/tools/git"
)

type args = map[string]any

// repo is a workspace that is a git repository, worked on with the host's git.
type repo struct {
	*runtimetest.Bench
	t testing.TB
}

// newRepo makes a workspace with a repository that has no commit yet.
func newRepo(t testing.TB) repo { return newRepoWith(t, runtime.RunSpec{}) }

func newRepoWith(t testing.TB, spec runtime.RunSpec) repo {
	t.Helper()
	r := repo{runtimetest.NewRun(t, spec, gittool.Tools()...), t}
	r.git("init", "-q", "-b", "main")
	return r
}

// committed makes a repository whose only commit holds these files.
func committed(t testing.TB, files map[string]string) repo {
	t.Helper()
	r := newRepo(t)
	r.commit(files)
	return r
}

// git runs the host's git in the workspace and returns what it printed.
func (r repo) git(args ...string) string {
	r.t.Helper()
	return gitIn(r.t, r.Dir, args...)
}

func gitIn(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(),
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_EDITOR=true",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.org", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.org",
		"GIT_AUTHOR_DATE=2024-01-02T03:04:05Z", "GIT_COMMITTER_DATE=2024-01-02T03:04:05Z")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "git %s: %s", strings.Join(args, " "), out)
	return strings.TrimSuffix(string(out), "\n")
}

// commit writes files and commits everything.
func (r repo) commit(files map[string]string) {
	r.t.Helper()
	for path, content := range files {
		r.Write(path, content)
	}
	r.git("add", "-A")
	r.git("commit", "-q", "--no-verify", "--allow-empty", "-m", "work")
}

func (r repo) remove(path string) {
	r.t.Helper()
	require.NoError(r.t, os.RemoveAll(filepath.Join(r.Dir, path)))
}

func (r repo) status(a args) gittool.StatusResult {
	r.t.Helper()
	return good[gittool.StatusResult](r, "git.status", a)
}

func (r repo) diff(a args) gittool.DiffResult {
	r.t.Helper()
	return good[gittool.DiffResult](r, "git.diff", a)
}

// good makes a call that must succeed and decodes its output.
func good[Out any](r repo, tool string, a args) Out {
	r.t.Helper()
	res := r.Call(tool, a)
	require.Equal(r.t, runtime.Succeeded, res.Status, "%s: %s %s", tool, res.ErrorCode, res.SafeMessage)
	return runtimetest.Output[Out](r.t, res)
}

// bad makes a call that must end with this code and a sentence without host
// paths.
func (r repo) bad(code runtime.Code, tool string, a args) runtime.Result {
	r.t.Helper()
	res := r.Call(tool, a)
	require.Equal(r.t, code, res.ErrorCode, "%s %v: %s %s", tool, a, res.Status, res.SafeMessage)
	require.NotEmpty(r.t, res.SafeMessage)
	require.NotContains(r.t, res.SafeMessage, r.Dir)
	return res
}

// states says each entry as "state XY path".
func states(s gittool.StatusResult) []string {
	lines := []string{}
	for _, e := range s.Entries {
		line := e.State + " " + e.Index + e.Worktree + " " + e.Path
		if e.OrigPath != "" {
			line += " <- " + e.OrigPath
		}
		lines = append(lines, line)
	}
	return lines
}

// files says each file as "status path +added -deleted".
func files(d gittool.DiffResult) []string {
	lines := []string{}
	for _, f := range d.Files {
		line := f.Status + " " + f.Path
		if f.OldPath != "" {
			line += " <- " + f.OldPath
		}
		lines = append(lines, line)
	}
	return lines
}

// mergeFails merges a branch that conflicts.
func (r repo) mergeFails(branch string) {
	r.t.Helper()
	cmd := exec.Command("git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "merge", branch)
	cmd.Dir = r.Dir
	out, err := cmd.CombinedOutput()
	require.Error(r.t, err)
	require.Contains(r.t, string(out), "CONFLICT")
}
