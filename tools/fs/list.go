package fs

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/sandbox"
)

// ListInput are the arguments of file.list.
type ListInput struct {
	target
	Depth int `json:"depth"`
	Limit int `json:"limit"`
}

// ListOutput is the answer of file.list and repo.glob.
type ListOutput struct {
	Entries   []Entry `json:"entries"`
	Total     int     `json:"total"`
	Truncated bool    `json:"truncated"`
}

// Entry is one path of a listing.
type Entry struct {
	name
	Type   sandbox.FileType `json:"type"`
	Bytes  int64            `json:"bytes"`
	Mode   string           `json:"mode"`
	Target string           `json:"target,omitempty"`
	Error  sandbox.Kind     `json:"error,omitempty"`
}

func listTool() *runtime.Tool {
	return runtime.NewTool(looking("file.list", "list.json", runtime.Definition{
		Title: "List a directory",
		Description: "Lists what is in a directory, hidden names included, with type, size and mode, in path order. " +
			"depth lists further levels; links are shown with their target and not followed. Use repo.glob to find files by name.",
		AlwaysLoad: true,
	}), runtime.Handlers[ListInput]{
		Check: ListInput.check, Paths: func(in ListInput) []runtime.PathUse { return in.reads() },
		Activity: func(in ListInput) string { return "Listing " + nameOf(in.raw()).Path },
		Run:      list,
	})
}

func (in ListInput) check() *runtime.Fault {
	if in.Path == "" && in.PathBase64 == "" || cleanPath(in.raw()) == "" {
		return nil // the workspace itself
	}
	return in.target.check()
}

func list(ctx context.Context, g *runtime.Grant, in ListInput) (runtime.Output, error) {
	out := ListOutput{Entries: []Entry{}}
	req := sandbox.WalkRequest{Path: in.clean(), Depth: max(in.Depth, 1)}
	err := g.Box().Files().Walk(ctx, req, func(e sandbox.Entry, _ io.Reader) error {
		if g.Readable(e.Path) {
			out.add(e, limitOr(in.Limit, 1000))
		}
		return nil
	})
	if err != nil {
		return runtime.Output{}, runtime.BoxFault(err)
	}
	return out.output(), nil
}

// limitOr is the limit that was asked for, or the schema's default.
func limitOr(asked, otherwise int) int {
	if asked == 0 {
		return otherwise
	}
	return asked
}

// add counts an entry and keeps it while there is room.
func (o *ListOutput) add(e sandbox.Entry, limit int) {
	o.Total++
	if len(o.Entries) >= limit {
		o.Truncated = true
		return
	}
	entry := Entry{
		name: nameOf(e.Path), Type: e.Info.Type, Bytes: e.Info.Bytes, Mode: modeString(e.Info.Mode),
		Target: strings.ToValidUTF8(e.Info.Target, "\uFFFD"),
	}
	if entry.Type == "" {
		entry.Type = sandbox.TypeFile // nothing is known but the name
	}
	if e.Err != nil {
		entry.Error = e.Err.Kind
	}
	o.Entries = append(o.Entries, entry)
}

func (o *ListOutput) output() runtime.Output {
	out := runtime.Output{Structured: o, Truncated: o.Truncated}
	if o.Truncated {
		out.Message = fmt.Sprintf("%d of %d entries are shown. Narrow the path or the pattern, or ask for more with limit.", len(o.Entries), o.Total)
	}
	return out
}
