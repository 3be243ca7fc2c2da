package patch

import "fmt"

// A SyntaxError says that a patch cannot be read, or asks for what patches do
// not do here.
type SyntaxError struct {
	// Line is the 1-based line of the patch, or 0.
	Line    int
	Message string
}

func (e *SyntaxError) Error() string {
	if e.Line == 0 {
		return e.Message
	}
	return fmt.Sprintf("line %d of the patch: %s", e.Line, e.Message)
}

func syntaxf(line int, format string, args ...any) *SyntaxError {
	return &SyntaxError{Line: line, Message: fmt.Sprintf(format, args...)}
}

// Reason says why a hunk does not fit. Closed, append only.
type Reason string

// The reasons.
const (
	ReasonNoMatch     Reason = "no_match"
	ReasonAmbiguous   Reason = "ambiguous"
	ReasonOverlap     Reason = "overlapping_hunks"
	ReasonOrder       Reason = "hunks_out_of_order"
	ReasonFinalEnd    Reason = "final_newline"
	ReasonIncomplete  Reason = "incomplete_delete"
	ReasonApplied     Reason = "already_applied"
	ReasonUnencodable Reason = "not_encodable"
)

// A MismatchError says that a patch does not fit the file, and where it nearly
// does. It crosses the API as structured output.
type MismatchError struct {
	Path   string `json:"path"`
	Reason Reason `json:"reason"`
	// Hunk counts from 1; PatchLine is the line of the patch that is meant.
	Hunk      int `json:"hunk,omitempty"`
	PatchLine int `json:"patchLine,omitempty"`
	// StatedLine is the line of the file that the header states, 0 for none.
	StatedLine int `json:"statedLine,omitempty"`
	// Candidates are the lines at which an ambiguous hunk fits.
	Candidates []int    `json:"candidates,omitempty"`
	Nearest    *Nearest `json:"nearest,omitempty"`
	Message    string   `json:"message"`
}

func (e *MismatchError) Error() string { return e.Message }

// Nearest is the place of the file that is most like a hunk's old lines.
type Nearest struct {
	StartLine int `json:"startLine"`
	EndLine   int `json:"endLine"`
	// Equal counts the old lines that are there, of Of.
	Equal int `json:"equal"`
	Of    int `json:"of"`
	// Lines are the file's lines there, shortened.
	Lines []string `json:"lines"`
	// The first line that differs: its number in the file, what the patch
	// expects there and what the file has.
	DiffersAt int    `json:"differsAt"`
	Expected  string `json:"expected"`
	Found     string `json:"found"`
}
