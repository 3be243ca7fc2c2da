package patch_test

import (
	"fmt"
	"strings"

	"github.com/sandboxd/sandboxd/tools/fs/text"
)

// unified makes a unified diff of two files as git would, with the given
// number of context lines. Lines are compared with their endings.
func unified(a, b string, context int) string {
	edits := script(splitKeep(a), splitKeep(b))
	var out strings.Builder
	out.WriteString("--- a/f\n+++ b/f\n")
	for at := 0; at < len(edits); {
		if edits[at].kind == ' ' {
			at++
			continue
		}
		from := max(0, at-context)
		to := at
		for last := at; to < len(edits) && to-last <= 2*context; to++ {
			if edits[to].kind != ' ' {
				last = to
			}
			if to == len(edits)-1 {
				to++
				break
			}
		}
		for to > at && edits[to-1].kind == ' ' && trailing(edits[:to]) > context {
			to--
		}
		writeHunk(&out, edits, from, to)
		at = to
	}
	return out.String()
}

type edit struct {
	kind byte
	line string
}

func trailing(edits []edit) int {
	n := 0
	for n < len(edits) && edits[len(edits)-1-n].kind == ' ' {
		n++
	}
	return n
}

func writeHunk(out *strings.Builder, edits []edit, from, to int) {
	oldAt, newAt, oldN, newN := 0, 0, 0, 0
	for i, e := range edits[:to] {
		oldHas, newHas := e.kind != '+', e.kind != '-'
		if i < from {
			oldAt, newAt = oldAt+one1(oldHas), newAt+one1(newHas)
		} else {
			oldN, newN = oldN+one1(oldHas), newN+one1(newHas)
		}
	}
	oldAt, newAt = oldAt+one1(oldN > 0), newAt+one1(newN > 0)
	fmt.Fprintf(out, "@@ -%d,%d +%d,%d @@\n", oldAt, oldN, newAt, newN)
	for _, e := range edits[from:to] {
		out.WriteByte(e.kind)
		line, ended := strings.CutSuffix(e.line, "\n")
		out.Write(text.View([]byte(line)))
		out.WriteByte('\n')
		if !ended {
			out.WriteString("\\ No newline at end of file\n")
		}
	}
}

func one1(b bool) int {
	if b {
		return 1
	}
	return 0
}

func splitKeep(s string) []string {
	lines := strings.SplitAfter(s, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// script is the shortest edit script by the longest common subsequence.
func script(a, b []string) []edit {
	lcs := make([][]int, len(a)+1)
	for i := range lcs {
		lcs[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				lcs[i][j] = lcs[i+1][j+1] + 1
			} else {
				lcs[i][j] = max(lcs[i+1][j], lcs[i][j+1])
			}
		}
	}
	var edits []edit
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			edits = append(edits, edit{' ', a[i]})
			i, j = i+1, j+1
		case i < len(a) && (j == len(b) || lcs[i+1][j] >= lcs[i][j+1]):
			edits = append(edits, edit{'-', a[i]})
			i++
		default:
			edits = append(edits, edit{'+', b[j]})
			j++
		}
	}
	return edits
}
