package fs

import (
	"context"
	"io"
	"path"
	"strings"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tools/fs/ignore"
)

// maxTreeEntries bounds the entries of a tree that are held at once.
const maxTreeEntries = 500_000

// gitDir is never entered by search and glob.
const gitDir = ".git"

// tree is the workspace as a list, in path order, with what git ignores.
type tree struct {
	entries   []sandbox.Entry
	truncated bool
	// ignored tells of an entry of this index that it, or a directory above
	// it, is left out by a .gitignore.
	ignored []bool
}

// loadTree lists everything the run may read, but what is below .git. The
// directories in entered are not themselves ignored.
func loadTree(ctx context.Context, g *runtime.Grant, entered map[string]bool) (*tree, error) {
	t := &tree{}
	var ignoreFiles []string
	err := g.Box().Files().Walk(ctx, sandbox.WalkRequest{Prune: []string{gitDir}}, func(e sandbox.Entry, _ io.Reader) error {
		name := path.Base(e.Path)
		if name == ignore.FileName && e.Info.Type == sandbox.TypeFile {
			ignoreFiles = append(ignoreFiles, e.Path)
		}
		if name == gitDir || !g.Readable(e.Path) {
			return nil
		}
		if len(t.entries) >= maxTreeEntries {
			t.truncated = true
			return nil
		}
		t.entries = append(t.entries, e)
		return nil
	})
	if err != nil {
		return nil, err
	}
	rules, err := loadRules(ctx, g, ignoreFiles)
	if err != nil {
		return nil, err
	}
	return t, t.judge(ctx, rules, entered)
}

// loadRules reads the .gitignore files. What they leave out is not secret, so
// a run's scope does not matter here; one that cannot be read says nothing.
func loadRules(ctx context.Context, g *runtime.Grant, files []string) (*ignore.Rules, error) {
	rules := &ignore.Rules{}
	for _, f := range files {
		r, err := g.Box().Files().Read(ctx, sandbox.ReadRequest{Path: f, Limit: ignore.MaxBytes, NoHash: true})
		switch sandbox.KindOf(err) {
		case "":
			rules.Add(strings.TrimSuffix(strings.TrimSuffix(f, ignore.FileName), "/"), r.Data)
		case sandbox.KindPermission, sandbox.KindNotFound, sandbox.KindNotRegular:
		default:
			return nil, err
		}
	}
	return rules, nil
}

// judge marks what is ignored. Entries come parents first.
func (t *tree) judge(ctx context.Context, rules *ignore.Rules, entered map[string]bool) error {
	t.ignored = make([]bool, len(t.entries))
	dirs := map[string]bool{}
	for i, e := range t.entries {
		if i%256 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		isDir := e.Info.Type == sandbox.TypeDir
		t.ignored[i] = dirs[path.Dir(e.Path)] || !entered[e.Path] && rules.Match(e.Path, isDir)
		if isDir && t.ignored[i] {
			dirs[e.Path] = true
		}
	}
	return nil
}
