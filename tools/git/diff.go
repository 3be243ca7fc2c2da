package git

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/sandboxd/sandboxd/runtime"
)

// DiffInput is git.diff's input.
type DiffInput struct {
	Path   string   `json:"path"`
	Base   string   `json:"base"`
	Paths  []string `json:"paths"`
	Staged bool     `json:"staged"`
}

func (in DiffInput) check() *runtime.Fault {
	if in.Base == "" {
		return nil
	}
	s := readSpan(in.Base)
	if in.Staged && s.to != "" {
		return runtime.Faultf(runtime.CodeSchemaViolation, "/staged: two revisions have no index between them. Leave staged out, or give one revision as base.")
	}
	return checkSpan("/base", s)
}

func (in DiffInput) uses() []runtime.PathUse {
	uses := repositoryUse(in.Path, "/path")
	for i, p := range in.Paths {
		uses = append(uses, runtime.PathUse{Path: p, Pointer: fmt.Sprintf("/paths/%d", i)})
	}
	return uses
}

// DiffResult is git.diff's structured output.
type DiffResult struct {
	Diff      string     `json:"diff"`
	Files     []DiffFile `json:"files"`
	Total     int        `json:"total"`
	Untracked []Name     `json:"untracked"`
	Hidden    int        `json:"hidden,omitempty"`
	Truncated bool       `json:"truncated"`
}

// DiffFile is one file of a diff. Lines are not counted of a binary file.
type DiffFile struct {
	Name
	OldPath   string `json:"oldPath,omitempty"`
	Status    string `json:"status"`
	Additions int    `json:"additions"`
	Deletions int    `json:"deletions"`
	Binary    bool   `json:"binary"`
}

// maxDiffFiles is the most files that an answer lists.
const maxDiffFiles = 1000

func diff(ctx context.Context, g *runtime.Grant, in DiffInput) (runtime.Output, error) {
	r, err := open(ctx, g, in.Path)
	if err != nil {
		return runtime.Output{}, err
	}
	sides, err := r.sides(ctx, in)
	if err != nil {
		return runtime.Output{}, err
	}
	specs, err := r.pathspecs(in.Paths)
	if err != nil {
		return runtime.Output{}, err
	}
	res, err := r.compare(ctx, sides, specs)
	if err != nil {
		return runtime.Output{}, err
	}
	if in.tracksWorktree() {
		if err := r.addUntracked(ctx, &res, in.Paths); err != nil {
			return runtime.Output{}, err
		}
	}
	return runtime.Output{Structured: res, Truncated: res.Truncated}, nil
}

// compare lists the files that differ between the sides and makes their diff,
// both of what the run may read.
func (r repo) compare(ctx context.Context, sides, specs []string) (DiffResult, error) {
	raw, err := r.output(ctx, diffArgs(sides, specs, "--raw", "--numstat", "-z")...)
	if err != nil {
		return DiffResult{}, err
	}
	changes, err := parseDiff(raw)
	cut := len(raw) >= maxListing
	if err != nil && !cut {
		return DiffResult{}, fmt.Errorf("read git diff: %w", err)
	}
	res, shown := r.diffFiles(changes)
	if res.Hidden > 0 || res.Truncated {
		specs = shown
	}
	capture := r.grant.Capture("diff", "The whole diff")
	if len(res.Files) > 0 {
		if err := r.stream(ctx, capture, diffArgs(sides, specs, "--patch")...); err != nil {
			return DiffResult{}, err
		}
	}
	res.Diff = capture.Text()
	_, omitted := capture.Bytes()
	res.Truncated = res.Truncated || omitted > 0 || cut
	return res, nil
}

// tracksWorktree tells whether the worktree is one of the sides.
func (in DiffInput) tracksWorktree() bool { return !in.Staged && readSpan(in.Base).to == "" }

// sides are the arguments that say what is compared.
func (r repo) sides(ctx context.Context, in DiffInput) ([]string, error) {
	var sides []string
	if in.Staged {
		sides = append(sides, "--cached")
	}
	if in.Base == "" {
		head, err := r.head(ctx)
		if err == nil && head == "" {
			head, err = r.emptyTree(ctx)
		}
		return append(sides, head), err
	}
	from, to, err := r.resolve(ctx, readSpan(in.Base))
	if err != nil || to == "" {
		return append(sides, from), err
	}
	return append(sides, from, to), nil
}

// diffArgs is git diff without programs of the repository's choice, and as if
// it had no settings for the look of a diff.
func diffArgs(sides, specs []string, format ...string) []string {
	args := append([]string{
		"diff", "--no-ext-diff", "--no-textconv", "--no-color", "--find-renames", "--full-index", "--no-relative",
		"--ignore-submodules=dirty", "--submodule=short", "--src-prefix=a/", "--dst-prefix=b/", "-O/dev/null",
	}, format...)
	args = append(args, sides...)
	return append(append(args, "--"), specs...)
}

// maxSpecBytes bounds the names that git gets as arguments, well below what
// Linux takes (execve(2), "Limits on size of arguments and environment").
const maxSpecBytes = 512 << 10

// diffFiles lists what the run may read, and the pathspecs of exactly that.
func (r repo) diffFiles(changes []change) (DiffResult, []string) {
	res := DiffResult{Files: []DiffFile{}, Untracked: []Name{}}
	var specs, hidden []string
	shown, room := map[string]bool{}, maxSpecBytes
	for _, c := range changes {
		at := r.inWorkspace(c.path)
		if !r.grant.Readable(at) || c.from != "" && !r.grant.Readable(r.inWorkspace(c.from)) {
			hidden = append(hidden, c.path)
			continue
		}
		res.Total++
		room -= len(c.path) + len(c.from) + 2*len(literal(""))
		if len(res.Files) >= maxDiffFiles || room < 0 {
			res.Truncated = true
			continue
		}
		f := DiffFile{Name: nameOf(at), Status: c.word(), Additions: c.added, Deletions: c.deleted, Binary: c.binary}
		specs, shown[c.path] = append(specs, literal(c.path)), true
		if c.from != "" {
			f.OldPath = nameOf(r.inWorkspace(c.from)).Path
			specs, shown[c.from] = append(specs, literal(c.from)), true
		}
		res.Files = append(res.Files, f)
	}
	res.Hidden = len(hidden)
	return res, append(specs, below(shown, hidden)...)
}

// below excludes hidden paths that the pathspec of a shown one would uncover:
// that of a file which became a directory covers all that is in it now.
func below(shown map[string]bool, hidden []string) []string {
	var specs []string
	for _, p := range hidden {
		for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
			if shown[dir] {
				specs = append(specs, ":(top,exclude,literal)"+p)
				break
			}
		}
	}
	return specs
}

// addUntracked names the files that git does not know and does not ignore.
func (r repo) addUntracked(ctx context.Context, res *DiffResult, paths []string) error {
	specs, err := r.pathspecs(paths)
	if err != nil {
		return err
	}
	raw, err := r.output(ctx, append([]string{"ls-files", "--others", "--exclude-standard", "-z", "--"}, specs...)...)
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(string(raw), "\x00") {
		at := r.inWorkspace(name)
		switch {
		case name == "":
		case !r.grant.Readable(at):
			res.Hidden++
		case len(res.Untracked) >= maxDiffFiles:
			res.Truncated = true
		default:
			res.Untracked = append(res.Untracked, nameOf(at))
		}
	}
	return nil
}
