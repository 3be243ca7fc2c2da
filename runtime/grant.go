package runtime

import (
	"time"

	"github.com/sandboxd/sandboxd/sandbox"
)

// A Grant is the right to carry out one checked and authorized call. Only
// authorize makes one, and only a Grant can be dispatched: a tool's handler
// cannot be reached around the kernel.
type Grant struct {
	call     *Call
	tool     *registered
	input    any
	meaning  Meaning
	timeout  time.Duration
	box      sandbox.Box
	scope    scope
	secrets  []string
	grace    func() time.Duration
	captures *captureSet
	maxChars int
}

// CallID is the call's id.
func (g *Grant) CallID() string { return g.call.ToolCallID }

// RunID is the run's id.
func (g *Grant) RunID() string { return g.call.RunID }

// Box is the run's sandbox.
func (g *Grant) Box() sandbox.Box { return g.box }

// Secrets are the run's secret environment values, as NAME=VALUE, for commands
// and nothing else.
func (g *Grant) Secrets() []string { return g.secrets }

// Grace is the time between TERM and KILL of a process tree, as asked for by
// whoever cancelled, else the default.
func (g *Grant) Grace() time.Duration { return g.grace() }

// Readable tells whether the run may see this path of the workspace. Tools
// that list or search leave out what is not.
func (g *Grant) Readable(path string) bool { return g.scope.readable(path) }

// ReadOnly is true where the workspace is mounted read-only.
func (g *Grant) ReadOnly() bool { return g.scope.readOnly }

// MaxChars is how many characters of inline text the answer may hold in all.
func (g *Grant) MaxChars() int { return g.maxChars }

// Capture opens a stream for output of any size: its head and tail are kept
// for the answer, redacted, and when it is too large for that the whole goes
// to an artifact of this name. Memory stays bounded. The kernel closes it.
func (g *Grant) Capture(name, description string) *Capture {
	return g.captures.open(name, description)
}
