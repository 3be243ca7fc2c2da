package redact

import "slices"

// A region is to be replaced. It is announced once its mark was written.
type region struct {
	start, end int
	kind       int
	announced  bool
}

// add inserts a region and merges it with those that it overlaps or touches;
// the one that begins first names the kind.
func (s *stream) add(n region) {
	i := len(s.regions)
	for i > 0 && s.regions[i-1].start > n.start {
		i--
	}
	if i > 0 && s.regions[i-1].end >= n.start {
		i--
		n = merge(s.regions[i], n)
	}
	j := i
	if i < len(s.regions) && s.regions[i].start <= n.start && s.regions[i].end >= n.start {
		j = i + 1
	}
	for j < len(s.regions) && s.regions[j].start <= n.end {
		n = merge(n, s.regions[j])
		j++
	}
	s.regions = slices.Replace(s.regions, i, j, n)
}

// merge joins two regions of which a does not begin after b. Where both begin
// at the same byte the kind that was configured first names them, so that the
// order in which they were found does not matter.
func merge(a, b region) region {
	if a.start == b.start && !a.announced && (b.announced || b.kind < a.kind) {
		a.kind = b.kind
	}
	a.end = max(a.end, b.end)
	a.announced = a.announced || b.announced
	return a
}
