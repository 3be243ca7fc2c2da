package git

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path"
	"strconv"
	"strings"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/sandbox"
)

// repo is a repository in a grant's box.
type repo struct {
	grant *runtime.Grant
	// dir is where git runs, relative to the workspace: the top directory once
	// the repository is open.
	dir string
}

// The most of git's output that is held in memory. What is shown to a model is
// far less; these bound what a hostile repository can make the service keep.
const (
	maxListing = 16 << 20
	maxErrors  = 16 << 10
)

// open finds the repository that dir is in, no higher than the workspace.
func open(ctx context.Context, g *runtime.Grant, dir string) (repo, error) {
	if dir = path.Clean(dir); dir == "." {
		dir = ""
	}
	r := repo{grant: g, dir: dir}
	out, err := r.output(ctx, "rev-parse", "--show-toplevel")
	if err != nil {
		return repo{}, err
	}
	top := strings.TrimSuffix(string(out), "\n")
	workspace := path.Clean(g.Box().Facts().WorkspacePath)
	switch below, ok := strings.CutPrefix(top, workspace+"/"); {
	case top == workspace:
		r.dir = ""
	case ok:
		r.dir = below
	default:
		return repo{}, runtime.Faultf(runtime.CodeNotARepository, "The repository's work tree lies outside the workspace, so git is not run on it. Remove core.worktree from its configuration.")
	}
	return r, nil
}

// command is git with its arguments, shielded from the repository's settings
// as far as those can be: no file system monitor, hooks, pager, editor,
// prompt, credential or signature program, no transport, no settings of user
// or system. Settings given through the environment have command scope, the
// strongest. safe.directory names exactly the workspace and the directory that
// was asked for, since their owner need not be the box's user.
func (r repo) command(args []string) sandbox.Command {
	workspace := path.Clean(r.grant.Box().Facts().WorkspacePath)
	settings := []string{
		"core.fsmonitor=false", "core.hooksPath=/dev/null", "core.pager=cat", "core.attributesFile=/dev/null",
		"core.quotePath=false", "core.untrackedCache=false", "gpg.program=false", "gpg.ssh.program=false", "gpg.x509.program=false",
		"log.showSignature=false", "credential.helper=", "submodule.recurse=false", "fetch.recurseSubmodules=false",
		"protocol.allow=never", "protocol.ext.allow=never", "protocol.file.allow=never", "protocol.git.allow=never",
		"protocol.ssh.allow=never", "protocol.http.allow=never", "protocol.https.allow=never",
		"diff.context=3", "diff.interHunkContext=0", "diff.algorithm=default", "diff.suppressBlankEmpty=false",
		"gc.auto=0", "maintenance.auto=false", "color.ui=false", "safe.bareRepository=explicit",
		"diff.noprefix=false", "diff.mnemonicPrefix=false", "diff.srcPrefix=a/", "diff.dstPrefix=b/", "diff.relative=false",
		"diff.context=3", "diff.interHunkContext=0", "diff.context=3", "diff.interHunkContext=0", "diff.algorithm=default", "diff.suppressBlankEmpty=false",
		"diff.submodule=short", "diff.algorithm=myers",
		"safe.directory=" + workspace, "safe.directory=" + path.Join(workspace, r.dir),
	}
	env := []string{
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1",
		"GIT_OPTIONAL_LOCKS=0", "GIT_NO_LAZY_FETCH=1", "GIT_NO_REPLACE_OBJECTS=1",
		"GIT_CEILING_DIRECTORIES=" + path.Dir(workspace),
		"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=false", "SSH_ASKPASS=false", "GCM_INTERACTIVE=never", "GIT_SSH_COMMAND=false",
		"GIT_EDITOR=true", "GIT_SEQUENCE_EDITOR=true", "GIT_PAGER=cat", "PAGER=cat",
		"LC_ALL=C", "TERM=dumb",
		"GIT_CONFIG_COUNT=" + strconv.Itoa(len(settings)),
	}
	for i, setting := range settings {
		name, value, _ := strings.Cut(setting, "=")
		n := strconv.Itoa(i)
		env = append(env, "GIT_CONFIG_KEY_"+n+"="+name, "GIT_CONFIG_VALUE_"+n+"="+value)
	}
	return sandbox.Command{Argv: append([]string{"git"}, args...), Dir: r.dir, Env: env}
}

