package git

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/runtime"
)

// LogInput is git.log's input.
type LogInput struct {
	Path  string   `json:"path"`
	Rev   string   `json:"rev"`
	Limit int      `json:"limit"`
	Paths []string `json:"paths"`
}

func (in LogInput) check() *runtime.Fault {
	if in.Rev == "" {
		return nil
	}
	return checkSpan("/rev", readSpan(in.Rev))
}

func (in LogInput) uses() []runtime.PathUse { return DiffInput{Path: in.Path, Paths: in.Paths}.uses() }

// LogResult is git.log's structured output.
type LogResult struct {
	Commits   []Commit `json:"commits"`
	Truncated bool     `json:"truncated"`
}

// Commit is one commit. Times are RFC 3339, as their authors' clocks said.
type Commit struct {
	ID          string   `json:"commit"`
	Parents     []string `json:"parents"`
	AuthorName  string   `json:"authorName"`
	AuthorEmail string   `json:"authorEmail"`
	AuthoredAt  string   `json:"authoredAt"`
	CommittedAt string   `json:"committedAt"`
	Subject     string   `json:"subject"`
	Body        string   `json:"body,omitempty"`
	cut         bool
}

// commitFormat are the fields of a commit, each ended by NUL with -z.
const (
	commitFormat = "--format=%H%x00%P%x00%an%x00%ae%x00%aI%x00%cI%x00%s%x00%b"
	commitFields = 8
)

// The bounds of one commit's text, in bytes.
const (
	maxSubject = 1000
	maxBody    = 4000
	maxParents = 1000
)

// defaultCommits is the schema's default, for callers without one.
const defaultCommits = 20

func log(ctx context.Context, g *runtime.Grant, in LogInput) (runtime.Output, error) {
	r, err := open(ctx, g, in.Path)
	if err != nil {
		return runtime.Output{}, err
	}
	specs, err := r.pathspecs(in.Paths)
	if err != nil {
		return runtime.Output{}, err
	}
	res := LogResult{Commits: []Commit{}}
	from, err := r.logRange(ctx, in.Rev)
	if err != nil || len(from) == 0 {
		return runtime.Output{Structured: res}, err
	}
	if in.Limit == 0 {
		in.Limit = defaultCommits
	}
	commits, err := r.commits(ctx, in.Limit+1, from, specs)
	if err != nil {
		return runtime.Output{}, err
	}
	res.fill(commits, in.Limit, g.MaxChars())
	return runtime.Output{Structured: res, Truncated: res.Truncated}, nil
}

// fill takes as many commits as limit and room for text allow.
func (res *LogResult) fill(commits []Commit, limit, room int) {
	for _, c := range commits {
		room -= len(c.Subject) + len(c.Body) + len(c.AuthorName) + len(c.AuthorEmail) + 200
		if len(res.Commits) == limit || room < 0 && len(res.Commits) > 0 {
			res.Truncated = true
			return
		}
		res.Commits = append(res.Commits, c)
		res.Truncated = res.Truncated || c.cut
	}
}

// logRange resolves where to begin and what to leave out. It is empty where
// there is no commit yet.
func (r repo) logRange(ctx context.Context, rev string) ([]string, error) {
	if rev == "" {
		head, err := r.head(ctx)
		if err != nil || head == "" {
			return nil, err
		}
		return []string{head}, nil
	}
	from, to, err := r.resolve(ctx, readSpan(rev))
	if err != nil || to == "" {
		return []string{from}, err
	}
	return []string{to, "^" + from}, nil
}

// commits reads at most most commits.
func (r repo) commits(ctx context.Context, most int, from, specs []string) ([]Commit, error) {
	args := append([]string{
		"log", "-z", commitFormat, "--encoding=UTF-8", "--no-color", "--no-patch", "--no-notes", "--no-show-signature",
		"--max-count=" + strconv.Itoa(most),
	}, from...)
	raw, err := r.output(ctx, append(append(args, "--"), specs...)...)
	if err != nil {
		return nil, err
	}
	commits, err := parseLog(raw)
	if err != nil && len(raw) < maxListing {
		return nil, fmt.Errorf("read git log: %w", err)
	}
	return commits, nil
}

// parseLog reads commits in commitFormat. On error it returns what came
// before.
func parseLog(raw []byte) ([]Commit, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	fields := strings.Split(strings.TrimSuffix(string(raw), "\x00"), "\x00")
	var commits []Commit
	for len(fields) >= commitFields {
		f := fields[:commitFields]
		fields = fields[commitFields:]
		c := Commit{ID: f[0], Parents: strings.Fields(f[1]), AuthoredAt: shorten(f[4], 64), CommittedAt: shorten(f[5], 64)}
		if !isObjectID(c.ID) {
			return commits, fmt.Errorf("%w: %.60q", errStatus, f[0])
		}
		if c.Parents == nil {
			c.Parents = []string{}
		}
		c.Parents = c.Parents[:min(len(c.Parents), maxParents)]
		c.AuthorName, c.AuthorEmail = shorten(f[2], maxSubject), shorten(f[3], maxSubject)
		c.Subject, c.Body = shorten(f[6], maxSubject), shorten(strings.TrimSpace(f[7]), maxBody)
		c.cut = len(f[6]) > maxSubject || len(strings.TrimSpace(f[7])) > maxBody
		commits = append(commits, c)
	}
	if len(fields) > 0 {
		return commits, fmt.Errorf("%w: %d fields too many", errStatus, len(fields))
	}
	return commits, nil
}

// shorten cuts text to at most n bytes of valid UTF-8, and says so.
func shorten(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	end := n - len("…")
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
