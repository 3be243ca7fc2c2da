package git_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/runtime"
)

// trap is a program that a repository names. It leaves a mark when it runs.
type trap struct {
	t             testing.TB
	program, mark string
}

func newTrap(t testing.TB) trap {
	t.Helper()
	dir := t.TempDir()
	tr := trap{t, filepath.Join(dir, "program"), filepath.Join(dir, "mark")}
	require.NoError(t, os.WriteFile(tr.program, []byte("#!/bin/sh\necho ran >>'"+tr.mark+"'\n"), 0o755))
	return tr
}

// sprung tells whether the program ran since the last time it was asked.
func (tr trap) sprung() bool {
	tr.t.Helper()
	err := os.Remove(tr.mark)
	require.True(tr.t, err == nil || os.IsNotExist(err), "%v", err)
	return err == nil
}

func TestProgramsOfTheRepositorysSettingsDoNotRun(t *testing.T) {
	for name, c := range map[string]struct {
		lay     func(r repo, tr trap)
		control []string // a command by which plain git runs the program
	}{
		"file system monitor": {
			func(r repo, tr trap) { r.git("config", "core.fsmonitor", tr.program) }, []string{"git", "status"},
		},
		"included settings": {
			func(r repo, tr trap) {
				r.Write(".git/more", "[core]\n\tfsmonitor = "+tr.program+"\n")
				r.git("config", "include.path", "more")
			}, []string{"git", "status"},
		},
		"settings of a worktree": {
			func(r repo, tr trap) {
				r.git("config", "extensions.worktreeConfig", "true")
				r.git("config", "--worktree", "core.fsmonitor", tr.program)
			}, []string{"git", "status"},
		},
		"hook": {
			func(r repo, tr trap) {
				program, err := os.ReadFile(tr.program)
				require.NoError(r.t, err)
				require.NoError(r.t, os.WriteFile(filepath.Join(r.Dir, ".git/hooks/post-index-change"), program, 0o755))
			}, []string{"git", "update-index", "--refresh"},
		},
		"directory of hooks": {
			func(r repo, tr trap) {
				require.NoError(r.t, os.Symlink(tr.program, filepath.Join(filepath.Dir(tr.program), "post-index-change")))
				r.git("config", "core.hooksPath", filepath.Dir(tr.program))
			}, []string{"git", "update-index", "--refresh"},
		},
		"external diff": {
			func(r repo, tr trap) { r.git("config", "diff.external", tr.program) }, []string{"git", "diff"},
		},
		"diff driver": {
			func(r repo, tr trap) {
				r.Write(".gitattributes", "* diff=trap\n")
				r.git("config", "diff.trap.command", tr.program)
			}, []string{"git", "diff"},
		},
		"text conversion": {
			func(r repo, tr trap) {
				r.Write(".gitattributes", "* diff=trap\n")
				r.git("config", "diff.trap.textconv", tr.program)
			}, []string{"git", "diff"},
		},
		"pager": {
			func(r repo, tr trap) {
				r.git("config", "core.pager", tr.program)
				r.git("config", "pager.diff", tr.program)
				r.git("config", "pager.status", tr.program)
			}, []string{"script", "-qec", "git diff", "/dev/null"},
		},
		"settings of a submodule": {
			func(r repo, tr trap) {
				r.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "./.git", "sub")
				r.git("commit", "-q", "--no-verify", "-m", "submodule")
				sub := filepath.Join(r.Dir, "sub")
				require.NoError(r.t, os.WriteFile(filepath.Join(sub, "f"), []byte("3\n"), 0o644))
				gitIn(r.t, sub, "commit", "-qam", "3")
				gitIn(r.t, sub, "config", "diff.external", tr.program)
				r.git("config", "diff.submodule", "diff")
			}, []string{"git", "diff", "--ext-diff"},
		},
		"file system monitor of a submodule": {
			func(r repo, tr trap) {
				r.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "./.git", "sub")
				r.git("commit", "-q", "--no-verify", "-m", "submodule")
				gitIn(r.t, filepath.Join(r.Dir, "sub"), "config", "core.fsmonitor", tr.program)
			}, []string{"git", "status"},
		},
		"signature check": {
			func(r repo, tr trap) {
				signed := strings.Replace(r.git("cat-file", "commit", "HEAD"), "\n\n", "\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n", 1)
				r.Write(".git/signed", signed+"\n")
				r.git("reset", "-q", r.git("hash-object", "-t", "commit", "-w", ".git/signed"))
				r.git("config", "gpg.program", tr.program)
				r.git("config", "log.showSignature", "true")
			}, []string{"git", "log"},
		},
		"fetch of what is missing": {
			func(r repo, tr trap) {
				blob := r.git("rev-parse", "HEAD:f")
				r.git("config", "remote.origin.url", "file://"+r.t.TempDir())
				r.git("config", "remote.origin.uploadpack", tr.program)
				r.git("config", "remote.origin.promisor", "true")
				r.git("config", "extensions.partialClone", "origin")
				r.git("config", "core.repositoryFormatVersion", "1")
				r.remove(".git/objects/" + blob[:2] + "/" + blob[2:])
			}, []string{"git", "-c", "protocol.file.allow=always", "diff"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, tr := committed(t, map[string]string{"f": "1\n", "g": "1\n"}), newTrap(t)
			c.lay(r, tr)
			r.Write("f", "2\n")
			r.stale("g")
			for tool, a := range map[string]args{"git.status": {}, "git.diff": {}, "git.log": {}, "git.show": {"rev": "HEAD"}} {
				res := r.Call(tool, a)
				if name != "fetch of what is missing" {
					require.Equal(t, runtime.Succeeded, res.Status, "%s: %s", tool, res.SafeMessage)
				}
				require.False(t, tr.sprung(), "by %s", tool)
			}
			r.stale("g")
			// It is told by the mark whether the program ran; what git makes
			// of it does not matter.
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			cmd := exec.CommandContext(ctx, c.control[0], c.control[1:]...)
			cmd.Dir = r.Dir
			out, _ := cmd.CombinedOutput()
			require.True(t, tr.sprung(), "control: plain git runs it: %s", out)
		})
	}
}

