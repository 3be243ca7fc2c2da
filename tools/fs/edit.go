package fs

import (
	"context"
	"fmt"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tools/fs/patch"
	"github.com/sandboxd/sandboxd/tools/fs/text"
)

// EditInput are the arguments of file.edit.
type EditInput struct {
	target
	OldText    string `json:"oldText"`
	NewText    string `json:"newText"`
	ReplaceAll bool   `json:"replaceAll"`
	BaseHash   string `json:"baseHash"`
}

// EditOutput is the answer of file.edit.
type EditOutput struct {
	name
	Hash         string `json:"hash"`
	OldHash      string `json:"oldHash"`
	Bytes        int64  `json:"bytes"`
	Replacements int    `json:"replacements"`
	Lines        []int  `json:"lines"`
}

func editTool() *runtime.Tool {
	return runtime.NewTool(changing("file.edit", "edit.json", runtime.Definition{
		Title: "Replace text in a file",
		Description: "Replaces text of a file by other text. The old text must be in the file exactly, and once unless replaceAll is set; otherwise nothing is changed, and the answer names the lines or the nearest place. " +
			"Line endings, encoding and byte order mark are kept.",
		Destructive: true,
	}), runtime.Handlers[EditInput]{
		Check: EditInput.check, Paths: func(in EditInput) []runtime.PathUse { return in.writes() },
		Activity: func(in EditInput) string { return "Editing " + nameOf(in.raw()).Path },
		Run:      edit,
	})
}

func (in EditInput) check() *runtime.Fault {
	if fault := in.checkFile(); fault != nil {
		return fault
	}
	if in.OldText == in.NewText {
		return runtime.Faultf(runtime.CodeSchemaViolation, "oldText and newText are the same. Give the text as it is to become in newText.")
	}
	return nil
}

// editTries is how often an edit without baseHash is made anew because the
// file was changed between reading and writing it.
const editTries = 3

func edit(ctx context.Context, g *runtime.Grant, in EditInput) (runtime.Output, error) {
	for try := 1; ; try++ {
		out, err := editOnce(ctx, g, in)
		if err == nil {
			return runtime.Output{Structured: out, Effect: runtime.EffectApplied}, nil
		}
		if sandbox.KindOf(err) != sandbox.KindHashMismatch || in.BaseHash != "" || try == editTries {
			return runtime.Output{}, runtime.BoxFault(err)
		}
	}
}

func editOnce(ctx context.Context, g *runtime.Grant, in EditInput) (*EditOutput, error) {
	path := in.clean()
	src, hash, err := loadText(ctx, g, path)
	if err != nil {
		return nil, err
	}
	if in.BaseHash != "" && in.BaseHash != hash {
		return nil, stale(path, hash)
	}
	r := text.Replace(src, in.OldText, in.NewText, in.ReplaceAll)
	if r.Data == nil {
		return nil, editFault(path, src, in, r)
	}
	applied, err := apply(ctx, g, sandbox.Change{
		Op: sandbox.OpWrite, Path: path, Data: r.Data, Base: sandbox.Precondition{Hash: hash},
	})
	if err != nil {
		return nil, err
	}
	return &EditOutput{
		name: nameOf(path), Hash: applied[0].Hash, OldHash: hash, Bytes: applied[0].Bytes,
		Replacements: len(r.Lines), Lines: r.Lines[:min(len(r.Lines), 100)],
	}, nil
}

// editFault says why nothing was replaced.
func editFault(path string, src []byte, in EditInput, r text.Replaced) *runtime.Fault {
	m := &patch.MismatchError{Path: nameOf(path).Path}
	switch {
	case r.Unencodable:
		m.Reason = patch.ReasonUnencodable
		m.Message = fmt.Sprintf("%q is not UTF-8 (%s) and cannot hold all characters of newText. Use characters up to U+00FF, or write the file anew with file.write.", m.Path, text.Detect(src))
	case len(r.Lines) > 1:
		m.Reason, m.Candidates = patch.ReasonAmbiguous, r.Lines
		m.Message = fmt.Sprintf("oldText is in %q more than once, at lines %v. Take in lines around the one that is meant, or set replaceAll. Nothing was changed.", m.Path, r.Lines)
	default:
		m.Reason, m.Nearest = patch.ReasonNoMatch, patch.FindNearest(src, in.OldText)
		m.Message = fmt.Sprintf("oldText is not in %q. Read the file and copy the text exactly, white space included. Nothing was changed.", m.Path)
		if n := m.Nearest; n != nil {
			m.Message = fmt.Sprintf("oldText is not in %q. The nearest place is lines %d-%d; at line %d the file has %q where oldText has %q. Copy the text exactly. Nothing was changed.",
				m.Path, n.StartLine, n.EndLine, n.DiffersAt, n.Found, n.Expected)
		}
	}
	return &runtime.Fault{Code: runtime.CodePatchMismatch, Message: m.Message, Structured: m, Cause: m}
}
