package patch

import "fmt"

// place is where a hunk goes: before the line of this index in the old file.
type place struct {
	at, n  int
	offset int // lines from where the header states
	note   string
}

// locate finds a hunk's place: where its header says if its old lines are
// there, else the only place where they are.
// from is the index after the hunk before it.
func (b *body) locate(f File, number int, h Hunk, from int) (place, *MismatchError) {
	if h.OldStart < 0 {
		return b.locateAnchored(f, number, h, from)
	}
	old := h.old()
	stated := h.OldStart - 1
	if len(old) == 0 {
		return b.locateInsertion(f, number, h)
	}
	if b.fits(h, old, stated) {
		return place{at: stated, n: len(old)}, nil
	}
	if b.searched += len(b.lines); b.searched > maxSearched {
		e := mismatch(f, number, h, ReasonNoMatch)
		e.Message = fmt.Sprintf("hunk %d is not at the line of %q that its header states, and too many hunks are misplaced to look for all of them. Make the patch from the file as it is.", number, f.Path())
		return place{}, e
	}
	var found []int
	for at := 0; at+len(old) <= len(b.lines); at++ {
		if b.fits(h, old, at) {
			found = append(found, at)
		}
	}
	switch len(found) {
	case 0:
		return place{}, b.noMatch(f, number, h, old)
	case 1:
		return place{at: found[0], n: len(old), offset: found[0] - stated}, nil
	}
	e := mismatch(f, number, h, ReasonAmbiguous)
	e.Candidates = lineNumbers(found)
	e.Message = fmt.Sprintf("hunk %d fits %q at several lines (%s), and not at the line that its header states. Add context lines that tell them apart, or state the right line.",
		number, f.Path(), listNumbers(e.Candidates))
	return place{}, e
}

func (b *body) fits(h Hunk, old []Line, at int) bool {
	return b.matches(old, at, false) && (!h.AtEnd || at+len(old) == len(b.lines))
}

// locateInsertion places a hunk without old lines: by its number alone.
func (b *body) locateInsertion(f File, number int, h Hunk) (place, *MismatchError) {
	at := h.OldStart - 1
	switch {
	case h.AtEnd:
		return place{at: len(b.lines)}, nil
	case at < 0 || at > len(b.lines):
		e := mismatch(f, number, h, ReasonNoMatch)
		e.Message = fmt.Sprintf("hunk %d inserts after line %d, but %q has %d lines. State a line that exists.", number, at, f.Path(), len(b.lines))
		return place{}, e
	}
	return place{at: at}, nil
}

func mismatch(f File, number int, h Hunk, reason Reason) *MismatchError {
	return &MismatchError{
		Path: f.Path(), Reason: reason, Hunk: number, PatchLine: h.Line, StatedLine: max(h.OldStart, 0),
	}
}

// noMatch explains a hunk that fits nowhere.
func (b *body) noMatch(f File, number int, h Hunk, old []Line) *MismatchError {
	e := mismatch(f, number, h, ReasonNoMatch)
	if at, ok := b.applied(h); ok {
		e.Reason = ReasonApplied
		e.Message = fmt.Sprintf("hunk %d does not fit %q, but its new lines are already there at line %d: the change seems to be made. Leave the hunk out.", number, f.Path(), at+1)
		return e
	}
	at, equal := b.nearest(old, h.OldStart-1)
	if at < 0 {
		e.Message = fmt.Sprintf("hunk %d does not fit %q: none of its old lines is in the file, which has %d lines. Read it again and make the patch from what it holds.", number, f.Path(), len(b.lines))
		return e
	}
	e.Nearest = b.describe(old, at, equal)
	n := e.Nearest
	for i := range old {
		if at+i >= len(b.lines) || !b.matchesLine(old[i], at+i, false) {
			e.PatchLine = old[i].Line
			break
		}
	}
	found := fmt.Sprintf("the file has %s", quoted(n.Found))
	switch {
	case n.DiffersAt > len(b.lines):
		found = "the file ends before it"
	case n.Found == n.Expected:
		found = "the file has the same text, but not where the patch says that a final newline is missing or the file ends"
	}
	e.Message = fmt.Sprintf("hunk %d does not fit %q. The nearest place is lines %d-%d (%d of %d old lines are there): at line %d the patch expects %s, %s. Read those lines again and send the hunk with the file's text.",
		number, f.Path(), n.StartLine, n.EndLine, n.Equal, n.Of, n.DiffersAt, quoted(n.Expected), found)
	return e
}

// applied finds the lines that the hunk would make, where they would be.
func (b *body) applied(h Hunk) (int, bool) {
	var made []Line
	added := false
	for _, l := range h.Lines {
		if l.Kind != Remove {
			made = append(made, l)
			added = added || l.Kind == Add
		}
	}
	if !added || h.OldStart < 0 {
		return 0, false
	}
	return h.OldStart - 1, b.matches(made, h.OldStart-1, false)
}

// maxSearched bounds the places that are tried for all misplaced hunks of a
// file.
const maxSearched = 100_000_000

// maxComparisons bounds the search for the nearest place.
const maxComparisons = 20_000_000

// nearest is the index at which most old lines are, the closest to stated
// among equals, or -1 where none is anywhere.
func (b *body) nearest(old []Line, stated int) (at, equal int) {
	from, to := 0, len(b.lines)
	if len(old)*len(b.lines) > maxComparisons {
		window := maxComparisons / len(old) / 2
		from, to = max(0, stated-window), max(0, min(len(b.lines), stated+window))
	}
	at = -1
	for s := from; s < to; s++ {
		n := 0
		for i := 0; i < len(old) && s+i < len(b.lines); i++ {
			if b.matchesLine(old[i], s+i, false) {
				n++
			}
		}
		if n > equal || n == equal && n > 0 && distance(s, stated) < distance(at, stated) {
			at, equal = s, n
		}
	}
	return at, equal
}

func distance(a, b int) int {
	if a > b {
		return a - b
	}
	return b - a
}

// describe shows the file's lines at the nearest place.
func (b *body) describe(old []Line, at, equal int) *Nearest {
	const most = 30
	end := min(at+len(old), len(b.lines))
	n := &Nearest{StartLine: at + 1, EndLine: end, Equal: equal, Of: len(old), Lines: []string{}}
	for i := at; i < min(end, at+most); i++ {
		n.Lines = append(n.Lines, b.show(i))
	}
	for i, l := range old {
		if at+i < len(b.lines) && b.matchesLine(l, at+i, false) {
			continue
		}
		n.DiffersAt, n.Expected = at+i+1, shorten(l.Text)
		if at+i < len(b.lines) {
			n.Found = b.show(at + i)
		}
		return n
	}
	n.DiffersAt = end // only the place in the file is wrong
	return n
}

func lineNumbers(indexes []int) []int {
	const most = 20
	out := make([]int, 0, min(len(indexes), most))
	for _, at := range indexes[:min(len(indexes), most)] {
		out = append(out, at+1)
	}
	return out
}

func listNumbers(numbers []int) string {
	s := ""
	for i, n := range numbers {
		if i > 0 {
			s += ", "
		}
		s += fmt.Sprint(n)
	}
	return s
}
