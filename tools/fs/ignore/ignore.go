// Package ignore reads .gitignore files and tells which paths they leave out,
// as gitignore(5) says: the last pattern that matches decides, a deeper file
// wins over a shallower one, and what lies below an ignored directory cannot
// be taken back in.
//
// Only .gitignore files of the tree itself are read: not .git/info/exclude,
// not a user's own, so that the same tree gives the same answer everywhere.
package ignore

import (
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// FileName is the name of the files that hold patterns.
const FileName = ".gitignore"

// The bounds of a pattern file: what is longer is cut, and so is the list of
// its patterns. A tree is hostile input, and every path is held against every
// pattern.
const (
	MaxBytes        = 1 << 20
	maxPatterns     = 5000
	maxPatternBytes = 1024
)

// Rules are the patterns of a tree. The zero value ignores nothing.
type Rules struct {
	dirs map[string][]pattern
}

type pattern struct {
	glob            string
	negate, dirOnly bool
}

// Add takes the pattern file of a directory; "" is the root of the tree.
func (r *Rules) Add(dir string, content []byte) {
	if len(content) > MaxBytes {
		content = content[:MaxBytes]
	}
	var patterns []pattern
	for line := range strings.SplitSeq(strings.TrimPrefix(string(content), "\ufeff"), "\n") {
		if len(patterns) == maxPatterns {
			break
		}
		if p, ok := parse(strings.TrimSuffix(line, "\r")); ok && len(line) <= maxPatternBytes {
			patterns = append(patterns, p)
		}
	}
	if r.dirs == nil {
		r.dirs = map[string][]pattern{}
	}
	r.dirs[dir] = patterns
}

// parse reads one line. ok is false for an empty line, a comment, and what
// cannot be a pattern.
func parse(line string) (p pattern, ok bool) {
	line = trimSpaces(line)
	if line == "" || line[0] == '#' {
		return p, false
	}
	if line[0] == '!' {
		p.negate, line = true, line[1:]
	}
	line, p.dirOnly = strings.CutSuffix(line, "/")
	line, anchored := strings.CutPrefix(line, "/")
	if line == "" {
		return p, false
	}
	// A brace is an ordinary character to git.
	line = strings.NewReplacer(`\{`, `\{`, `\}`, `\}`, `{`, `\{`, `}`, `\}`).Replace(line)
	switch {
	case !anchored && !strings.Contains(line, "/"):
		line = "**/" + line
	case line == "**":
	case strings.HasSuffix(line, "/**"):
		line += "/*" // all that is below, not the directory itself
	}
	p.glob = line
	return p, doublestar.ValidatePattern(line)
}

// trimSpaces takes trailing spaces off, but not one that is escaped.
func trimSpaces(line string) string {
	trimmed := strings.TrimRight(line, " ")
	if len(trimmed) < len(line) && oddBackslashes(trimmed) {
		return trimmed + " "
	}
	return trimmed
}

func oddBackslashes(s string) bool {
	n := len(s) - len(strings.TrimRight(s, `\`))
	return n%2 == 1
}

// Match tells what the patterns say of one path, its parents left out of
// account: a caller that walks down does not enter what is ignored.
func (r *Rules) Match(path string, isDir bool) bool {
	for dir := path; dir != ""; {
		dir = parent(dir)
		patterns := r.dirs[dir]
		if len(patterns) == 0 {
			continue
		}
		below := path
		if dir != "" {
			below = path[len(dir)+1:]
		}
		for i := len(patterns) - 1; i >= 0; i-- {
			p := patterns[i]
			if p.dirOnly && !isDir {
				continue
			}
			if doublestar.MatchUnvalidated(p.glob, below) {
				return !p.negate
			}
		}
	}
	return false
}

// Ignored tells whether a path or one of its parents is left out.
func (r *Rules) Ignored(path string, isDir bool) bool {
	if len(r.dirs) == 0 {
		return false
	}
	for at := 0; at < len(path); at++ {
		if path[at] == '/' && r.Match(path[:at], true) {
			return true
		}
	}
	return r.Match(path, isDir)
}

func parent(path string) string {
	if at := strings.LastIndexByte(path, '/'); at >= 0 {
		return path[:at]
	}
	return ""
}
