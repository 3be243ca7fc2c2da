package shell

import (
	_ "embed"
	"encoding/json"
	"time"

	"github.com/sandboxd/sandboxd/runtime"
)

//go:embed run.json
var runSchemas []byte

// schemas are a tool's two JSON Schemas, as they stand beside its handler.
type schemas struct {
	Input  json.RawMessage `json:"input"`
	Output json.RawMessage `json:"output"`
}

func mustSchemas(raw []byte) schemas {
	var s schemas
	if err := json.Unmarshal(raw, &s); err != nil {
		panic("embedded tool schema: " + err.Error())
	}
	return s
}

// The time limits of a command.
const (
	defaultTimeout = 120 * time.Second
	maxTimeout     = time.Hour
)

// Tools are the tools of this package.
func Tools() []*runtime.Tool {
	return []*runtime.Tool{runTool()}
}

func runTool() *runtime.Tool {
	s := mustSchemas(runSchemas)
	return runtime.NewTool(runtime.Definition{
		Name: "shell.run", Version: "1.0", Title: "Run a command",
		Description: "Runs one command in the sandbox and waits until it ends: build, test, inspect, use any program of the image. " +
			"Give argv (no shell involved) or script (run by bash or sh). Each call starts afresh in the workspace: a cd or export does not carry over to the next; use cwd and env. " +
			"There is no terminal, and standard input is empty unless stdin is given. " +
			"A non-zero exit is reported as FAILED with exitCode, stdout and stderr. " +
			"Processes that the command leaves behind are ended. Long output is cut in the middle here; the whole is kept as an artifact.",
		Input: s.Input, Output: s.Output,
		AlwaysLoad: true,
		Needs:      runtime.Needs{ReadWorkspace: true, ExecuteCommand: true},
		Mode:       runtime.ModeSandboxCommand,
		Mutating:   true, Destructive: true,
		DefaultTimeout: defaultTimeout, MaxTimeout: maxTimeout,
		Tags: []string{"command", "shell", "bash", "build", "test"},
	}, runtime.Handlers[RunInput]{
		Check:    checkRun,
		Paths:    RunInput.paths,
		Meaning:  Weigh,
		Network:  networkOf,
		Timeout:  func(in RunInput) time.Duration { return time.Duration(in.TimeoutMs) * time.Millisecond },
		Activity: func(in RunInput) string { return "Run " + in.label() },
		Run:      run,
	})
}
