package fs

import (
	"context"
	"strings"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/sandbox"
)

// MoveInput are the arguments of file.move.
type MoveInput struct {
	From       string `json:"from"`
	FromBase64 string `json:"fromBase64"`
	To         string `json:"to"`
	ToBase64   string `json:"toBase64"`
	BaseHash   string `json:"baseHash"`
}

// MoveOutput is the answer of file.move.
type MoveOutput struct {
	name
	MovedFrom string `json:"movedFrom"`
	Hash      string `json:"hash"`
	Bytes     int64  `json:"bytes"`
}

func moveTool() *runtime.Tool {
	return runtime.NewTool(changing("file.move", "move.json", runtime.Definition{
		Title:       "Move a file",
		Description: "Moves or renames one regular file, its content and mode kept. It needs baseHash, and nothing may be at the new path.",
	}), runtime.Handlers[MoveInput]{
		Check: MoveInput.check, Paths: MoveInput.uses,
		Activity: func(in MoveInput) string { return "Moving " + nameOf(in.from().raw()).Path },
		Run:      move,
	})
}

func (in MoveInput) from() target { return target{in.From, in.FromBase64} }
func (in MoveInput) to() target   { return target{in.To, in.ToBase64} }

func (in MoveInput) check() *runtime.Fault {
	for _, end := range []struct {
		t    target
		name string
	}{{in.from(), "from"}, {in.to(), "to"}} {
		if fault := end.t.checkFile(); fault != nil {
			fault.Message = strings.NewReplacer("/pathBase64", "/"+end.name+"Base64", "/path", "/"+end.name,
				"pathBase64", end.name+"Base64", "Give path", "Give "+end.name).Replace(fault.Message)
			return fault
		}
	}
	if in.from().clean() == in.to().clean() {
		return runtime.Faultf(runtime.CodeSchemaViolation, "from and to are the same path. Give the new path in to.")
	}
	return nil
}

func (in MoveInput) uses() []runtime.PathUse {
	return []runtime.PathUse{
		{Path: in.from().raw(), Write: true, Pointer: "/from"},
		{Path: in.to().raw(), Write: true, Pointer: "/to"},
	}
}

func move(ctx context.Context, g *runtime.Grant, in MoveInput) (runtime.Output, error) {
	from, to := in.from().clean(), in.to().clean()
	if in.BaseHash == "" {
		return runtime.Output{}, existing(ctx, g, from)
	}
	applied, err := apply(ctx, g, sandbox.Change{
		Op: sandbox.OpMove, Path: from, To: to, Base: sandbox.Precondition{Hash: in.BaseHash},
	})
	if err != nil {
		return runtime.Output{}, missingIsNotFound(err)
	}
	return runtime.Output{Effect: runtime.EffectApplied, Structured: MoveOutput{
		name: nameOf(to), MovedFrom: nameOf(from).Path, Hash: in.BaseHash, Bytes: applied[0].Bytes,
	}}, nil
}
