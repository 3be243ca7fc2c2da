package fs

import (
	"bytes"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"

	"github.com/sandboxd/sandboxd/runtime"
)

// pattern is what a search looks for within a line, for both engines. The two
// regular expression dialects are near but not the same (what \d, \b and . are,
// how bytes that are not UTF-8 match), so the query is parsed once, as RE2, and
// both engines get the parsed form: a match is a match whoever looks for it.
type pattern struct {
	re *regexp.Regexp
	// literal is the whole pattern where that is a plain text, else nil.
	literal []byte
	// rust is the pattern for ripgrep, "" where rg does not read it the same: ^
	// that is not at the beginning, $ that is not at the end (with CRLF it takes
	// the CR along, so that what follows sees another place), \B (there is one
	// between CR and LF).
	rust string
}

// compilePattern compiles a query. It is linear in the text by construction.
func compilePattern(query string, isRegex, caseSensitive bool) (*pattern, *runtime.Fault) {
	source := query
	if !isRegex {
		source = regexp.QuoteMeta(query)
	}
	flags := syntax.Perl &^ syntax.OneLine
	if !caseSensitive {
		flags |= syntax.FoldCase
	}
	tree, err := syntax.Parse(source, flags)
	if err != nil {
		return nil, patternFault(query, err.Error())
	}
	if err := withinLine(tree); err != nil {
		return nil, patternFault(query, err.Error())
	}
	re, err := regexp.Compile(tree.String())
	if err != nil {
		return nil, patternFault(query, err.Error())
	}
	p := &pattern{re: re}
	if usual(tree, true, true) {
		p.rust = rustSyntax(tree)
	}
	if tree.Op == syntax.OpLiteral && tree.Flags&syntax.FoldCase == 0 {
		p.literal = []byte(string(tree.Rune))
	}
	return p, nil
}

func patternFault(query, why string) *runtime.Fault {
	return runtime.Faultf(runtime.CodePatternInvalid, "The query %s cannot be searched for: %s. Mend it, or leave regex out to find it as plain text.", strconv.Quote(query), strings.TrimPrefix(why, "error parsing regexp: "))
}

// find returns where the pattern first matches in a line, or -1.
func (p *pattern) find(line []byte) int {
	if p.literal != nil {
		return bytes.Index(line, p.literal)
	}
	if at := p.re.FindIndex(line); at != nil {
		return at[0]
	}
	return -1
}

// withinLine makes a pattern one over a single line without its ending: no
// class or dot matches CR, LF, or bytes that are not UTF-8 (which Go reads as
// U+FFFD), and the text's ends are the line's.
func withinLine(re *syntax.Regexp) error {
	switch re.Op {
	case syntax.OpLiteral:
		if strings.ContainsAny(string(re.Rune), "\r\n") {
			return fmt.Errorf("a match lies within one line, so the pattern holds no line ending")
		}
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		re.Op, re.Rune = syntax.OpCharClass, []rune{0, 0x10ffff}
		re.Rune = without(re.Rune)
	case syntax.OpCharClass:
		re.Rune = without(re.Rune)
	case syntax.OpBeginText:
		re.Op = syntax.OpBeginLine
	case syntax.OpEndText:
		re.Op, re.Flags = syntax.OpEndLine, re.Flags&^syntax.WasDollar
	}
	for _, sub := range re.Sub {
		if err := withinLine(sub); err != nil {
			return err
		}
	}
	return nil
}

// usual tells whether every ^ is the first thing to be matched, every $ the
// last, and there is no \B.
func usual(re *syntax.Regexp, first, last bool) bool {
	switch re.Op {
	case syntax.OpNoWordBoundary:
		return false
	case syntax.OpBeginLine:
		return first
	case syntax.OpEndLine:
		return last
	case syntax.OpConcat:
		for i, sub := range re.Sub {
			if !usual(sub, first && i == 0, last && i == len(re.Sub)-1) {
				return false
			}
		}
		return true
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest, syntax.OpRepeat:
		first, last = false, false
	}
	for _, sub := range re.Sub {
		if !usual(sub, first, last) {
			return false
		}
	}
	return true
}

// without takes CR, LF and U+FFFD out of a class of ranges.
func without(ranges []rune) []rune {
	for _, r := range []rune{'\n', '\r', 0xfffd} {
		var out []rune
		for i := 0; i+1 < len(ranges); i += 2 {
			lo, hi := ranges[i], ranges[i+1]
			if r < lo || r > hi {
				out = append(out, lo, hi)
				continue
			}
			if lo < r {
				out = append(out, lo, r-1)
			}
			if r < hi {
				out = append(out, r+1, hi)
			}
		}
		ranges = out
	}
	return ranges
}

// rustSyntax writes a parsed pattern for the regex crate.
func rustSyntax(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpNoMatch:
		return `[a&&b]`
	case syntax.OpEmptyMatch:
		return `(?:)`
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase != 0 {
			return `(?i:` + rustLiteral(re.Rune) + `)`
		}
		return rustLiteral(re.Rune)
	case syntax.OpCharClass:
		return rustClass(re.Rune)
	case syntax.OpBeginLine:
		return `(?m:^)`
	case syntax.OpEndLine:
		return `(?m:$)`
	case syntax.OpWordBoundary:
		return `(?-u:\b)`
	case syntax.OpCapture:
		return group(re.Sub[0])
	case syntax.OpConcat, syntax.OpAlternate:
		parts := make([]string, len(re.Sub))
		for i, sub := range re.Sub {
			parts[i] = group(sub)
		}
		if re.Op == syntax.OpAlternate {
			return strings.Join(parts, "|")
		}
		return strings.Join(parts, "")
	}
	return group(re.Sub[0]) + rustRepeat(re)
}

// group keeps a part together; a literal of several characters alone must not
// be split by what follows it.
func group(re *syntax.Regexp) string { return `(?:` + rustSyntax(re) + `)` }

func rustRepeat(re *syntax.Regexp) string {
	var s string
	switch re.Op {
	case syntax.OpStar:
		s = "*"
	case syntax.OpPlus:
		s = "+"
	case syntax.OpQuest:
		s = "?"
	case syntax.OpRepeat:
		s = fmt.Sprintf("{%d,%d}", re.Min, re.Max)
		if re.Max < 0 {
			s = fmt.Sprintf("{%d,}", re.Min)
		}
	}
	if re.Flags&syntax.NonGreedy != 0 {
		s += "?"
	}
	return s
}

func rustLiteral(runes []rune) string {
	var b strings.Builder
	for _, r := range runes {
		if r < 0x80 && !isWord(r) {
			fmt.Fprintf(&b, `\x{%X}`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func isWord(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r == '_'
}

// rustClass writes ranges; what is between U+D7FF and U+E000 is no character.
func rustClass(ranges []rune) string {
	const lastBelow, firstAbove = 0xd7ff, 0xe000
	var b strings.Builder
	for i := 0; i+1 < len(ranges); i += 2 {
		lo, hi := ranges[i], ranges[i+1]
		if lo > lastBelow && lo < firstAbove {
			lo = firstAbove
		}
		if hi > lastBelow && hi < firstAbove {
			hi = lastBelow
		}
		if lo <= hi {
			fmt.Fprintf(&b, `\x{%X}-\x{%X}`, lo, hi)
		}
	}
	if b.Len() == 0 {
		return `[a&&b]`
	}
	return "[" + b.String() + "]"
}
