package fs

import (
	"context"
	"errors"
	"fmt"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tools/fs/patch"
)

// PatchInput are the arguments of file.patch.
type PatchInput struct {
	target
	Patch      string            `json:"patch"`
	BaseHash   string            `json:"baseHash"`
	BaseHashes map[string]string `json:"baseHashes"`
}

// PatchOutput is the answer of file.patch.
type PatchOutput struct {
	Files        []PatchedFile `json:"files"`
	ChangedLines int           `json:"changedLines"`
	AddedLines   int           `json:"addedLines"`
	RemovedLines int           `json:"removedLines"`
	Notes        []string      `json:"notes"`
}

// PatchedFile is what became of one file.
type PatchedFile struct {
	name
	Op           patch.Op       `json:"op"`
	Hash         string         `json:"hash,omitempty"`
	OldHash      string         `json:"oldHash,omitempty"`
	Bytes        int64          `json:"bytes"`
	Created      bool           `json:"created"`
	Deleted      bool           `json:"deleted"`
	MovedFrom    string         `json:"movedFrom,omitempty"`
	Hunks        []patch.Placed `json:"hunks"`
	AddedLines   int            `json:"addedLines"`
	RemovedLines int            `json:"removedLines"`
}

func patchTool() *runtime.Tool {
	return runtime.NewTool(changing("file.patch", "patch.json", runtime.Definition{
		Title: "Apply a patch",
		Description: "Applies a unified diff to one or several files: all of it or nothing. Every existing file that it touches needs its hash from file.read (baseHash, or baseHashes by path). " +
			"Context and removed lines must be in the file exactly; wrong line numbers and counts are mended where the place is the only one. " +
			"Line endings, byte order mark and a missing final newline are kept. A refusal names the nearest lines and what differs.",
		Destructive: true, AlwaysLoad: true,
	}), runtime.Handlers[PatchInput]{
		Check: PatchInput.check, Paths: PatchInput.uses,
		Activity: func(in PatchInput) string { return in.activity() },
		Run:      runPatch,
	})
}

func (in PatchInput) parse() (*patch.Patch, error) {
	p, err := patch.Parse(in.Patch, patch.Options{Path: in.clean()})
	if err != nil {
		return nil, err
	}
	for i := range p.Files {
		f := &p.Files[i]
		f.Old, f.New = cleanIfAny(f.Old), cleanIfAny(f.New)
		if f.Path() == "" || f.Op == patch.OpRename && (f.Old == "" || f.New == "") {
			return nil, &patch.SyntaxError{Line: f.Line, Message: "the section names the workspace itself; name a file"}
		}
	}
	return p, nil
}

// cleanIfAny cleans a name of a header; what leads out of the workspace stays
// visible as such for the kernel's check.
func cleanIfAny(p string) string {
	if p == "" {
		return ""
	}
	return cleanPath(p)
}

func (in PatchInput) check() *runtime.Fault {
	if in.Path != "" || in.PathBase64 != "" {
		if fault := in.checkFile(); fault != nil {
			return fault
		}
	}
	p, err := in.parse()
	if err != nil {
		fault := &runtime.Fault{
			Code:    runtime.CodePatchInvalid,
			Message: "The patch cannot be read: " + err.Error() + ". Nothing was changed.",
			Cause:   err,
		}
		if s, ok := errors.AsType[*patch.SyntaxError](err); ok && s.Line > 0 {
			fault.Structured = map[string]any{"patchLine": s.Line}
		}
		return fault
	}
	if fault := in.checkTwice(p); fault != nil {
		return fault
	}
	return in.checkBases(p)
}

// checkTwice refuses one file under two spellings.
func (in PatchInput) checkTwice(p *patch.Patch) *runtime.Fault {
	seen := map[string]bool{}
	for _, f := range p.Files {
		names := []string{f.Old, f.New}
		if f.Op == patch.OpModify || f.Op == patch.OpCopy {
			names = names[1:]
		}
		for _, n := range names {
			if n != "" && seen[n] {
				return runtime.Faultf(runtime.CodePatchInvalid, "%q is touched by two sections of the patch. Put all of its hunks into one.", nameOf(n).Path)
			}
			seen[n] = true
		}
	}
	return nil
}

