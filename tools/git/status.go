package git

import (
	"context"
	"fmt"

	"github.com/sandboxd/sandboxd/runtime"
)

// StatusInput is git.status's input.
type StatusInput struct {
	Path  string `json:"path"`
	Limit int    `json:"limit"`
}

func (in StatusInput) uses() []runtime.PathUse { return repositoryUse(in.Path, "/path") }

// repositoryUse is the repository's directory as a path that is read.
func repositoryUse(dir, pointer string) []runtime.PathUse {
	if dir == "" {
		return nil
	}
	return []runtime.PathUse{{Path: dir, Pointer: pointer}}
}

// StatusResult is git.status's structured output.
type StatusResult struct {
	Branch    *string       `json:"branch"`
	Head      *string       `json:"head"`
	Upstream  string        `json:"upstream,omitempty"`
	Ahead     *int          `json:"ahead,omitempty"`
	Behind    *int          `json:"behind,omitempty"`
	Detached  bool          `json:"detached"`
	Unborn    bool          `json:"unborn"`
	Entries   []StatusEntry `json:"entries"`
	Total     int           `json:"total"`
	Hidden    int           `json:"hidden,omitempty"`
	Clean     bool          `json:"clean"`
	Truncated bool          `json:"truncated"`
}

// StatusEntry is one changed or untracked path.
type StatusEntry struct {
	Name
	OrigPath  string `json:"origPath,omitempty"`
	Index     string `json:"index"`
	Worktree  string `json:"worktree"`
	State     string `json:"state"`
	Submodule bool   `json:"submodule,omitempty"`
}

// defaultEntries is the schema's default, for callers without one.
const defaultEntries = 500

func status(ctx context.Context, g *runtime.Grant, in StatusInput) (runtime.Output, error) {
	r, err := open(ctx, g, in.Path)
	if err != nil {
		return runtime.Output{}, err
	}
	raw, err := r.output(ctx, "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all",
		"--ignored=no", "--ignore-submodules=dirty", "--find-renames", "--no-show-stash", "--ahead-behind")
	if err != nil {
		return runtime.Output{}, err
	}
	tree, err := parseStatus(raw)
	if err != nil && len(raw) < maxListing {
		return runtime.Output{}, fmt.Errorf("read git status: %w", err)
	}
	if in.Limit == 0 {
		in.Limit = defaultEntries
	}
	res := tree.result(r, in.Limit)
	res.Truncated = res.Truncated || len(raw) >= maxListing
	return runtime.Output{Structured: res, Truncated: res.Truncated}, nil
}

// result makes the answer, with at most limit entries that the run may read.
func (t *treeStatus) result(r repo, limit int) StatusResult {
	res := StatusResult{
		Upstream: t.upstream, Ahead: t.ahead, Behind: t.behind, Detached: t.detached, Unborn: t.unborn,
		Entries: []StatusEntry{}, Clean: len(t.entries) == 0,
	}
	if !t.detached {
		branch := nameOf(t.branch).Path
		res.Branch = &branch
	}
	if !t.unborn {
		res.Head = &t.head
	}
	for _, e := range t.entries {
		at := r.inWorkspace(e.path)
		if !r.grant.Readable(at) {
			res.Hidden++
			continue
		}
		if res.Total++; len(res.Entries) >= limit {
			res.Truncated = true
			continue
		}
		entry := StatusEntry{Name: nameOf(at), Index: string(e.index), Worktree: string(e.worktree), State: e.state(), Submodule: e.submodule}
		if e.from != "" && r.grant.Readable(r.inWorkspace(e.from)) {
			entry.OrigPath = nameOf(r.inWorkspace(e.from)).Path
		}
		res.Entries = append(res.Entries, entry)
	}
	return res
}
