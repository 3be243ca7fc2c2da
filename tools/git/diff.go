package git

import (
	"context"
	"fmt"
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
	if fault := checkRev("/base", s.from); fault != nil || s.to == "" {
		return fault
	}
	return checkRev("/base", s.to)
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
	raw, err := r.output(ctx, diffArgs(sides, specs, "--raw", "--numstat", "-z")...)
	if err != nil {
		return runtime.Output{}, err
	}
	changes, err := parseDiff(raw)
	cut := len(raw) >= maxListing
	if err != nil && !cut {
		return runtime.Output{}, fmt.Errorf("read git diff: %w", err)
	}
	res, shown := r.diffFiles(changes)
	if res.Hidden > 0 || res.Truncated {
		specs = shown
	}
	capture := g.Capture("diff", "The whole diff")
	if len(res.Files) > 0 {
		if err := r.stream(ctx, capture, diffArgs(sides, specs, "--patch")...); err != nil {
			return runtime.Output{}, err
		}
	}
	res.Diff = capture.Text()
	_, omitted := capture.Bytes()
	if in.tracksWorktree() {
		if err := r.addUntracked(ctx, &res, in.Paths); err != nil {
			return runtime.Output{}, err
		}
	}
	res.Truncated = res.Truncated || omitted > 0 || cut
	return runtime.Output{Structured: res, Truncated: res.Truncated}, nil
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

// diffArgs is git diff without programs of the repository's choice.
func diffArgs(sides, specs []string, format ...string) []string {
	args := append([]string{"diff", "--no-ext-diff", "--no-textconv", "--no-color", "--find-renames", "--ignore-submodules=dirty", "--full-index"}, format...)
	args = append(args, sides...)
	return append(append(args, "--"), specs...)
}

// diffFiles lists what the run may read, and the pathspecs of exactly that.
func (r repo) diffFiles(changes []change) (DiffResult, []string) {
	res := DiffResult{Files: []DiffFile{}, Untracked: []Name{}}
	var specs []string
	for _, c := range changes {
		at := r.inWorkspace(c.path)
		if !r.grant.Readable(at) || c.from != "" && !r.grant.Readable(r.inWorkspace(c.from)) {
			res.Hidden++
			continue
		}
		if res.Total++; len(res.Files) >= maxDiffFiles {
			res.Truncated = true
			continue
		}
		f := DiffFile{Name: nameOf(at), Status: c.word(), Additions: c.added, Deletions: c.deleted, Binary: c.binary}
		specs = append(specs, c.path)
		if c.from != "" {
			f.OldPath = nameOf(r.inWorkspace(c.from)).Path
			specs = append(specs, c.from)
		}
		res.Files = append(res.Files, f)
	}
	return res, specs
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
