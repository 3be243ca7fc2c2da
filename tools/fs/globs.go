package fs

import (
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/sandboxd/sandboxd/runtime"
)

// glob is a compiled pattern over paths of the workspace. One dialect for all
// tools here: * and ? do not cross a slash, ** does and stands for none too,
// {a,b} and [a-z] as usual, a backslash makes the next character ordinary. A
// pattern without a slash matches a name at any depth; with one, it is the
// whole path. Case matters.
type glob struct {
	pattern string
	// hidden is true where the pattern itself names something hidden, files
	// where it ends in *.something, which means files and not what is below a
	// directory of such a name.
	hidden, files bool
}

func compileGlob(p string) (glob, *runtime.Fault) {
	clean := strings.TrimPrefix(p, "./")
	anchored := strings.HasPrefix(clean, "/") || len(clean) < len(p)
	clean = strings.TrimPrefix(clean, "/")
	if strings.HasSuffix(clean, "/") {
		clean += "**"
	}
	if clean == "" || strings.ContainsRune(clean, 0) || !doublestar.ValidatePattern(clean) {
		return glob{}, runtime.Faultf(runtime.CodePatternInvalid, "The glob %q does not compile. Check its brackets, braces and backslashes; **/*.go is one that does.", p)
	}
	if ways(clean) > maxWays {
		return glob{}, runtime.Faultf(runtime.CodePatternInvalid, "The glob %q has more than %d alternatives in braces together. Split it into several.", p, maxWays)
	}
	if !anchored && !strings.Contains(clean, "/") {
		clean = "**/" + clean
	}
	last := clean[strings.LastIndexByte(clean, '/')+1:]
	return glob{
		pattern: clean,
		hidden:  strings.HasPrefix(clean, ".") || strings.Contains(clean, "/."),
		files:   strings.HasPrefix(last, "*."),
	}, nil
}

// maxWays bounds the alternatives of a pattern: matching tries all combinations
// of them, which a hostile pattern makes as many as it likes.
const maxWays = 128

// ways is how many patterns without braces a pattern stands for, at most.
func ways(p string) int {
	n := 1
	var commas []int // of the groups that are open
	for i := 0; i < len(p) && n <= maxWays; i++ {
		switch p[i] {
		case '\\':
			i++
		case '{':
			commas = append(commas, 0)
		case ',':
			if len(commas) > 0 {
				commas[len(commas)-1]++
			}
		case '}':
			if len(commas) > 0 {
				n *= commas[len(commas)-1] + 1
				commas = commas[:len(commas)-1]
			}
		}
	}
	return n
}

func (g glob) match(path string) bool { return doublestar.MatchUnvalidated(g.pattern, path) }

// covers is match for a pattern that may name a directory and then means all
// that is below it.
func (g glob) covers(path string) bool {
	return g.match(path) || !g.files && g.above(path)
}

// above is true where the pattern names a directory that the path is below.
func (g glob) above(path string) bool { return doublestar.MatchUnvalidated(g.pattern+"/**", path) }

// globs choose paths: those that any of in covers, or all if there is none,
// less those that any of out names or is above of.
type globs struct{ in, out []glob }

func compileGlobs(patterns []string) (globs, *runtime.Fault) {
	var all globs
	for _, p := range patterns {
		rest, negative := strings.CutPrefix(p, "!")
		g, fault := compileGlob(rest)
		if fault != nil {
			return globs{}, fault
		}
		if negative {
			all.out = append(all.out, g)
		} else {
			all.in = append(all.in, g)
		}
	}
	return all, nil
}

// choose tells whether a path is chosen, and whether a pattern that names
// something hidden chose it.
func (gs globs) choose(path string) (chosen, hidden bool) {
	for _, g := range gs.out {
		if g.match(path) || g.above(path) {
			return false, false
		}
	}
	chosen = len(gs.in) == 0
	for _, g := range gs.in {
		if g.covers(path) {
			chosen, hidden = true, hidden || g.hidden
		}
	}
	return chosen, hidden
}

// namesHidden is true where any pattern may choose something hidden.
func (gs globs) namesHidden() bool {
	for _, g := range gs.in {
		if g.hidden {
			return true
		}
	}
	return false
}

// isHidden is true for a path with a name that begins with a dot.
func isHidden(path string) bool { return strings.HasPrefix(path, ".") || strings.Contains(path, "/.") }
