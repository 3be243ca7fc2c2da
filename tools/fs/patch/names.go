package patch

import (
	"io/fs"
	"strings"
)

// file makes a section out of its headers. Every name of every header is held
// against the others.
func (h *head) file(argument string) (File, error) {
	f := File{Line: h.line, Op: h.op}
	oldName, newName, err := h.resolve(argument)
	if err != nil {
		return f, err
	}
	if f.Op == "" {
		f.Op = h.operation()
	}
	switch f.Op {
	case OpCreate:
		oldName = ""
	case OpDelete:
		newName = ""
	}
	f.Old, f.New = oldName, newName
	if f.Path() == "" {
		return f, syntaxf(h.line, "the section names no file")
	}
	return f, h.modes(&f)
}

// operation tells what a section without extended headers does.
func (h *head) operation() Op {
	switch {
	case h.minusNull:
		return OpCreate
	case h.plusNull:
		return OpDelete
	}
	return OpModify
}

// resolve finds the old and new name and refuses headers that disagree.
func (h *head) resolve(argument string) (oldName, newName string, err error) {
	oldName, newName = h.from, h.to
	if (oldName == "") != (newName == "") {
		return "", "", syntaxf(h.line, "a %s needs both its from and its to line", h.op)
	}
	if h.minus != "" {
		m, p := h.stripped(argument)
		if oldName != "" && (m != oldName || p != newName) {
			return "", "", syntaxf(h.line, "the --- and +++ lines name %q and %q, the %s lines %q and %q", m, p, h.op, oldName, newName)
		}
		oldName, newName = m, p
		if h.git && !h.namesAgree(m, p) {
			return "", "", syntaxf(h.line, "the diff --git line and the --- and +++ lines name different files")
		}
		if !h.git && (m == p+".orig" || m == p+"~") {
			m = p // how diff is run by hand against a kept copy
		}
		if h.op != OpRename && h.op != OpCopy && m != p && m != "" && p != "" {
			return "", "", syntaxf(h.line, "the section names two files, %q and %q; a rename is written with git's rename from and rename to lines", m, p)
		}
		return oldName, newName, nil
	}
	if oldName != "" {
		if !h.namesAgree(oldName, newName) {
			return "", "", syntaxf(h.line, "the diff --git line and the %s lines name different files", h.op)
		}
		return oldName, newName, nil
	}
	name, ok := h.gitName(argument)
	if !ok {
		return "", "", syntaxf(h.line, "the names of the diff --git line cannot be told apart; add --- and +++ lines")
	}
	return name, name, nil
}

// prefixes are the pairs that git writes before names.
func prefixes() [][2]string {
	return [][2]string{{"a/", "b/"}, {"i/", "w/"}, {"c/", "i/"}, {"c/", "w/"}, {"o/", "w/"}, {"1/", "2/"}}
}

// stripped returns the names of --- and +++ without their prefixes, "" for
// /dev/null. They are taken off in pairs only, so that a directory a stays.
func (h *head) stripped(argument string) (minus, plus string) {
	minus, plus = h.minus, h.plus
	if h.minusNull {
		minus = ""
	}
	if h.plusNull {
		plus = ""
	}
	if argument != "" && (minus == argument || minus == "") && (plus == argument || plus == "") {
		return minus, plus
	}
	for _, pre := range prefixes() {
		if (minus == "" || strings.HasPrefix(minus, pre[0])) && (plus == "" || strings.HasPrefix(plus, pre[1])) {
			return strings.TrimPrefix(minus, pre[0]), strings.TrimPrefix(plus, pre[1])
		}
	}
	return minus, plus
}

// namesAgree holds the diff --git line against the names found elsewhere; ""
// stands for /dev/null.
func (h *head) namesAgree(oldName, newName string) bool {
	if oldName == "" {
		oldName = newName
	}
	if newName == "" {
		newName = oldName
	}
	pairs := append([][2]string{{"", ""}}, prefixes()...)
	for _, pre := range pairs {
		for _, q := range []func(string) string{plainName, quoteName} {
			for _, q2 := range []func(string) string{plainName, quoteName} {
				if h.gitNames == q(pre[0]+oldName)+" "+q2(pre[1]+newName) {
					return true
				}
			}
		}
	}
	return h.quotedNamesAgree(oldName, newName)
}

// quotedNamesAgree reads a pair of which the first is quoted.
func (h *head) quotedNamesAgree(oldName, newName string) bool {
	a, b, ok := splitGitNames(h.gitNames)
	if !ok {
		return false
	}
	sub := head{minus: a, plus: b}
	m, p := sub.stripped("")
	return m == oldName && p == newName
}

// gitName finds the one name that the diff --git line gives twice.
func (h *head) gitName(argument string) (string, bool) {
	if a, b, ok := splitGitNames(h.gitNames); ok {
		sub := head{minus: a, plus: b}
		if m, p := sub.stripped(argument); m == p {
			return m, m != ""
		}
		return "", false
	}
	s := h.gitNames
	for at := 0; at < len(s); at++ {
		if s[at] != ' ' {
			continue
		}
		sub := head{minus: s[:at], plus: s[at+1:]}
		if m, p := sub.stripped(argument); m == p && m != "" {
			return m, true
		}
	}
	return "", false
}

// splitGitNames splits where quotes or the lack of further spaces make it
// clear.
func splitGitNames(s string) (a, b string, ok bool) {
	if strings.HasPrefix(s, `"`) {
		end := closingQuote(s)
		if end < 0 || end+2 > len(s) || s[end+1] != ' ' {
			return "", "", false
		}
		a, okA := unquoteName(s[:end+1])
		b, okB := unquoteName(s[end+2:])
		return a, b, okA && okB
	}
	if strings.Count(s, " ") != 1 {
		return "", "", false
	}
	a, b, _ = strings.Cut(s, " ")
	b, ok = unquoteName(b)
	return a, b, ok
}

// modes reads git's file modes. Only regular files are made.
func (h *head) modes(f *File) error {
	for _, m := range []string{h.oldMode, h.newMode, h.createMode, h.delete} {
		switch {
		case m == "":
		case strings.HasPrefix(m, "120"):
			return syntaxf(h.line, "%q is a symbolic link; patches make and change regular files only", f.Path())
		case strings.HasPrefix(m, "160"):
			return syntaxf(h.line, "%q is a submodule; patches make and change regular files only", f.Path())
		case len(m) != 6 || !strings.HasPrefix(m, "100") || strings.Trim(m, "01234567") != "":
			return syntaxf(h.line, "the file mode %s is not one that git writes (100644 or 100755)", quoted(m))
		}
	}
	for _, m := range []string{h.newMode, h.createMode} {
		if m != "" {
			f.Mode = permission(m)
		}
	}
	return nil
}

// permission is git's view of a mode: executable or not.
func permission(m string) fs.FileMode {
	if (m[3]-'0')&1 != 0 {
		return 0o755
	}
	return 0o644
}
