package schema

import "strings"

// Nearest returns the candidate that name was probably meant to be, or "": one
// that differs in case and separators only, else the one with the fewest edits
// (at most one in three characters). The first of equals wins.
func Nearest(name string, candidates []string) string {
	const longest = 128
	if name == "" || len(name) > longest {
		return ""
	}
	best, bestEdits := "", len(name)/3+1
	for _, c := range candidates {
		if c == name || len(c) > longest {
			continue
		}
		if plainName(c) == plainName(name) {
			return c
		}
		if n := edits(strings.ToLower(name), strings.ToLower(c)); n < bestEdits {
			best, bestEdits = c, n
		}
	}
	return best
}

func plainName(s string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", ".", "", " ", "").Replace(s))
}

// edits is how many insertions, deletions, replacements and swaps of
// neighbours lead from a to b.
func edits(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