// output runs git and returns what it wrote, at most maxListing bytes.
func (r repo) output(ctx context.Context, args ...string) ([]byte, error) {
	var out limited
	out.max = maxListing
	if err := r.stream(ctx, &out, args...); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// stream runs git with its output going to w.
func (r repo) stream(ctx context.Context, w io.Writer, args ...string) error {
	cmd := r.command(args)
	errs := limited{max: maxErrors}
	cmd.Stdout, cmd.Stderr = w, &errs
	exit, err := sandbox.Run(ctx, r.grant.Box(), cmd, r.grant.Grace)
	switch {
	case sandbox.KindOf(err) == sandbox.KindCommandNotFound:
		return &runtime.Fault{
			Code:    runtime.CodeCommandNotFound,
			Message: "There is no git in this box. Work with the file tools, or ask for a run on an image that has git.",
			Cause:   err,
		}
	case err != nil:
		return runtime.BoxFault(err)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case exit.Code == 0:
		return nil
	}
	return failure(exit, errs.String())
}

// exitCode of a fault that failure made of git's exit, or -1.
func exitCode(err error) int {
	if f := runtime.AsFault(err); f != nil {
		if e, ok := errors.AsType[*exitError](f.Cause); ok {
			return e.code
		}
	}
	return -1
}

// exitError keeps what git said for the log.
type exitError struct {
	code   int
	stderr string
}

func (e *exitError) Error() string {
	return "git exited with " + strconv.Itoa(e.code) + ": " + e.stderr
}

// failure says why git did not exit with 0. The words are git's, in the C
// locale.
func failure(exit sandbox.Exit, stderr string) *runtime.Fault {
	f := &runtime.Fault{Cause: &exitError{exit.Code, stderr}}
	switch {
	case exit.OOMKilled:
		f.Code, f.Message = runtime.CodeOOMKilled, "git needed more memory than the box has. Narrow the call with paths."
	case exit.Signal != "":
		f.Code, f.Message = runtime.CodeGitFailed, "git was ended by "+exit.Signal+"."
	case strings.Contains(stderr, "not a git repository"):
		f.Code, f.Message = runtime.CodeNotARepository, "There is no git repository at this path, or its .git leads out of the workspace. Name a directory with a repository in path, or run git init."
	case strings.Contains(stderr, "must be run in a work tree"), strings.Contains(stderr, "safe.bareRepository"):
		f.Code, f.Message = runtime.CodeNotARepository, "This is a bare repository, which has no work tree to look at. Name a repository with one in path."
	case strings.Contains(stderr, "dubious ownership"):
		f.Code, f.Message = runtime.CodeGitFailed, "git refuses this repository, because another user owns it. Name the repository's own directory in path."
	case strings.Contains(stderr, "lazy fetching disabled"), strings.Contains(stderr, "promisor remote"):
		f.Code, f.Message = runtime.CodeGitFailed, "This is a partial clone, and content that the call needs was never fetched. The git tools fetch nothing: look at other paths or revisions, or ask for a full clone."
	default:
		f.Code, f.Message = runtime.CodeGitFailed, "git failed: "+reason(stderr)
	}
	return f
}

// reason is the first line in which git says that it gives up, else the first.
func reason(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	for said := range strings.Lines(text) {
		rest, fatal := strings.CutPrefix(said, "fatal: ")
		if !fatal {
			rest, fatal = strings.CutPrefix(said, "error: ")
		}
		if fatal {
			line = strings.TrimSpace(rest)
			break
		}
	}
	const most = 300
	if len(line) > most {
		line = line[:most] + "…"
	}
	if line == "" {
		return "it gave no reason."
	}
	return strings.ToValidUTF8(line, "\uFFFD")
}

// limited keeps the first max bytes and swallows the rest.
type limited struct {
	bytes.Buffer
	max int
}

func (l *limited) Write(p []byte) (int, error) {
	if room := l.max - l.Len(); room > 0 {
		l.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// inWorkspace makes a path of the repository one of the workspace.
func (r repo) inWorkspace(p string) string {
	if r.dir == "" {
		return p
	}
	return r.dir + "/" + p
}

// literal is a path of the repository as a pathspec without wildcards
// (gitglossary(7), "pathspec"); "." is all of it.
func literal(p string) string {
	if p == "." {
		return ":(top)"
	}
	return ":(top,literal)" + p
}

// pathspecs makes paths of the workspace ones of the repository, for use after
// "--". A path outside the repository is a fault.
func (r repo) pathspecs(paths []string) ([]string, error) {
	specs := make([]string, 0, len(paths))
	for _, p := range paths {
		clean := path.Clean(p)
		below, ok := strings.CutPrefix(clean, r.dir+"/")
		switch {
		case r.dir == "":
			specs = append(specs, literal(clean))
		case clean == r.dir:
			specs = append(specs, literal("."))
		case ok:
			specs = append(specs, literal(below))
		default:
			return nil, runtime.Faultf(runtime.CodePathInvalid, "%q is not in the repository %q. Paths are relative to the workspace.", p, r.dir)
		}
	}
	return specs, nil
}
