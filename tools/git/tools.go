package git

import (
	"context"
	_ "embed"
	"encoding/json"
	"time"

	"github.com/sandboxd/sandboxd/runtime"
)

//go:embed status.json
var statusSchemas []byte

//go:embed diff.json
var diffSchemas []byte

//go:embed log.json
var logSchemas []byte

//go:embed show.json
var showSchemas []byte

// The time limits of a git tool.
const (
	defaultTimeout = 30 * time.Second
	maxTimeout     = 5 * time.Minute
)

// Tools are the tools of this package.
func Tools() []*runtime.Tool {
	return []*runtime.Tool{
		reader("git.status", "Show what changed", statusSchemas,
			"Shows the state of the git repository in the workspace: branch, head, distance to the upstream, and every changed or untracked file with its state in index and worktree. "+
				"Ignored files are left out, and submodules are not entered. Use path for a repository in a directory below the workspace.",
			runtime.Handlers[StatusInput]{Paths: StatusInput.uses, Run: status}),
		reader("git.diff", "Show changes as a diff", diffSchemas,
			"Shows changes as a unified diff with a list of files and line counts. Without arguments: all uncommitted changes of tracked files, compared with the last commit. "+
				"staged: only what is in the index. base: compare the worktree with that revision; \"a..b\" compares two revisions, \"a...b\" compares b with where it left a. "+
				"Untracked files are listed by name, since git has no diff of them.",
			runtime.Handlers[DiffInput]{Check: DiffInput.check, Paths: DiffInput.uses, Run: diff}),
		reader("git.log", "Show commits", logSchemas,
			"Lists commits, newest first, from HEAD or from rev (\"a..b\": what b has and a has not), optionally only those that changed the given paths.",
			runtime.Handlers[LogInput]{Check: LogInput.check, Paths: LogInput.uses, Run: log}),
		reader("git.show", "Show one commit or a file in it", showSchemas,
			"Shows one commit: author, message, and its changes against its first parent. With path: the content of that file as it was in the revision.",
			runtime.Handlers[ShowInput]{Check: ShowInput.check, Paths: ShowInput.uses, Run: show}),
	}
}

// reader defines one read-only git tool.
func reader[In any](name, title string, raw []byte, description string, h runtime.Handlers[In]) *runtime.Tool {
	var s struct {
		Input  json.RawMessage `json:"input"`
		Output json.RawMessage `json:"output"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		panic("embedded schema of " + name + ": " + err.Error())
	}
	h.Run = ended(h.Run)
	return runtime.NewTool(runtime.Definition{
		Name: name, Version: "1.0", Title: title, Description: description,
		Input: s.Input, Output: s.Output,
		Needs:          runtime.Needs{ReadWorkspace: true},
		Mode:           runtime.ModeSandboxReadOnly,
		DefaultTimeout: defaultTimeout, MaxTimeout: maxTimeout,
		Idempotent: true,
		Tags:       []string{"git", "repository", "version control"},
	}, h)
}

// ended makes the end of the call's context its outcome, whatever git said
// when it was killed.
func ended[In any](run func(context.Context, *runtime.Grant, In) (runtime.Output, error)) func(context.Context, *runtime.Grant, In) (runtime.Output, error) {
	return func(ctx context.Context, g *runtime.Grant, in In) (runtime.Output, error) {
		out, err := run(ctx, g, in)
		if err != nil && ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
		return out, err
	}
}
