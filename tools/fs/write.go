package fs

import (
	"context"
	"encoding/base64"
	"io/fs"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/sandbox"
)

// WriteInput are the arguments of file.write.
type WriteInput struct {
	target
	Content      string `json:"content"`
	Encoding     string `json:"encoding"`
	BaseHash     string `json:"baseHash"`
	MustNotExist bool   `json:"mustNotExist"`
	Mode         string `json:"mode"`
}

// WriteOutput is the answer of file.write.
type WriteOutput struct {
	name
	Hash    string `json:"hash"`
	OldHash string `json:"oldHash,omitempty"`
	Bytes   int64  `json:"bytes"`
	Created bool   `json:"created"`
}

func writeTool() *runtime.Tool {
	return runtime.NewTool(changing("file.write", "write.json", runtime.Definition{
		Title: "Write a file",
		Description: "Creates a file, or replaces the whole content of an existing one, in one step: readers see the old content or the new. " +
			"Replacing needs baseHash from file.read, so that nobody's change is lost. For a change in part of a file use file.edit or file.patch.",
		Destructive: true,
	}), runtime.Handlers[WriteInput]{
		Check: WriteInput.check, Paths: func(in WriteInput) []runtime.PathUse { return in.writes() },
		Activity: func(in WriteInput) string { return "Writing " + nameOf(in.raw()).Path },
		Run:      write,
	})
}

func (in WriteInput) check() *runtime.Fault {
	if fault := in.checkFile(); fault != nil {
		return fault
	}
	if in.BaseHash != "" && in.MustNotExist {
		return runtime.Faultf(runtime.CodeSchemaViolation, "baseHash says that the file exists, mustNotExist that it does not. Give one of them.")
	}
	if _, err := in.data(); err != nil {
		return runtime.Faultf(runtime.CodeSchemaViolation, "/content is not standard base64 (RFC 4648). Encode it again, or leave encoding out for text.")
	}
	if _, err := in.mode(); err != nil {
		return runtime.Faultf(runtime.CodeSchemaViolation, "/mode is not an octal mode such as 0644.")
	}
	return nil
}

func (in WriteInput) data() ([]byte, error) {
	if in.Encoding != "base64" {
		return []byte(in.Content), nil
	}
	return base64.StdEncoding.DecodeString(in.Content)
}

func (in WriteInput) mode() (fs.FileMode, error) {
	if in.Mode == "" {
		return 0, nil
	}
	return parseMode(in.Mode)
}

func write(ctx context.Context, g *runtime.Grant, in WriteInput) (runtime.Output, error) {
	data, err := in.data()
	if err != nil {
		return runtime.Output{}, err
	}
	mode, err := in.mode()
	if err != nil {
		return runtime.Output{}, err
	}
	change := sandbox.Change{
		Op: sandbox.OpWrite, Path: in.clean(), Data: data, Mode: mode,
		Base: sandbox.Precondition{Hash: in.BaseHash, Absent: in.BaseHash == ""},
	}
	applied, err := apply(ctx, g, change)
	if sandbox.KindOf(err) == sandbox.KindExists && !in.MustNotExist {
		return runtime.Output{}, existing(ctx, g, in.clean())
	}
	if err != nil {
		return runtime.Output{}, runtime.BoxFault(err)
	}
	a := applied[0]
	return runtime.Output{Effect: runtime.EffectApplied, Structured: WriteOutput{
		name: nameOf(a.Path), Hash: a.Hash, OldHash: a.OldHash, Bytes: a.Bytes, Created: a.Created,
	}}, nil
}

// apply makes changes, all or none, and answers with the box's own error.
func apply(ctx context.Context, g *runtime.Grant, changes ...sandbox.Change) ([]sandbox.Applied, error) {
	return g.Box().Files().Apply(ctx, changes)
}

// existing says what stands in the way of a new file.
func existing(ctx context.Context, g *runtime.Grant, path string) *runtime.Fault {
	info, err := g.Box().Files().Stat(ctx, path)
	switch {
	case err != nil:
		return runtime.BoxFault(err)
	case info.Type == sandbox.TypeFile:
		return baseRequired(path)
	case info.Type == sandbox.TypeDir:
		return runtime.BoxFault(&sandbox.Error{Kind: sandbox.KindIsDirectory, Path: path})
	}
	return runtime.BoxFault(&sandbox.Error{Kind: sandbox.KindNotRegular, Path: path})
}
