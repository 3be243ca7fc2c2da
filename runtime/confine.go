package runtime

import (
	"context"
	"path"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/sandbox"
)

// confine holds the paths of a call against the run's scope a second time, now
// as the box resolves them: authorize judges names, and a symlink in the
// workspace (one that a repository brought, say) is another name of what lies
// elsewhere. A command of the same run could exchange links after this look;
// but a run that may run commands reaches its whole workspace by them anyway.
func (k *Kernel) confine(f *flight, c *checked, g *Grant) error {
	run := f.run.view()
	limited := run.profiles.LimitPaths()
	ctx, cancel := context.WithTimeout(f.ctx, confineTimeout)
	defer cancel()
	real := &checked{tool: c.tool}
	for _, use := range c.paths {
		if !use.Write && !limited {
			continue
		}
		at, moved := resolve(ctx, g.box.Files(), use.Path)
		if !moved {
			continue
		}
		real.paths = append(real.paths, PathUse{Path: at, Write: use.Write, Pointer: use.Pointer})
		g.scope.aliases = append(g.scope.aliases, alias{use.Path, at})
	}
	for _, rule := range pathRules() {
		if fault := rule.judge(run, real); fault != nil {
			return f.decline(rule.name, fault)
		}
	}
	return nil
}

// confineTimeout bounds the look; what it did not resolve the box itself holds
// inside the workspace.
const confineTimeout = 10 * time.Second

// pathRules are the rules of authorize that judge paths.
func pathRules() []authorizationRule {
	return []authorizationRule{
		{"paths.protected", judgeProtectedPaths},
		{"paths.scope", judgePathScope},
	}
}

// maxLinks is how many symlinks one path may lead through, as in Linux.
const maxLinks = 40

// resolve follows the symlinks of a cleaned path inside the workspace, and
// tells whether there were any. What cannot be resolved (it does not exist, or
// leads out) stays as it is: the tool meets the same and says so.
func resolve(ctx context.Context, files sandbox.Files, given string) (at string, moved bool) {
	rest := strings.Split(given, "/")
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch {
		case name == "" || name == ".":
			continue
		case name == ".." && at == "":
			return given, false // it leads out, and the box refuses that
		case name == "..":
			if at = path.Dir(at); at == "." {
				at = ""
			}
			continue
		}
		next := path.Join(at, name)
		info, err := files.Stat(ctx, next)
		switch {
		case err != nil:
			return path.Join(append([]string{next}, rest...)...), moved
		case info.Type != sandbox.TypeSymlink:
			at = next
			continue
		case links == maxLinks || strings.HasPrefix(info.Target, "/"):
			return given, false
		}
		links++
		moved = true
		rest = append(strings.Split(info.Target, "/"), rest...)
	}
	return at, moved
}
