package fs

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/tools/fs/text"
)

// The bounds of what a search shows and looks at.
const (
	previewBytes  = 300
	previewBefore = 80
	maxSkipped    = 100
	// maxSearchLine is the longest line that is looked into.
	maxSearchLine = 4 << 20
)

// Match is one matching line.
type Match struct {
	name
	Line       int64    `json:"line"`
	Column     int      `json:"column"`
	Preview    string   `json:"preview"`
	PreviewCut bool     `json:"previewCut,omitempty"`
	Before     []string `json:"before,omitempty"`
	After      []string `json:"after,omitempty"`
	path       string
}

// Skipped is a path that was not, or not wholly, searched.
type Skipped struct {
	name
	Reason string `json:"reason"`
}

// The reasons to skip. Closed list.
const (
	skipPermission = "permission"
	skipUnreadable = "unreadable"
	skipBinary     = "binary"
	skipLongLine   = "line_too_long"
)

// A collector takes the lines that an engine finds, file by file in any order,
// and keeps the first matches by path and line. It is what makes the answer
// the same whichever engine looked.
type collector struct {
	max, context int
	wanted       func(path string) bool

	matches       []Match
	total, files  int
	skipped       []Skipped
	skippedBefore map[string]bool
	// limit is the last path among those kept once there are enough: what comes
	// after it is only counted.
	limit string

	// The current file: whether it is wanted and its matches can be among the
	// first, its last lines, how many matches it has and how many are held, how
	// many of these still lack lines after them, and where those begin.
	path        string
	take, keep  bool
	before      []row
	found, held int
	open        int
	firstOpen   int
}

type row struct {
	line int64
	text string
}

// begin starts a file; false means that nothing of it is wanted.
func (c *collector) begin(path string) bool {
	c.path, c.take = path, c.wanted(path)
	c.before, c.found, c.open, c.held = nil, 0, 0, 0
	c.keep = c.take && (c.limit == "" || path < c.limit)
	return c.take
}

// keeping tells whether the text of further lines is of use; if not, count
// will do.
func (c *collector) keeping() bool {
	return c.keep && (c.held < c.max || c.open > 0)
}

// count takes a matching line of which nothing is kept.
func (c *collector) count() {
	if c.take {
		c.found++
	}
}

// match takes a matching line, its ending taken off; at is where the match
// begins.
func (c *collector) match(line int64, raw []byte, at int) {
	if !c.take || c.unfit(raw) {
		return
	}
	c.found++
	if !c.keep {
		return
	}
	c.after(line, raw)
	if c.held < c.max {
		shown, cut := preview(raw, at)
		c.matches = append(c.matches, Match{
			name: nameOf(c.path), path: c.path, Line: line, Column: at + 1,
			Preview: shown, PreviewCut: cut, Before: c.lines(line),
		})
		c.held++
		if c.context > 0 {
			if c.open++; c.open == 1 {
				c.firstOpen = len(c.matches) - 1
			}
		}
	}
	c.remember(line, raw)
}

// other takes a line around a match.
func (c *collector) other(line int64, raw []byte) {
	if c.keep {
		c.after(line, raw)
		c.remember(line, raw)
	}
}

// unfit refuses a line that is no text; the file is named.
func (c *collector) unfit(raw []byte) bool {
	switch {
	case bytes.IndexByte(raw, 0) >= 0:
		c.skip(c.path, skipBinary)
	case len(raw) > maxSearchLine:
		c.skip(c.path, skipLongLine)
	default:
		return false
	}
	return true
}

// after appends a line to the matches before it that want it.
func (c *collector) after(line int64, raw []byte) {
	if c.open == 0 {
		return
	}
	shown, _ := preview(raw, 0)
	still := 0
	for i := c.firstOpen; i < len(c.matches); i++ {
		m := &c.matches[i]
		if line-m.Line <= int64(c.context) {
			m.After = append(m.After, shown)
		}
		if line-m.Line < int64(c.context) {
			if still++; still == 1 {
				c.firstOpen = i
			}
		}
	}
	c.open = still
}

// lines are those directly before a line.
func (c *collector) lines(line int64) []string {
	var out []string
	for _, r := range c.before {
		if line-r.line <= int64(c.context) {
			out = append(out, r.text)
		}
	}
	return out
}

func (c *collector) remember(line int64, raw []byte) {
	if c.context == 0 {
		return
	}
	shown, _ := preview(raw, 0)
	c.before = append(c.before, row{line, shown})
	if len(c.before) > c.context {
		c.before = slices.Delete(c.before, 0, len(c.before)-c.context)
	}
}

// end closes the current file.
func (c *collector) end() {
	if c.found > 0 {
		c.files++
		c.total += c.found
	}
	c.take, c.open, c.found = false, 0, 0
	if len(c.matches) >= 2*c.max {
		c.settle()
	}
}

// settle sorts, and drops what is not among the first.
func (c *collector) settle() {
	slices.SortFunc(c.matches, func(a, b Match) int {
		if d := strings.Compare(a.path, b.path); d != 0 {
			return d
		}
		return int(a.Line - b.Line)
	})
	if len(c.matches) >= c.max {
		c.matches = c.matches[:c.max]
		c.limit = c.matches[c.max-1].path
	}
}

func (c *collector) skip(path, reason string) {
	key := path + "\x00" + reason
	if c.skippedBefore[key] || len(c.skipped) >= maxSkipped {
		return
	}
	if c.skippedBefore == nil {
		c.skippedBefore = map[string]bool{}
	}
	c.skippedBefore[key] = true
	c.skipped = append(c.skipped, Skipped{nameOf(path), reason})
}

// preview shows a line, or in a long one what is around the match.
func preview(raw []byte, at int) (shown string, cut bool) {
	from, to := 0, len(raw)
	if len(raw) > previewBytes {
		from = max(0, min(at-previewBefore, len(raw)-previewBytes))
		to = from + previewBytes
		for from > 0 && from < at && !utf8.RuneStart(raw[from]) {
			from++
		}
		for to < len(raw) && to > from && !utf8.RuneStart(raw[to]) {
			to--
		}
	}
	shown = string(text.View(raw[from:to]))
	if from > 0 {
		shown = "…" + shown
	}
	if to < len(raw) {
		shown += "…"
	}
	return shown, from > 0 || to < len(raw)
}
