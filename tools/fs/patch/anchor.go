package patch

import (
	"fmt"
	"strings"
)

// A rung is a way to compare a line of the file with one of a hunk that has no
// line numbers. The first rung on which a hunk fits decides; on any but the
// exact one it must fit in one place only.
type rung struct {
	name string
	fold func(string) string
}

func rungs() []rung {
	ascii := punctuation()
	return []rung{
		{"exactly", func(s string) string { return s }},
		{"but for space at the ends of lines", func(s string) string { return strings.TrimRight(s, " \t\r") }},
		{"but for space around lines", strings.TrimSpace},
		{"but for space around lines and typographic punctuation", func(s string) string { return ascii.Replace(strings.TrimSpace(s)) }},
	}
}

// punctuation folds what models and editors put for plain ASCII.
func punctuation() *strings.Replacer {
	return strings.NewReplacer(
		"\u2010", "-", "\u2011", "-", "\u2012", "-", "\u2013", "-", "\u2014", "-", "\u2015", "-", "\u2212", "-",
		"\u2018", "'", "\u2019", "'", "\u201a", "'", "\u201b", "'", "\u201c", `"`, "\u201d", `"`, "\u201e", `"`, "\u201f", `"`,
		"\u00a0", " ", "\u2002", " ", "\u2003", " ", "\u2007", " ", "\u2008", " ", "\u2009", " ", "\u200a", " ", "\u202f", " ", "\u205f", " ", "\u3000", " ",
	)
}

// locateAnchored places a hunk without line numbers: after its anchors, which
// are looked for after the hunk before it. Without anchors there must be one
// place only.
func (b *body) locateAnchored(f File, number int, h Hunk, from int) (place, *MismatchError) {
	old := h.old()
	after, anchored := b.findAnchors(h.Anchors, from)
	if len(old) == 0 {
		return b.insertAnchored(f, number, h, after, anchored)
	}
	if !anchored {
		after = 0 // a label that is no line of the file: the place must be the only one
	}
	for i, r := range rungs() {
		exact := i == 0
		if b.searched += len(b.lines); b.searched > maxSearched {
			break
		}
		found := b.findFolded(h, old, after, r.fold)
		switch {
		case len(found) == 0:
			continue
		case len(found) == 1 || exact && anchored && len(h.Anchors) > 0:
			p := place{at: found[0], n: len(old)}
			if !exact {
				p.note = fmt.Sprintf("hunk %d fits %s", number, r.name)
			}
			return p, nil
		}
		e := mismatch(f, number, h, ReasonAmbiguous)
		e.Candidates = lineNumbers(found)
		e.Message = fmt.Sprintf("hunk %d fits %q at several lines (%s). Add context lines that tell them apart, or line numbers.", number, f.Path(), listNumbers(e.Candidates))
		return place{}, e
	}
	return place{}, b.noMatch(f, number, h, old)
}

// insertAnchored places a hunk that only adds: after its anchor, or at the end.
func (b *body) insertAnchored(f File, number int, h Hunk, after int, anchored bool) (place, *MismatchError) {
	switch {
	case h.AtEnd || len(b.lines) == 0:
		return place{at: len(b.lines)}, nil
	case anchored && len(h.Anchors) > 0:
		return place{at: after}, nil
	}
	e := mismatch(f, number, h, ReasonNoMatch)
	e.Message = fmt.Sprintf("hunk %d for %q only adds lines, and nothing in it tells where. Add context lines or line numbers.", number, f.Path())
	return place{}, e
}

// findFolded returns the places at or after an index where the old lines are,
// compared on a rung. The exact one also knows of bytes that are not UTF-8.
func (b *body) findFolded(h Hunk, old []Line, after int, fold func(string) string) []int {
	want := make([]string, len(old))
	for i, l := range old {
		want[i] = fold(l.Text)
	}
	var found []int
	for at := after; at+len(old) <= len(b.lines); at++ {
		fits := true
		for i := 0; i < len(old) && fits; i++ {
			fits = b.matchesLine(old[i], at+i, false) || !old[i].NoEnd && fold(string(b.lines[at+i].Raw)) == want[i]
		}
		if fits && (!h.AtEnd || at+len(old) == len(b.lines)) {
			found = append(found, at)
		}
	}
	return found
}

// findAnchors walks from anchor to anchor and returns the index after the
// last.
func (b *body) findAnchors(anchors []string, from int) (after int, ok bool) {
	after = from
	for _, a := range anchors {
		at := b.findAnchor(a, after)
		if at < 0 {
			return from, false
		}
		after = at + 1
	}
	return after, true
}

// findAnchor finds the first line that is the anchor, else begins with it, but
// for space.
func (b *body) findAnchor(anchor string, from int) int {
	for _, same := range []func(have string) bool{
		func(have string) bool { return have == anchor },
		func(have string) bool { return strings.HasPrefix(have, anchor) },
	} {
		for at := from; at < len(b.lines); at++ {
			if same(strings.TrimSpace(string(b.lines[at].Raw))) {
				return at
			}
		}
	}
	return -1
}
