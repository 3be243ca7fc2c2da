// Package policy holds the rules that a run is given, as pure values: which
// tools it may call and which paths of its workspace it may touch.
//
// A rule set is two lists of globs. Deny wins over allow; a missing allow list
// allows everything, an empty one nothing. Profiles are intersected: a
// narrower one can be laid over another, and what any of them refuses is
// refused. A [Verdict] names the rule that decided, so that a refusal can be
// explained and audited.
package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Verdict is the answer of a rule set.
type Verdict struct {
	Allowed bool
	// Rule names what decided: "deny:GLOB", "allow:GLOB", "allow:none" (the
	// allow list holds no match) or "default".
	Rule string
}

// Globs are an allow and a deny list, compiled.
type Globs struct {
	allow, deny []string
	limited     bool // an allow list was given, be it empty
}

// The bounds of a glob: alternatives multiply, and matching tries them all.
const (
	maxGlob         = 1024
	maxBraces       = 4
	maxAlternatives = 16
)

// Compile checks the patterns. separator is what a "*" does not cross: "/" for
// paths, "." for tool names ("file.*").
func Compile(allow, deny []string, separator string) (Globs, error) {
	g := Globs{limited: allow != nil}
	for _, in := range []struct {
		from []string
		to   *[]string
	}{{allow, &g.allow}, {deny, &g.deny}} {
		for _, pattern := range in.from {
			p := toSlash(pattern, separator)
			if len(p) > maxGlob || strings.Count(p, "{") > maxBraces || strings.Count(p, ",") > maxAlternatives {
				return Globs{}, fmt.Errorf("glob %q is too long or has too many alternatives", pattern)
			}
			if p == "" || !doublestar.ValidatePattern(p) {
				return Globs{}, fmt.Errorf("glob %q does not compile", pattern)
			}
			*in.to = append(*in.to, p)
		}
	}
	return g, nil
}

// Judge answers for one name. A pattern that names a directory covers what is
// below it.
func (g Globs) Judge(name, separator string) Verdict {
	n := toSlash(name, separator)
	if p, ok := first(g.deny, n); ok {
		return Verdict{false, "deny:" + p}
	}
	if !g.limited {
		return Verdict{true, "default"}
	}
	if p, ok := first(g.allow, n); ok {
		return Verdict{true, "allow:" + p}
	}
	return Verdict{false, "allow:none"}
}

func first(patterns []string, name string) (string, bool) {
	for _, p := range patterns {
		if p == "*" || p == "**" || doublestar.MatchUnvalidated(p, name) ||
			doublestar.MatchUnvalidated(p+"/**", name) {
			return p, true
		}
	}
	return "", false
}

func toSlash(s, separator string) string {
	if separator == "/" {
		return strings.TrimPrefix(s, "./")
	}
	return strings.ReplaceAll(s, separator, "/")
}

// A Profile is what one layer (key, run, a later narrowing) allows.
type Profile struct {
	Read, Write, Execute, Network bool
	Tools, Paths                  Globs
}

// Profiles are layers that must all agree.
type Profiles []Profile

// Tool judges a tool's name.
func (ps Profiles) Tool(name string) Verdict {
	return ps.judge(func(p Profile) Verdict { return p.Tools.Judge(name, ".") })
}

// Path judges a path relative to the workspace; "" is the workspace itself,
// which a run may always look at, since what it lists is judged entry by entry.
func (ps Profiles) Path(path string, write bool) Verdict {
	if path == "" && !write {
		return Verdict{true, "workspace"}
	}
	return ps.judge(func(p Profile) Verdict { return p.Paths.Judge(path, "/") })
}

// LimitPaths tells whether any layer refuses any path.
func (ps Profiles) LimitPaths() bool {
	return slices.ContainsFunc(ps, func(p Profile) bool { return p.Paths.limited || len(p.Paths.deny) > 0 })
}

// Grants tells whether every layer grants what is picked.
func (ps Profiles) Grants(pick func(Profile) bool) bool {
	for _, p := range ps {
		if !pick(p) {
			return false
		}
	}
	return len(ps) > 0
}

func (ps Profiles) judge(one func(Profile) Verdict) Verdict {
	v := Verdict{false, "no profile"}
	for _, p := range ps {
		if v = one(p); !v.Allowed {
			return v
		}
	}
	return v
}
