package fs

import (
	"context"
	"fmt"

	"github.com/sandboxd/sandboxd/runtime"
)

// GlobInput are the arguments of repo.glob.
type GlobInput struct {
	Pattern        string `json:"pattern"`
	Limit          int    `json:"limit"`
	IncludeHidden  bool   `json:"includeHidden"`
	IncludeIgnored bool   `json:"includeIgnored"`
}

// GlobOutput is the answer of repo.glob.
type GlobOutput struct {
	ListOutput
	Hidden  int `json:"hidden"`
	Ignored int `json:"ignored"`
}

func globTool() *runtime.Tool {
	return runtime.NewTool(looking("repo.glob", "glob.json", runtime.Definition{
		Title: "Find paths by pattern",
		Description: "Finds files and directories whose path matches a glob, in path order. " +
			"Hidden names and what git ignores are left out and counted, unless asked for; .git is never entered, links are not followed.",
	}), runtime.Handlers[GlobInput]{
		Check:    GlobInput.check,
		Activity: func(in GlobInput) string { return "Finding " + in.Pattern },
		Run:      findPaths,
	})
}

func (in GlobInput) check() *runtime.Fault {
	_, fault := compileGlob(in.Pattern)
	return fault
}

func findPaths(ctx context.Context, g *runtime.Grant, in GlobInput) (runtime.Output, error) {
	pattern, fault := compileGlob(in.Pattern)
	if fault != nil {
		return runtime.Output{}, fault
	}
	t, err := loadTree(ctx, g, nil)
	if err != nil {
		return runtime.Output{}, runtime.BoxFault(err)
	}
	out := GlobOutput{ListOutput: ListOutput{Entries: []Entry{}, Truncated: t.truncated}}
	for i, e := range t.entries {
		switch {
		case !pattern.match(e.Path):
		case isHidden(e.Path) && !in.IncludeHidden && !pattern.hidden:
			out.Hidden++
		case t.ignored[i] && !in.IncludeIgnored:
			out.Ignored++
		default:
			out.add(e, limitOr(in.Limit, 1000))
		}
	}
	return runtime.Output{Structured: out, Truncated: out.Truncated, Message: out.message()}, nil
}

func (o GlobOutput) message() string {
	switch {
	case o.Truncated:
		return fmt.Sprintf("%d of %d paths are shown. Narrow the pattern, or ask for more with limit.", len(o.Entries), o.Total)
	case o.Total == 0 && o.Hidden+o.Ignored > 0:
		return fmt.Sprintf("No path is shown, but %d hidden and %d ignored ones match; includeHidden and includeIgnored show them.", o.Hidden, o.Ignored)
	case o.Total == 0:
		return "No path matches. A pattern without a slash matches names at any depth; one with a slash is the whole path from the workspace."
	}
	return ""
}
