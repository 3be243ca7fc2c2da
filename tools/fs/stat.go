package fs

import (
	"context"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/sandbox"
)

// StatInput are the arguments of file.stat.
type StatInput struct{ target }

// StatOutput is the answer of file.stat.
type StatOutput struct {
	name
	Type    sandbox.FileType `json:"type"`
	Bytes   int64            `json:"bytes"`
	Mode    string           `json:"mode"`
	ModTime time.Time        `json:"modTime"`
	Links   uint64           `json:"links"`
	Target  string           `json:"target,omitempty"`
	Hash    string           `json:"hash,omitempty"`
}

func statTool() *runtime.Tool {
	return runtime.NewTool(looking("file.stat", "stat.json", runtime.Definition{
		Title:       "Describe a path",
		Description: "Describes one path without following a final link: type, size, mode, time of change, number of hard links, and the hash that changing it asks for.",
	}), runtime.Handlers[StatInput]{
		Check:    func(in StatInput) *runtime.Fault { return in.check() },
		Paths:    func(in StatInput) []runtime.PathUse { return in.reads() },
		Activity: func(in StatInput) string { return "Looking at " + nameOf(in.raw()).Path },
		Run:      stat,
	})
}

func stat(ctx context.Context, g *runtime.Grant, in StatInput) (runtime.Output, error) {
	path, files := in.clean(), g.Box().Files()
	info, err := files.Stat(ctx, path)
	if err != nil {
		return runtime.Output{}, runtime.BoxFault(err)
	}
	out := StatOutput{
		name: nameOf(path), Type: info.Type, Bytes: info.Bytes, Mode: modeString(info.Mode),
		ModTime: info.ModTime.UTC(), Links: info.Links, Target: strings.ToValidUTF8(info.Target, "\uFFFD"),
	}
	if info.Type != sandbox.TypeFile || info.Bytes > maxScanBytes {
		return runtime.Output{Structured: out}, nil
	}
	r, err := files.Read(ctx, sandbox.ReadRequest{Path: path, Limit: 1})
	switch sandbox.KindOf(err) {
	case "":
		out.Hash = r.Hash
	case sandbox.KindPermission: // what stat tells is true all the same
	default:
		return runtime.Output{}, runtime.BoxFault(err)
	}
	return runtime.Output{Structured: out}, nil
}