// changes tells whether the section changes a file that must exist.
func changes(f patch.File) bool { return f.Op != patch.OpCreate && f.Op != patch.OpCopy }

// checkBases refuses an existing file without a base, and a base without one.
func (in PatchInput) checkBases(p *patch.Patch) *runtime.Fault {
	existing := 0
	for _, f := range p.Files {
		if changes(f) {
			existing++
		} else if in.BaseHashes[f.New] != "" {
			return runtime.Faultf(runtime.CodePatchInvalid, "The patch creates %q, so there is no base hash for it. Leave the hash out, or send a diff against the file that exists.", nameOf(f.New).Path)
		}
	}
	if in.BaseHash != "" && existing != 1 {
		return runtime.Faultf(runtime.CodePatchInvalid, "baseHash stands for one existing file, but the patch changes %d. Use baseHashes, with a hash for each path.", existing)
	}
	for _, f := range p.Files {
		if changes(f) && in.base(f.Old) == "" {
			return &runtime.Fault{
				Code: runtime.CodeBaseHashRequired,
				Message: fmt.Sprintf("The patch changes %q, and an existing file is changed only with its hash. Read it with file.read and give the hash as baseHash, or in baseHashes under that path. Nothing was changed.",
					nameOf(f.Old).Path),
				Structured: nameOf(f.Old),
			}
		}
	}
	return nil
}

// base is the hash that the caller gave for a path.
func (in PatchInput) base(path string) string {
	if h := in.BaseHashes[path]; h != "" {
		return h
	}
	for key, h := range in.BaseHashes {
		if cleanPath(key) == path {
			return h
		}
	}
	return in.BaseHash
}

// uses names every path of every header.
func (in PatchInput) uses() []runtime.PathUse {
	p, err := in.parse()
	if err != nil {
		return nil // check has refused it
	}
	var uses []runtime.PathUse
	for _, f := range p.Files {
		if f.Old != "" {
			uses = append(uses, runtime.PathUse{Path: f.Old, Write: f.Op != patch.OpCopy, Pointer: "/patch"})
		}
		if f.New != "" && f.New != f.Old {
			uses = append(uses, runtime.PathUse{Path: f.New, Write: true, Pointer: "/patch"})
		}
	}
	return uses
}

func (in PatchInput) activity() string {
	p, err := in.parse()
	switch {
	case err != nil:
		return "Patching"
	case len(p.Files) == 1:
		return "Patching " + nameOf(p.Files[0].Path()).Path
	}
	return fmt.Sprintf("Patching %d files", len(p.Files))
}

func runPatch(ctx context.Context, g *runtime.Grant, in PatchInput) (runtime.Output, error) {
	p, err := in.parse()
	if err != nil {
		return runtime.Output{}, err
	}
	steps, err := loadSteps(ctx, g, in, p)
	if err != nil {
		return runtime.Output{}, err
	}
	out := PatchOutput{Notes: append([]string{}, p.Notes...)}
	changes := make([]sandbox.Change, 0, len(steps))
	for i := range steps {
		change, err := steps[i].change()
		if err != nil {
			return runtime.Output{}, patchFault(err)
		}
		changes = append(changes, change)
	}
	applied, err := apply(ctx, g, changes...)
	if err != nil {
		return runtime.Output{}, runtime.BoxFault(err)
	}
	for i := range steps {
		out.add(&steps[i], applied[i])
	}
	out.ChangedLines = out.AddedLines + out.RemovedLines
	return runtime.Output{Structured: out, Effect: runtime.EffectApplied}, nil
}

// patchFault makes a fault of what the engine refuses.
func patchFault(err error) error {
	m, ok := errors.AsType[*patch.MismatchError](err)
	if !ok {
		return err
	}
	return &runtime.Fault{
		Code:       runtime.CodePatchMismatch,
		Message:    "The patch was not applied, and no file was changed: " + m.Message,
		Structured: m, Cause: err,
	}
}
