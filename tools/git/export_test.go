package git

// What the fuzz targets feed: the readers of git's output.

// ParsedStatus is what a test sees of a parsed status.
type ParsedStatus struct {
	Branch, Head     string
	Detached, Unborn bool
	Paths, States    []string
}

// ParseStatus reads git status' output.
func ParseStatus(raw []byte) (ParsedStatus, error) {
	t, err := parseStatus(raw)
	p := ParsedStatus{Branch: t.branch, Head: t.head, Detached: t.detached, Unborn: t.unborn}
	for _, e := range t.entries {
		p.Paths, p.States = append(p.Paths, e.path), append(p.States, e.state())
	}
	return p, err
}

// ParsedChange is what a test sees of one file of a parsed diff.
type ParsedChange struct {
	Path, From, Word string
	Added, Deleted   int
	Binary           bool
}

// ParseDiff reads git diff's raw records and line counts.
func ParseDiff(raw []byte) ([]ParsedChange, error) {
	changes, err := parseDiff(raw)
	var all []ParsedChange
	for _, c := range changes {
		all = append(all, ParsedChange{c.path, c.from, c.word(), c.added, c.deleted, c.binary})
	}
	return all, err
}

// ParseLog reads git log's output.
func ParseLog(raw []byte) ([]Commit, error) { return parseLog(raw) }

// ParseTreeEntry reads one record of git ls-tree.
func ParseTreeEntry(raw []byte) (mode, kind, id string) { return parseTreeEntry(raw) }