// stale makes the index doubt a file that has not changed.
func (r repo) stale(path string) {
	r.t.Helper()
	at := time.Now().Add(-time.Duration(time.Now().UnixNano()%1e6) * time.Millisecond)
	require.NoError(r.t, os.Chtimes(filepath.Join(r.Dir, path), at, at))
}

func TestSettingsOfTheRepositoryDoNotChangeTheLookOfADiff(t *testing.T) {
	r := committed(t, map[string]string{"sub/f": "1\n\n3\n4\n5\n6\n7\n8\n9\n", "old": "a long enough\ncontent\nto be seen\n"})
	r.Write("sub/f", "1\n\n3\n4\nfive\n6\n7\n8\n9\n")
	r.git("mv", "old", "new")
	want, status := r.diff(args{}), r.status(args{})
	plain := r.git("diff", "HEAD")
	for name, value := range map[string]string{
		"diff.noprefix": "true", "diff.mnemonicPrefix": "true", "diff.context": "0", "diff.interHunkContext": "9", "diff.renames": "false",
		"diff.suppressBlankEmpty": "true", "diff.relative": "true", "diff.orderFile": "order", "color.ui": "always", "color.diff": "always",
		"diff.algorithm": "patience", "status.renames": "false", "status.showUntrackedFiles": "no", "core.quotePath": "true", "diff.wordRegex": ".",
		"diff.ignoreSubmodules": "all", "status.relativePaths": "true", "core.abbrev": "5",
	} {
		r.git("config", name, value)
	}
	r.Write("order", "new\nsub/f\n")
	require.NotEqual(t, plain, r.git("diff", "HEAD"), "control: plain git heeds them")
	got := r.diff(args{})
	require.Equal(t, want.Diff, got.Diff)
	require.Equal(t, want.Files, got.Files)
	require.Equal(t, append(states(status), "untracked ?? order"), states(r.status(args{})))
	require.Equal(t, want.Diff, r.diff(args{"path": "sub"}).Diff)
}

func TestContentThatAPartialCloneLacksIsSaidToBeMissing(t *testing.T) {
	r := committed(t, map[string]string{"f": "1\n", "g": "1 g\n"})
	blob := r.git("rev-parse", "HEAD:f")
	r.git("config", "remote.origin.url", "file://"+t.TempDir())
	r.git("config", "remote.origin.promisor", "true")
	r.git("config", "extensions.partialClone", "origin")
	r.git("config", "core.repositoryFormatVersion", "1")
	r.remove(".git/objects/" + blob[:2] + "/" + blob[2:])
	r.Write("f", "2\n")
	r.Write("g", "2 g\n")
	require.Contains(t, r.bad(runtime.CodeGitFailed, "git.diff", args{}).SafeMessage, "partial clone")
	require.Equal(t, []string{"modified g"}, files(r.diff(args{"paths": []string{"g"}})))
}

