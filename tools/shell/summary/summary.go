// Package summary finds the errors in the output of common compilers and test
// runners: file, line, message.
//
// Each toolchain has a parser that reads output line by line and yields
// findings. The parser that recognises the output decides; output that none
// recognises has no summary, since a wrong one is worse than none. The parsers
// read text that a command wrote, so they trust nothing of it and bound what
// they keep.
package summary

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// A Finding is one reported error. Line and Column count from 1; 0 is unknown.
type Finding struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
}

// String renders the finding as compilers do.
func (f Finding) String() string {
	switch {
	case f.File == "":
		return f.Message
	case f.Line == 0:
		return fmt.Sprintf("%s: %s", f.File, f.Message)
	}
	return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Message)
}

// The bounds of a summary.
const (
	maxFindings = 20
	maxMessage  = 500 // bytes
	maxFile     = 1000
	maxLine     = 4096 // bytes of a line that are looked at
	maxNumber   = 100_000_000
)

// A parser reads one toolchain's output. It returns nil where it does not
// recognise it.
type parser func(lines []string) []Finding

// parsers are tried in this order; those whose marks are the most particular
// come first.
func parsers() []parser {
	return []parser{parseCargo, parsePytest, parseUnittest, parseJest, parseGoTest, parseTSC, parseJavac, parseCompiler}
}

// Of returns the errors in a command's output, in its order, at most 20. Files
// below root, the absolute path that the command worked in, are named relative
// to it.
func Of(root, stdout, stderr string) []Finding {
	out, errs := split(stdout), split(stderr)
	for _, parse := range parsers() {
		for _, lines := range [][]string{errs, out} {
			if found := bound(root, parse(lines)); len(found) > 0 {
				return found
			}
		}
	}
	return nil
}

func split(text string) []string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		line = strings.TrimRight(line, "\r")
		if len(line) > maxLine {
			line = line[:maxLine]
		}
		lines[i] = line
	}
	return lines
}

// bound drops repetitions and holds every finding to its limits.
func bound(root string, found []Finding) []Finding {
	var kept []Finding
	seen := map[Finding]bool{}
	for _, f := range found {
		f.File = strings.TrimPrefix(strings.TrimPrefix(f.File, strings.TrimSuffix(root, "/")+"/"), "./")
		f.File, f.Message = cut(f.File, maxFile), cut(strings.TrimSpace(f.Message), maxMessage)
		if f.Message == "" || seen[f] {
			continue
		}
		seen[f] = true
		if kept = append(kept, f); len(kept) == maxFindings {
			break
		}
	}
	return kept
}

func cut(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
