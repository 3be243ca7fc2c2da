package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// A Definition is what a tool states of itself: a protocol object, not a
// function. Zero values are the cautious ones.
type Definition struct {
	// Name is namespaced ("file.read"), Version changes with the schemas.
	Name, Version, Title string
	// Description is for the model: what the tool does, when to use it.
	Description string
	// Input and Output are JSON Schemas (draft 2020-12) of arguments and
	// structuredOutput; both are objects that allow no further properties.
	Input, Output json.RawMessage
	// AlwaysLoad keeps the tool in every list, DeferLoading leaves it to
	// tool.search.
	AlwaysLoad, DeferLoading bool
	// Needs is what the run's permission profile must grant.
	Needs Needs
	Mode  Mode
	// Mutating tools change the workspace, Destructive ones lose what cannot
	// be got back, OpenWorld ones reach beyond the box.
	Mutating, Destructive, OpenWorld bool
	// DefaultTimeout and MaxTimeout bound a call; both are required.
	DefaultTimeout, MaxTimeout time.Duration
	// Idempotent means that a second execution does no further harm; only such
	// tools are retried in code.
	Idempotent bool
	// MaxResultChars caps inline text; 0 means that the tool bounds itself.
	MaxResultChars int
	Tags           []string
	// AllowedCallers is "model", "code.run"; empty means both.
	AllowedCallers []string
	OwnerOnly      bool
}

// Needs is the permission requirement of a tool.
type Needs struct {
	ReadWorkspace, WriteWorkspace, ExecuteCommand, Network bool
	// Nothing states openly that the tool touches no environment; without it a
	// tool that needs nothing cannot be registered.
	Nothing bool
}

// Mode says where a tool works.
type Mode string

// The execution modes.
const (
	ModeNative          Mode = "NATIVE"
	ModeSandboxReadOnly Mode = "SANDBOX_READ_ONLY"
	ModeSandboxWrite    Mode = "SANDBOX_WRITE"
	ModeSandboxCommand  Mode = "SANDBOX_COMMAND"
	ModeExternal        Mode = "EXTERNAL"
)

// Group says what may run beside a call within one run.
type Group string

// The concurrency groups: parallel and bounded; parallel up to the run's
// limit; one at a time, first come first served.
const (
	GroupReadOnly  Group = "READ_ONLY"
	GroupCommand   Group = "COMMAND_EXECUTION"
	GroupWorkspace Group = "WORKSPACE_MUTATION"
	GroupExternal  Group = "EXTERNAL_MUTATION"
)

// Meaning is what one call's input means. The zero value is the cautious one.
type Meaning struct {
	ReadOnly, ConcurrencySafe, Destructive, OpenWorld bool
}

// PathUse is a path of the workspace that a call would touch.
type PathUse struct {
	Path    string
	Write   bool
	Pointer string // JSON pointer of the argument
}

// Handlers are the functions of a tool over its decoded input. Run is
// required.
type Handlers[In any] struct {
	// Check is the semantic check after the schema: nil means fit.
	Check func(in In) *Fault
	// Paths lists the workspace paths that the call names; the kernel checks
	// their form and the run's scope.
	Paths func(in In) []PathUse
	// Meaning weighs this input; nil derives it from the definition.
	Meaning func(in In) Meaning
	// Network names the remote target that the input plainly asks for, or is
	// "". The box is what keeps a run off the network; this explains it early.
	Network func(in In) string
	// Timeout is the input's own wish; 0 is the default.
	Timeout func(in In) time.Duration
	// Activity says in a few words what the call does, for people.
	Activity func(in In) string
	// Run does it. ctx carries deadline and cancel cause. A *Fault error is a
	// failure with a code, any other error a failure of ours. An Output that
	// comes with an error is kept (R6.5: output before a cancel is not lost).
	Run func(ctx context.Context, g *Grant, in In) (Output, error)
}

// Output is what a tool's handler found.
type Output struct {
	// Structured becomes structuredOutput; it must fit the output schema.
	Structured any
	// Message is for the model where the outcome deserves a sentence.
	Message string
	Partial bool
	Effect  Effect
	// Truncated is set where the tool left something out.
	Truncated bool
	Usage     ResultUsage
}

// A Tool is a definition with its handlers, ready to be registered.
type Tool struct {
	Definition
	decode   func(raw json.RawMessage) (any, error)
	check    func(in any) *Fault
	paths    func(in any) []PathUse
	meaning  func(in any) Meaning
	network  func(in any) string
	timeout  func(in any) time.Duration
	activity func(in any) string
	run      func(ctx context.Context, g *Grant, in any) (Output, error)
}

// NewTool binds a definition to its handlers. In is decoded from arguments
// that already fit the input schema.
func NewTool[In any](d Definition, h Handlers[In]) *Tool {
	t := &Tool{
		Definition: d,
		decode: func(raw json.RawMessage) (any, error) {
			var in In
			dec := json.NewDecoder(bytes.NewReader(raw))
			dec.DisallowUnknownFields()
			if err := dec.Decode(&in); err != nil {
				return nil, fmt.Errorf("decode input of %s: %w", d.Name, err)
			}
			return in, nil
		},
		check:    func(any) *Fault { return nil },
		paths:    func(any) []PathUse { return nil },
		meaning:  func(any) Meaning { return d.meaning() },
		network:  func(any) string { return "" },
		timeout:  func(any) time.Duration { return 0 },
		activity: func(any) string { return d.Title },
		run: func(ctx context.Context, g *Grant, in any) (Output, error) {
			return h.Run(ctx, g, in.(In))
		},
	}
	if h.Check != nil {
		t.check = func(in any) *Fault { return h.Check(in.(In)) }
	}
	if h.Paths != nil {
		t.paths = func(in any) []PathUse { return h.Paths(in.(In)) }
	}
	if h.Meaning != nil {
		t.meaning = func(in any) Meaning { return h.Meaning(in.(In)) }
	}
	if h.Network != nil {
		t.network = func(in any) string { return h.Network(in.(In)) }
	}
	if h.Timeout != nil {
		t.timeout = func(in any) time.Duration { return h.Timeout(in.(In)) }
	}
	if h.Activity != nil {
		t.activity = func(in any) string { return h.Activity(in.(In)) }
	}
	return t
}

// meaning is what a definition says where no input is weighed.
func (d Definition) meaning() Meaning {
	readOnly := d.Mode == ModeSandboxReadOnly && !d.Mutating
	return Meaning{
		ReadOnly:        readOnly,
		ConcurrencySafe: readOnly,
		Destructive:     d.Destructive,
		OpenWorld:       d.OpenWorld,
	}
}

// group is the concurrency group of a call with this meaning.
func (d Definition) group(m Meaning) Group {
	switch {
	case d.Mode == ModeSandboxCommand:
		return GroupCommand
	case m.ReadOnly && m.ConcurrencySafe:
		return GroupReadOnly
	case d.Mode == ModeExternal:
		return GroupExternal
	default:
		return GroupWorkspace
	}
}
