package patch

import "io/fs"

// Op is what a section does to its file. Closed list.
type Op string

// The operations.
const (
	OpModify Op = "modify"
	OpCreate Op = "create"
	OpDelete Op = "delete"
	OpRename Op = "rename"
	OpCopy   Op = "copy"
)

// A Patch is a parsed patch.
type Patch struct {
	Files []File
	// Notes say what was forgiven in reading it.
	Notes []string
}

// A File is the section of one file.
type File struct {
	Op Op
	// Old is where the file is, "" for OpCreate; New is where it will be, "" for
	// OpDelete. Both are as written, prefixes stripped: unchecked input.
	Old, New string
	// Mode is the new permission bits, 0644 or 0755, or 0 for no change.
	Mode  fs.FileMode
	Hunks []Hunk
	// Whole is set where OpDelete says nothing of the content (apply_patch).
	Whole bool
	// Line is the number of the section's first line in the patch.
	Line int
}

// Path is the file that a person would name: the new one, else the old.
func (f File) Path() string {
	if f.New != "" {
		return f.New
	}
	return f.Old
}

// A Hunk is a run of lines with their context.
type Hunk struct {
	// OldStart is the 1-based line in the old file that the header states, or
	// -1 for a header without numbers.
	OldStart int
	Lines    []Line
	// Line is the number of the header in the patch.
	Line int
	// Anchors are lines that come before the hunk in the file, from headers
	// without numbers (@@ func main).
	Anchors []string
	// AtEnd demands that the hunk's old lines are the file's last.
	AtEnd bool
}

// A Line is a line of a hunk's body.
type Line struct {
	Kind Kind
	// Text is without the kind, without LF, and without the CR before it.
	Text string
	// CR is true where a CR stood before the LF; NoEnd where the marker for a
	// missing final newline follows.
	CR, NoEnd bool
	Line      int
}

// Kind is the first character of a line in a hunk.
type Kind byte

// The kinds of line.
const (
	Context Kind = ' '
	Remove  Kind = '-'
	Add     Kind = '+'
)

// old returns the lines that must be in the file.
func (h Hunk) old() []Line {
	lines := make([]Line, 0, len(h.Lines))
	for _, l := range h.Lines {
		if l.Kind != Add {
			lines = append(lines, l)
		}
	}
	return lines
}
