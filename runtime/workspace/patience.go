package workspace

import (
	"slices"
	"sort"

	"github.com/aymanbagabas/go-udiff/lcs"
)

// maxDepth bounds how often a stretch between anchors is anchored anew.
const maxDepth = 8

// diffLines compares two texts line by line. The library looks for about a
// hundred edits and then takes the rest as replaced, which bounds its time but
// makes one block of a file with many small edits. So lines that are there
// exactly once on both sides, in the same order, are taken as anchors first
// (the patience diff of Bram Cohen), and the library sees what is between them.
func diffLines(a, b []string) []lcs.Diff {
	p := &patience{a: a, b: b}
	p.stretch(0, len(a), 0, len(b), 0)
	return p.diffs
}

type patience struct {
	a, b  []string
	diffs []lcs.Diff
}

// stretch compares a[i:j] with b[k:l] and appends what differs.
func (p *patience) stretch(i, j, k, l, depth int) {
	for i < j && k < l && p.a[i] == p.b[k] {
		i, k = i+1, k+1
	}
	for i < j && k < l && p.a[j-1] == p.b[l-1] {
		j, l = j-1, l-1
	}
	if i == j && k == l {
		return
	}
	if i < j && k < l && depth < maxDepth {
		if anchors := p.anchors(i, j, k, l); len(anchors) > 0 {
			for _, at := range anchors {
				p.stretch(i, at.a, k, at.b, depth+1)
				i, k = at.a+1, at.b+1
			}
			p.stretch(i, j, k, l, depth+1)
			return
		}
	}
	for _, d := range lcs.DiffLines(p.a[i:j], p.b[k:l]) {
		p.add(lcs.Diff{Start: i + d.Start, End: i + d.End, ReplStart: k + d.ReplStart, ReplEnd: k + d.ReplEnd})
	}
}

// add appends a difference; one that touches the last becomes a part of it.
func (p *patience) add(d lcs.Diff) {
	if n := len(p.diffs); n > 0 && p.diffs[n-1].End == d.Start && p.diffs[n-1].ReplEnd == d.ReplStart {
		p.diffs[n-1].End, p.diffs[n-1].ReplEnd = d.End, d.ReplEnd
		return
	}
	p.diffs = append(p.diffs, d)
}

// anchor is a line at a in one text and at b in the other.
type anchor struct{ a, b int }

// anchors finds the longest row of lines that are unique on both sides and
// come in the same order.
func (p *patience) anchors(i, j, k, l int) []anchor {
	type seen struct{ inA, inB, atA, atB int }
	lines := make(map[string]seen, j-i)
	for n := i; n < j; n++ {
		s := lines[p.a[n]]
		s.inA, s.atA = s.inA+1, n
		lines[p.a[n]] = s
	}
	for n := k; n < l; n++ {
		if s, ok := lines[p.b[n]]; ok {
			s.inB, s.atB = s.inB+1, n
			lines[p.b[n]] = s
		}
	}
	var both []anchor
	for n := i; n < j; n++ {
		if s := lines[p.a[n]]; s.inA == 1 && s.inB == 1 {
			both = append(both, anchor{a: s.atA, b: s.atB})
		}
	}
	return rising(both)
}

// rising returns the longest part of the anchors, ordered by a, in which b
// rises too (patience sorting).
func rising(all []anchor) []anchor {
	var piles []int // the index of each pile's top
	before := make([]int, len(all))
	for n, at := range all {
		pile := sort.Search(len(piles), func(p int) bool { return all[piles[p]].b >= at.b })
		before[n] = -1
		if pile > 0 {
			before[n] = piles[pile-1]
		}
		if pile == len(piles) {
			piles = append(piles, n)
		} else {
			piles[pile] = n
		}
	}
	var out []anchor
	if len(piles) > 0 {
		for n := piles[len(piles)-1]; n >= 0; n = before[n] {
			out = append(out, all[n])
		}
	}
	slices.Reverse(out)
	return out
}
