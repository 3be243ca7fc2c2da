package fs

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/sandbox"
)

// searchTime bounds a search; what was found until then is returned.
const searchTime = 5 * time.Second

// SearchInput are the arguments of repo.search.
type SearchInput struct {
	Query          string   `json:"query"`
	Regex          bool     `json:"regex"`
	PathGlobs      []string `json:"pathGlobs"`
	CaseSensitive  *bool    `json:"caseSensitive"`
	ContextLines   int      `json:"contextLines"`
	MaxResults     int      `json:"maxResults"`
	IncludeHidden  bool     `json:"includeHidden"`
	IncludeIgnored bool     `json:"includeIgnored"`
}

// SearchOutput is the answer of repo.search.
type SearchOutput struct {
	Matches          []Match   `json:"matches"`
	TotalMatches     int       `json:"totalMatches"`
	FilesWithMatches int       `json:"filesWithMatches"`
	Truncated        bool      `json:"truncated"`
	TimedOut         bool      `json:"timedOut"`
	LeftOut          []string  `json:"leftOut"`
	Skipped          []Skipped `json:"skipped"`
}

// searchTool makes repo.search with a time limit and engines, of which the
// first that is done answers.
func searchTool(limit time.Duration, engines ...engine) *runtime.Tool {
	return runtime.NewTool(looking("repo.search", "search.json", runtime.Definition{
		Title: "Search in files",
		Description: "Finds lines that contain a text or match a regular expression, with path, line, column and a preview, ordered by path. " +
			"Hidden files and what git ignores are left out unless asked for; .git and links are never searched. totalMatches counts all matching lines.",
		AlwaysLoad: true, DefaultTimeout: 2 * searchTime, MaxTimeout: 4 * searchTime,
	}), runtime.Handlers[SearchInput]{
		Check: func(in SearchInput) *runtime.Fault {
			_, fault := in.compile()
			return fault
		},
		Activity: func(in SearchInput) string { return "Searching for " + strconv.Quote(in.Query) },
		Run: func(ctx context.Context, g *runtime.Grant, in SearchInput) (runtime.Output, error) {
			return search(ctx, g, in, limit, engines)
		},
	})
}

// query is a search ready to be made.
type query struct {
	pattern         *pattern
	globs           globs
	context, max    int
	hidden, ignored bool
}

func (in SearchInput) compile() (*query, *runtime.Fault) {
	p, fault := compilePattern(in.Query, in.Regex, in.CaseSensitive == nil || *in.CaseSensitive)
	if fault != nil {
		return nil, fault
	}
	gs, fault := compileGlobs(in.PathGlobs)
	if fault != nil {
		return nil, fault
	}
	return &query{
		pattern: p, globs: gs, context: in.ContextLines, max: limitOr(in.MaxResults, 50),
		hidden: in.IncludeHidden, ignored: in.IncludeIgnored,
	}, nil
}

// collector makes what takes the lines of this search.
func (q *query) collector(readable func(string) bool) *collector {
	return &collector{max: q.max, context: q.context, wanted: func(path string) bool {
		return q.wants(path) && readable(path)
	}}
}

// wants tells whether a file is to be searched, whatever git ignores.
func (q *query) wants(path string) bool {
	chosen, namedHidden := q.globs.choose(path)
	return chosen && (q.hidden || namedHidden || !isHidden(path)) && !inGitDir(path)
}

func inGitDir(path string) bool {
	return path == gitDir || strings.HasPrefix(path, gitDir+"/") ||
		strings.Contains(path, "/"+gitDir+"/") || strings.HasSuffix(path, "/"+gitDir)
}

// An engine hands the lines that match to the collector. done is false where
// it cannot search here, and another is to.
type engine func(ctx context.Context, g *runtime.Grant, q *query, c *collector) (done bool, err error)

func search(ctx context.Context, g *runtime.Grant, in SearchInput, limit time.Duration, engines []engine) (runtime.Output, error) {
	q, fault := in.compile()
	if fault != nil {
		return runtime.Output{}, fault
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var c *collector
	var done bool
	var err error
	for _, look := range engines {
		c = q.collector(g.Readable)
		if done, err = look(limited, g, q, c); done || err != nil || limited.Err() != nil {
			break
		}
	}
	timedOut := limited.Err() != nil && ctx.Err() == nil
	if err == nil && !done && !timedOut {
		err = errors.New("no engine could search")
	}
	if err != nil && !timedOut {
		return runtime.Output{}, runtime.BoxFault(err)
	}
	out := c.output(timedOut)
	if !in.IncludeHidden {
		out.LeftOut = append(out.LeftOut, "hidden")
	}
	if !in.IncludeIgnored {
		out.LeftOut = append(out.LeftOut, "ignored")
	}
	return runtime.Output{Structured: out, Truncated: out.Truncated, Message: out.message()}, nil
}

func (c *collector) output(timedOut bool) SearchOutput {
	c.end() // the file that a time limit left open
	c.settle()
	out := SearchOutput{
		Matches: append([]Match{}, c.matches...), TotalMatches: c.total, FilesWithMatches: c.files,
		TimedOut: timedOut, LeftOut: []string{}, Skipped: append([]Skipped{}, c.skipped...),
	}
	out.Truncated = timedOut || out.TotalMatches > len(out.Matches)
	return out
}

func (o SearchOutput) message() string {
	var parts []string
	switch {
	case o.TimedOut:
		parts = append(parts, "The search ran into its time limit; there may be more matches. Narrow it with pathGlobs.")
	case o.TotalMatches == 0:
		parts = append(parts, "No line matches.")
		if len(o.LeftOut) > 0 {
			parts = append(parts, "Not searched: files that are "+strings.Join(o.LeftOut, " or ")+"; includeHidden and includeIgnored take them in.")
		}
	case o.Truncated:
		parts = append(parts, fmt.Sprintf("%d of %d matching lines are shown. Narrow the query, or use pathGlobs.", len(o.Matches), o.TotalMatches))
	}
	if len(o.Skipped) > 0 {
		parts = append(parts, fmt.Sprintf("%s could not be searched (%s); see skipped.", o.Skipped[0].Path, o.Skipped[0].Reason))
	}
	return strings.Join(parts, " ")
}

// heads are the directories at the head of the globs: where every chosen file
// is below one of them, only those are looked into, and are entered though git
// ignores them. nil means the whole workspace.
func (q *query) heads() []string {
	var heads []string
	seen := map[string]bool{}
	for _, g := range q.globs.in {
		head, _, ok := strings.Cut(g.pattern, "/")
		if !ok || strings.ContainsAny(head, `*?[]{}\`) || head == gitDir {
			return nil
		}
		if !seen[head] {
			seen[head] = true
			heads = append(heads, head)
		}
	}
	return heads
}

// existing returns those of the heads that are directories, and not links.
func existingDirs(ctx context.Context, g *runtime.Grant, heads []string) ([]string, error) {
	var dirs []string
	for _, h := range heads {
		info, err := g.Box().Files().Stat(ctx, h)
		switch kind := sandbox.KindOf(err); {
		case kind == "" && info.Type == sandbox.TypeDir:
			dirs = append(dirs, h)
		case kind == "" || kind == sandbox.KindNotFound || kind == sandbox.KindPermission:
		default:
			return nil, err
		}
	}
	return dirs, nil
}