func TestAWorktreeOutsideTheWorkspaceIsRefused(t *testing.T) {
	r, outside := committed(t, map[string]string{"f": "1\n"}), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "private"), nil, 0o644))
	r.status(args{})
	r.git("config", "core.worktree", outside)
	require.Contains(t, r.git("status", "--short"), "private", "control: plain git looks there")
	for _, tool := range []string{"git.status", "git.diff"} {
		res := r.bad(runtime.CodeNotARepository, tool, args{})
		require.NotContains(t, string(res.StructuredOutput), "private")
		require.NotContains(t, res.SafeMessage, outside)
	}
}

func TestABrokenRepositoryIsAFailureWithAReason(t *testing.T) {
	r := committed(t, map[string]string{"f": "1\n"})
	r.Write(".git/index", "garbage")
	for _, tool := range []string{"git.status", "git.diff"} {
		res := r.bad(runtime.CodeGitFailed, tool, args{})
		require.Contains(t, res.SafeMessage, "index")
	}
	r.Write(".git/config", "[garbage")
	r.bad(runtime.CodeGitFailed, "git.status", args{})
}

// Filters are the one kind of program that git has no switch against: they
// decide what a file's content is. They run in the box, as a command would,
// know no secret of the run, and end with the call.
func TestAFilterRunsWithinTheCallAndKnowsNoSecret(t *testing.T) {
	r := newRepoWith(t, runtime.RunSpec{Secrets: map[string]string{"TOKEN": "a-secret-of-the-run"}})
	r.commit(map[string]string{"f": "1\n", ".gitattributes": "f filter=slow\n"})
	seen := filepath.Join(t.TempDir(), "seen")
	r.git("config", "filter.slow.clean", "env >'"+seen+"'; echo $$ >>'"+seen+".pid'; exec sleep 600")
	r.Write("f", "2\n")
	ctx := context.Background()
	p := r.Proposal("git.diff", args{})
	call, err := r.Kernel.Submit(ctx, p)
	require.NoError(t, err)
	var pid string
	require.Eventually(t, func() bool {
		raw, err := os.ReadFile(seen + ".pid")
		pid = strings.TrimSpace(string(raw))
		return err == nil && pid != ""
	}, 20*time.Second, 10*time.Millisecond, "the filter runs")
	_, err = r.Kernel.Cancel(ctx, r.Run.RunID, call.ToolCallID, runtime.ReasonUser, 100*time.Millisecond)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		call, err = r.Kernel.Call(ctx, r.Run.RunID, call.ToolCallID)
		return err == nil && call.Result != nil
	}, 20*time.Second, 10*time.Millisecond)
	require.Equal(t, runtime.Cancelled, call.Result.Status)
	_, err = strconv.Atoi(pid)
	require.NoError(t, err)
	require.False(t, lives(pid), "the filter has ended with the call")
	environ, err := os.ReadFile(seen)
	require.NoError(t, err)
	require.Contains(t, string(environ), "GIT_", "control: the filter saw git's environment")
	require.NotContains(t, string(environ), "TOKEN")
	require.NotContains(t, string(environ), "a-secret-of-the-run")
}

// lives tells whether a process runs; one that is dead and not yet waited for
// does not (proc_pid_stat(5)).
func lives(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	_, state, _ := strings.Cut(string(stat), ") ")
	return err == nil && !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

func TestARepositoryOfAnotherUserIsLookedAt(t *testing.T) {
	r := committed(t, map[string]string{"f": "1\n"})
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" || os.Getenv("SANDBOXD_TEST_REQUIRE") == "1" {
			t.Fatal("another user's files need root")
		}
		t.Log("NOT PROVED: only root can give files to another user")
		return
	}
	require.NoError(t, filepath.Walk(r.Dir, func(p string, _ os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, 54321, 54321)
	}))
	cmd := exec.Command("git", "status")
	cmd.Dir = r.Dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "dubious ownership", "control: plain git refuses it")
	require.True(t, r.status(args{}).Clean)
	require.Empty(t, r.diff(args{}).Files)
}
