package fs

import (
	"embed"
	"encoding/json"
	"time"

	"github.com/sandboxd/sandboxd/runtime"
)

//go:embed *.json
var schemaFiles embed.FS

// The time limits of the file tools.
const (
	defaultTimeout = 30 * time.Second
	maxTimeout     = 2 * time.Minute
)

// Tools are the tools of this package.
func Tools() []*runtime.Tool {
	return []*runtime.Tool{
		readTool(), listTool(), statTool(),
		writeTool(), editTool(), patchTool(), deleteTool(), moveTool(),
		globTool(), searchTool(searchTime, ripgrep, walkSearch),
	}
}

// define fills in what a tool's schema file and kind say. The schema files are
// part of the program: one that cannot be read is a fault of the build.
func define(name, file string, d runtime.Definition) runtime.Definition {
	raw, err := schemaFiles.ReadFile(file)
	if err != nil {
		panic("schema of " + name + ": " + err.Error())
	}
	var s struct {
		Input  json.RawMessage `json:"input"`
		Output json.RawMessage `json:"output"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		panic("schema of " + name + ": " + err.Error())
	}
	d.Name, d.Version, d.Input, d.Output = name, "1.0", s.Input, s.Output
	if d.DefaultTimeout == 0 {
		d.DefaultTimeout, d.MaxTimeout = defaultTimeout, maxTimeout
	}
	return d
}

// looking is the definition of a tool that only reads.
func looking(name, file string, d runtime.Definition) runtime.Definition {
	d.Needs = runtime.Needs{ReadWorkspace: true}
	d.Mode, d.Idempotent = runtime.ModeSandboxReadOnly, true
	return define(name, file, d)
}

// changing is the definition of a tool that writes. It is not idempotent: once
// applied, its precondition no longer holds.
func changing(name, file string, d runtime.Definition) runtime.Definition {
	d.Needs = runtime.Needs{ReadWorkspace: true, WriteWorkspace: true}
	d.Mode, d.Mutating = runtime.ModeSandboxWrite, true
	return define(name, file, d)
}
