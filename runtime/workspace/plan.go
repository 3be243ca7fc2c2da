package workspace

import (
	"context"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/sandbox"
)

// kind is what an entry will be.
type kind byte

const (
	kindFile kind = iota
	kindDir
	kindSymlink
)

// ownDir is what every directory allows its owner: without it, nothing could be
// put into it, and the run could not clean up.
const ownDir fs.FileMode = 0o700

// planned is one entry that passed all checks.
type planned struct {
	path    string
	kind    kind
	size    int64
	mode    fs.FileMode // permission bits: setuid and the like are dropped
	modTime time.Time
	target  string
}

// plan collects the entries of an import and refuses what must not come in.
type plan struct {
	limits Limits
	kinds  map[string]kind // every path so far, parents included
	total  int64
}

func newPlan(limits Limits) *plan {
	return &plan{limits: limits, kinds: make(map[string]kind)}
}

// The bounds of Linux on names (NAME_MAX, and PATH_MAX less its NUL).
const (
	maxName = 255
	maxPath = 4095
)

// cleanPath brings a name into the form of a workspace path. It is "" for the
// workspace itself.
func cleanPath(name string) (string, error) {
	switch {
	case strings.ContainsRune(name, 0):
		return "", refused(name, "its name holds a NUL.")
	case name == "":
		return "", refused(name, "it has no name.")
	case strings.HasPrefix(name, "/"):
		return "", refused(name, "its name is absolute.")
	case len(name) > maxPath:
		return "", refused(name, "its name is too long.")
	}
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "" || part == ".":
			continue
		case part == "..":
			return "", refused(name, `its name holds "..".`)
		case len(part) > maxName:
			return "", refused(name, "a part of its name is too long.")
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "/"), nil
}

// checkTarget demands that a symlink stays inside the workspace, whatever
// other symlinks there are: ".." may only lead the target, and only up to the
// workspace. (After a name, ".." would start from wherever that name points.)
func checkTarget(path, target string) string {
	switch {
	case target == "" || strings.ContainsRune(target, 0):
		return "its target is empty or holds a NUL."
	case strings.HasPrefix(target, "/"):
		return "it is a symlink with an absolute target."
	case len(target) > maxPath:
		return "its target is too long."
	}
	depth, below := strings.Count(path, "/"), false
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if below {
				return `it is a symlink whose target holds ".." after a name.`
			}
			if depth--; depth < 0 {
				return "it is a symlink that points outside the workspace."
			}
		default:
			below = true
		}
	}
	return ""
}

// add checks one entry against the limits and against those before it.
func (p *plan) add(e planned) error {
	if e.kind == kindSymlink {
		if why := checkTarget(e.path, e.target); why != "" {
			return refused(e.path, why)
		}
	}
	if err := p.addParents(e.path); err != nil {
		return err
	}
	if have, ok := p.kinds[e.path]; ok && (have != kindDir || e.kind != kindDir) {
		return refused(e.path, "it comes twice.")
	}
	p.kinds[e.path] = e.kind
	if len(p.kinds) > p.limits.Entries {
		return tooLarge("There are more than %d entries.", p.limits.Entries)
	}
	if e.kind != kindFile {
		return nil
	}
	if e.size > p.limits.FileBytes {
		return tooLarge("File %s has %d bytes; at most %d are taken.", quoted(e.path), e.size, p.limits.FileBytes)
	}
	if p.total += e.size; p.total > p.limits.TotalBytes {
		return tooLarge("The files have more than %d bytes together.", p.limits.TotalBytes)
	}
	return nil
}

// addParents notes the directories above a path; none of them may be a file or
// a link, through which the entry would land elsewhere.
func (p *plan) addParents(path string) error {
	for i, c := range []byte(path) {
		if c != '/' {
			continue
		}
		parent := path[:i]
		if have, ok := p.kinds[parent]; ok && have != kindDir {
			return refused(path, "a parent of it is a file or a link.")
		}
		p.kinds[parent] = kindDir
	}
	return nil
}

// checkPlace looks whether the workspace has room for what was planned: a file
// or link may replace a file or link, but nothing replaces a directory, and no
// parent may be anything else. So a conflict is found before the first write.
func checkPlace(ctx context.Context, files sandbox.Files, entries []planned) error {
	there := make(map[string]sandbox.FileType)
	err := files.Walk(ctx, sandbox.WalkRequest{}, func(e sandbox.Entry, _ io.Reader) error {
		there[e.Path] = e.Info.Type
		return nil
	})
	if err != nil || len(there) == 0 {
		return err
	}
	for _, e := range entries {
		have, ok := there[e.path]
		if ok && (have == sandbox.TypeDir) != (e.kind == kindDir) {
			return runtime.Problemf(runtime.ProblemConflict,
				"Entry %s: the workspace has a %s there. Nothing was unpacked.", quoted(e.path), have)
		}
		for i := range len(e.path) {
			if e.path[i] != '/' {
				continue
			}
			if have, ok := there[e.path[:i]]; ok && have != sandbox.TypeDir {
				return runtime.Problemf(runtime.ProblemConflict,
					"Entry %s: a parent of it is a %s in the workspace. Nothing was unpacked.", quoted(e.path), have)
			}
		}
	}
	return nil
}
