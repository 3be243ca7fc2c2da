package fs

import (
	"context"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/sandbox"
)

// DeleteInput are the arguments of file.delete.
type DeleteInput struct {
	target
	BaseHash string `json:"baseHash"`
}

// DeleteOutput is the answer of file.delete.
type DeleteOutput struct {
	name
	OldHash string `json:"oldHash"`
	Deleted bool   `json:"deleted"`
}

func deleteTool() *runtime.Tool {
	return runtime.NewTool(changing("file.delete", "delete.json", runtime.Definition{
		Title:       "Delete a file",
		Description: "Deletes one regular file. It needs baseHash, so that only what was looked at is deleted. Directories and links are deleted with a command.",
		Destructive: true,
	}), runtime.Handlers[DeleteInput]{
		Check: func(in DeleteInput) *runtime.Fault { return in.checkFile() },
		Paths: func(in DeleteInput) []runtime.PathUse { return in.writes() },
		Activity: func(in DeleteInput) string {
			return "Deleting " + nameOf(in.raw()).Path
		},
		Run: remove,
	})
}

func remove(ctx context.Context, g *runtime.Grant, in DeleteInput) (runtime.Output, error) {
	path := in.clean()
	if in.BaseHash == "" {
		return runtime.Output{}, existing(ctx, g, path)
	}
	applied, err := apply(ctx, g, sandbox.Change{
		Op: sandbox.OpDelete, Path: path, Base: sandbox.Precondition{Hash: in.BaseHash},
	})
	if err != nil {
		return runtime.Output{}, missingIsNotFound(err)
	}
	return runtime.Output{Effect: runtime.EffectApplied, Structured: DeleteOutput{
		name: nameOf(path), OldHash: applied[0].OldHash, Deleted: true,
	}}, nil
}

// missingIsNotFound says of a file that is gone that it is not there, whatever
// hash it was to have.
func missingIsNotFound(err error) *runtime.Fault {
	fault := runtime.BoxFault(err)
	if box, ok := asBoxError(err); ok && box.Kind == sandbox.KindHashMismatch && box.CurrentHash == "" {
		return runtime.BoxFault(&sandbox.Error{Kind: sandbox.KindNotFound, Path: box.Path, Cause: err})
	}
	return fault
}
