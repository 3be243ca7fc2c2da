package shell

import (
	"errors"
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// maxAnalysed bounds what is parsed here, and with it the parser's recursion
// on hostile nesting. A longer script runs unread: bash is its judge.
const maxAnalysed = 16 << 10

// cutShort says what a script lacks at its end, where that is certain: an open
// quote, a missing "fi". Anything else, the shell judges better: it stops at
// the first error after it has run what came before, and it knows extensions.
// A missing end of a here-document is only a warning to a shell, and after an
// exit the rest is never read.
func cutShort(script string) string {
	stmts, err := parse(script)
	for _, stmt := range stmts {
		if endsShell(stmt) {
			return ""
		}
	}
	wrong, ok := errors.AsType[syntax.ParseError](err)
	if !ok || !syntax.IsIncomplete(err) || strings.Contains(wrong.Text, "here-document") {
		return ""
	}
	return clip(wrong.Text, 120)
}

// parse returns the statements up to the first error, and that error. A script
// that is too long to be read has none.
func parse(script string) (stmts []*syntax.Stmt, err error) {
	if len(script) > maxAnalysed {
		return nil, nil
	}
	// The parser is not ours and the script is hostile: a panic in it means
	// that the script is not read, no more.
	defer func() {
		if r := recover(); r != nil {
			stmts, err = nil, fmt.Errorf("parser panicked: %v", r)
		}
	}()
	parser := syntax.NewParser(syntax.Variant(syntax.LangBash))
	for stmt, e := range parser.StmtsSeq(strings.NewReader(script)) {
		switch {
		case err != nil: // it may report more errors after the first
		case e != nil:
			err = e
		default:
			stmts = append(stmts, stmt)
		}
	}
	return stmts, err
}

func endsShell(stmt *syntax.Stmt) bool {
	call, ok := stmt.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 {
		return false
	}
	name := call.Args[0].Lit()
	return name == "exit" || name == "exec" || name == "return"
}

// A word is one argument as far as it can be read off: text is its literal
// beginning, and whole tells that nothing follows which only the shell knows.
type word struct {
	text  string
	whole bool
}

func wordsOf(argv []string) []word {
	words := make([]word, len(argv))
	for i, arg := range argv {
		words[i] = word{arg, true}
	}
	return words
}

// commandsOf lists the simple commands in a script, in order, also those
// within loops, branches and substitutions. What follows a syntax error is
// left out.
func commandsOf(script string) [][]word {
	stmts, _ := parse(script) // what follows an error is the shell's to refuse
	var commands [][]word
	for _, stmt := range stmts {
		syntax.Walk(stmt, func(n syntax.Node) bool {
			if call, ok := n.(*syntax.CallExpr); ok && len(call.Args) > 0 {
				commands = append(commands, readWords(call.Args))
			}
			return true
		})
	}
	return commands
}

func readWords(args []*syntax.Word) []word {
	words := make([]word, len(args))
	for i, arg := range args {
		words[i] = readWord(arg)
	}
	return words
}

func readWord(w *syntax.Word) word {
	var b strings.Builder
	for _, part := range w.Parts {
		if !readPart(&b, part) {
			return word{b.String(), false}
		}
	}
	return word{b.String(), true}
}

// readPart appends a literal part and tells whether it was one.
func readPart(b *strings.Builder, part syntax.WordPart) bool {
	switch p := part.(type) {
	case *syntax.Lit:
		b.WriteString(unescape(p.Value))
		return p.Value == "[" || !strings.ContainsAny(p.Value, "*?[{~")
	case *syntax.SglQuoted:
		b.WriteString(p.Value)
		return !p.Dollar
	case *syntax.DblQuoted:
		for _, inner := range p.Parts {
			lit, ok := inner.(*syntax.Lit)
			if !ok {
				return false
			}
			b.WriteString(unescape(lit.Value))
		}
		return true
	}
	return false
}

// unescape drops backslashes before a literal character.
func unescape(s string) string {
	if !strings.ContainsRune(s, '\\') {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
