package git

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/sandboxd/sandboxd/runtime"
)

// ShowInput is git.show's input.
type ShowInput struct {
	Rev        string `json:"rev"`
	Path       string `json:"path"`
	Repository string `json:"repository"`
}

func (in ShowInput) check() *runtime.Fault { return checkRev("/rev", in.Rev) }

func (in ShowInput) uses() []runtime.PathUse {
	return append(repositoryUse(in.Path, "/path"), repositoryUse(in.Repository, "/repository")...)
}

// ShowResult is git.show's structured output: a commit with its changes, or
// the content of one file in it.
type ShowResult struct {
	Commit    Commit     `json:"commit"`
	Diff      *string    `json:"diff,omitempty"`
	Files     []DiffFile `json:"files,omitempty"`
	Total     int        `json:"total,omitempty"`
	Hidden    int        `json:"hidden,omitempty"`
	Path      string     `json:"path,omitempty"`
	Content   *string    `json:"content,omitempty"`
	Bytes     *int64     `json:"bytes,omitempty"`
	Mode      string     `json:"mode,omitempty"`
	Truncated bool       `json:"truncated"`
}

func show(ctx context.Context, g *runtime.Grant, in ShowInput) (runtime.Output, error) {
	r, file, err := locate(ctx, g, in)
	if err != nil {
		return runtime.Output{}, err
	}
	id, err := r.commit(ctx, in.Rev)
	if err != nil {
		return runtime.Output{}, err
	}
	commits, err := r.commits(ctx, 1, []string{id}, nil)
	if err != nil {
		return runtime.Output{}, err
	}
	if len(commits) != 1 {
		return runtime.Output{}, fmt.Errorf("read commit %s: git log lists %d", id, len(commits))
	}
	res := ShowResult{Commit: commits[0], Truncated: commits[0].cut}
	if file == "" {
		err = r.showChanges(ctx, &res)
	} else {
		err = r.showFile(ctx, &res, file)
	}
	return runtime.Output{Structured: res, Truncated: res.Truncated}, err
}

// locate finds the repository, and the file where one is asked for. A path
// that is a repository's own directory names the repository, as it does for
// the other tools; any other path is a file, which need not exist any more.
func locate(ctx context.Context, g *runtime.Grant, in ShowInput) (r repo, file string, err error) {
	if in.Repository != "" || in.Path == "" {
		r, err = open(ctx, g, in.Repository)
		return r, in.Path, err
	}
	r, err = open(ctx, g, in.Path)
	switch {
	case err == nil && r.dir == strings.TrimPrefix(path.Clean("/"+in.Path), "/"):
		return r, "", nil
	case err == nil:
		return r, in.Path, nil
	case runtime.AsFault(err).Code == runtime.CodeCwdInvalid:
		r, err = open(ctx, g, "")
		return r, in.Path, err
	}
	return repo{}, "", err
}

// showChanges compares the commit with its first parent, or with nothing.
func (r repo) showChanges(ctx context.Context, res *ShowResult) error {
	base, err := r.emptyTree(ctx)
	if err != nil {
		return err
	}
	if len(res.Commit.Parents) > 0 {
		base, err = r.commit(ctx, res.Commit.Parents[0])
	}
	if err != nil { // the parent of a shallow clone's last commit is not there
		return err
	}
	d, err := r.compare(ctx, []string{base, res.Commit.ID}, nil)
	if err != nil {
		return err
	}
	res.Diff, res.Files, res.Total, res.Hidden = &d.Diff, d.Files, d.Total, d.Hidden
	res.Truncated = res.Truncated || d.Truncated
	return nil
}

// showFile shows a file as the commit has it.
func (r repo) showFile(ctx context.Context, res *ShowResult, file string) error {
	specs, err := r.pathspecs([]string{file})
	if err != nil {
		return err
	}
	if specs[0] == literal(".") {
		return r.showChanges(ctx, res)
	}
	raw, err := r.output(ctx, "ls-tree", "-z", "--full-tree", res.Commit.ID, "--", specs[0])
	if err != nil {
		return err
	}
	mode, kind, blob := parseTreeEntry(raw)
	switch kind {
	case "":
		return runtime.Faultf(runtime.CodeFileNotFound, "%q is not in commit %s. Check the path, which is relative to the workspace, or the revision.", file, res.Commit.ID[:12])
	case "tree":
		return runtime.Faultf(runtime.CodeIsDirectory, "%q is a directory in commit %s. Name a file in it.", file, res.Commit.ID[:12])
	case "blob":
	default:
		return runtime.Faultf(runtime.CodeNotRegularFile, "%q is a submodule in commit %s, which has no content of its own here.", file, res.Commit.ID[:12])
	}
	capture := r.grant.Capture("content", "The whole file as it was in the commit")
	if err := r.stream(ctx, capture, "cat-file", "blob", blob); err != nil {
		return err
	}
	text := capture.Text()
	total, omitted := capture.Bytes()
	res.Path, res.Mode, res.Content, res.Bytes = nameOf(file).Path, mode, &text, &total
	res.Truncated = res.Truncated || omitted > 0
	return nil
}

// parseTreeEntry reads the one record of "git ls-tree -z": mode, kind and id
// before a tab. kind is "" where there is none.
func parseTreeEntry(raw []byte) (mode, kind, id string) {
	record, _, _ := strings.Cut(string(raw), "\x00")
	head, _, _ := strings.Cut(record, "\t")
	fields := strings.Fields(head)
	if len(fields) != 3 || !isObjectID(fields[2]) {
		return "", "", ""
	}
	return fields[0], fields[1], fields[2]
}
