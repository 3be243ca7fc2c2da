package patch

import (
	"strings"

	"github.com/sandboxd/sandboxd/tools/fs/text"
)

// FindNearest finds the place of a file that is most like some lines of text
// and describes what differs; nil where none of the lines is there.
func FindNearest(src []byte, wanted string) *Nearest {
	b := newBody(src)
	lines := make([]Line, 0, strings.Count(wanted, text.LF)+1)
	for _, l := range text.Split([]byte(wanted)) {
		lines = append(lines, Line{Kind: Context, Text: string(l.Raw)})
	}
	at, equal := b.nearest(lines, 0)
	if at < 0 {
		if at = b.nearestByWords(lines); at < 0 {
			return nil
		}
	}
	return b.describe(lines, at, equal)
}

// nearestByWords is the line that holds the first wanted line, or is held by
// it, but for white space.
func (b *body) nearestByWords(lines []Line) int {
	for _, l := range lines {
		want := strings.TrimSpace(l.Text)
		if want == "" {
			continue
		}
		for at := range b.lines {
			have := strings.TrimSpace(string(b.lines[at].Raw))
			if have != "" && (strings.Contains(have, want) || strings.Contains(want, have) && len(have) > len(want)/2) {
				return at
			}
		}
		return -1
	}
	return -1
}
