package git

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// treeStatus is what "git status --porcelain=v2 --branch -z" said.
type treeStatus struct {
	branch, head, upstream string
	ahead, behind          *int
	detached, unborn       bool
	entries                []treeEntry
}

// treeEntry is one path: index and worktree are git's letters.
type treeEntry struct {
	path, from      string
	index, worktree byte
	submodule       bool
}

// state says the entry in one word. What the worktree did counts for more than
// the index, except that a file added or renamed in the index is still new.
func (e treeEntry) state() string {
	if e.index == '?' {
		return "untracked"
	}
	if e.index == 'U' || e.worktree == 'U' || e.index == 'A' && e.worktree == 'A' || e.index == 'D' && e.worktree == 'D' {
		return "conflicted"
	}
	for _, row := range []struct {
		hit  bool
		word string
	}{
		{e.worktree == 'D', "deleted"},
		{e.index == 'R' || e.worktree == 'R', "renamed"},
		{e.index == 'C' || e.worktree == 'C', "copied"},
		{e.index == 'A' || e.worktree == 'A', "added"},
		{e.index == 'D', "deleted"},
		{e.index == 'T' || e.worktree == 'T', "type-changed"},
	} {
		if row.hit {
			return row.word
		}
	}
	return "modified"
}

// errStatus is output that is not porcelain v2, or is cut off.
var errStatus = errors.New("unexpected record")

// parseStatus reads porcelain v2 with -z (git-status(1), "Porcelain Format
// Version 2"). On error it returns what came before.
func parseStatus(raw []byte) (*treeStatus, error) {
	t := &treeStatus{}
	records := strings.Split(string(raw), "\x00")
	if last := len(records) - 1; records[last] == "" {
		records = records[:last]
	} else {
		return t, fmt.Errorf("%w: no NUL at the end", errStatus)
	}
	for i := 0; i < len(records); i++ {
		record := records[i]
		kind, rest, _ := strings.Cut(record, " ")
		switch kind {
		case "#":
			t.header(rest)
		case "1", "2", "u":
			fields := map[string]int{"1": 8, "2": 9, "u": 10}[kind]
			entry, err := parseEntry(rest, fields)
			if err != nil {
				return t, err
			}
			if kind == "2" {
				if i++; i == len(records) {
					return t, fmt.Errorf("%w: rename without its origin", errStatus)
				}
				entry.from = records[i]
			}
			t.entries = append(t.entries, entry)
		case "?":
			t.entries = append(t.entries, treeEntry{path: rest, index: '?', worktree: '?'})
		case "!":
		default:
			return t, fmt.Errorf("%w of kind %.20q", errStatus, kind)
		}
	}
	return t, nil
}

func (t *treeStatus) header(line string) {
	name, value, _ := strings.Cut(line, " ")
	switch name {
	case "branch.oid":
		if t.head = value; value == "(initial)" {
			t.head, t.unborn = "", true
		}
	case "branch.head":
		if t.branch = value; value == "(detached)" {
			t.branch, t.detached = "", true
		}
	case "branch.upstream":
		t.upstream = value
	case "branch.ab":
		plus, minus, _ := strings.Cut(value, " ")
		ahead, err1 := strconv.Atoi(strings.TrimPrefix(plus, "+"))
		behind, err2 := strconv.Atoi(strings.TrimPrefix(minus, "-"))
		if err1 == nil && err2 == nil && ahead >= 0 && behind >= 0 {
			t.ahead, t.behind = &ahead, &behind
		}
	}
}

// parseEntry reads the fields of a changed path: XY, submodule state, then
// modes and ids, and last the path, which may hold blanks.
func parseEntry(rest string, fields int) (treeEntry, error) {
	parts := strings.SplitN(rest, " ", fields)
	if len(parts) != fields || len(parts[0]) != 2 || len(parts[1]) != 4 || parts[fields-1] == "" {
		return treeEntry{}, fmt.Errorf("%w: %.60q", errStatus, rest)
	}
	return treeEntry{
		path: parts[fields-1], index: parts[0][0], worktree: parts[0][1], submodule: parts[1][0] == 'S',
	}, nil
}
