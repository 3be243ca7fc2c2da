package sandbox

import (
	"context"
	"io"
	"time"
)

// A Driver makes boxes with one technology.
type Driver interface {
	// Name is the driver's short name, as in the API: "docker", "oci".
	Name() string
	// Create makes a hardened box and returns once its agent answers. On error
	// nothing of it is left.
	Create(ctx context.Context, spec Spec) (Box, error)
	// Reconcile removes every box of this service's that is not in keep (run
	// ids), with its mounts, volumes, cgroups and directories, and returns the
	// run ids whose remains were removed. Nobody else's containers are touched.
	Reconcile(ctx context.Context, keep map[string]bool) ([]string, error)
	// Close releases the driver's connections. Boxes live on.
	Close() error
}

// A Box is the sandbox of one run. It is safe for concurrent use.
type Box interface {
	// Start starts a command in a new process tree. The error is an *Error:
	// KindCommandNotFound, KindCommandNotExecutable, KindBadDir,
	// KindUnavailable and so on. A started command lives until it ends, until
	// it is killed through its Process, or until the box is removed; ctx
	// governs only the start. A cancel of ctx before the process exists means
	// that it never runs.
	Start(ctx context.Context, cmd Command) (Process, error)
	// Files is the file work in this box.
	Files() Files
	// Facts describes the box as it was made.
	Facts() Facts
	// Done is closed when the box can serve no more: its agent died, its
	// container was removed, or Remove was called.
	Done() <-chan struct{}
	// Remove kills all that runs in the box and removes it and everything that
	// was made for it. It is idempotent.
	Remove(ctx context.Context) error
}

// A Command is a program to start in a box.
type Command struct {
	// Argv is the program and its arguments. Argv[0] without a slash is looked
	// up in the PATH of the command's environment, inside the box.
	Argv []string
	// Dir is the working directory, relative to the workspace; "" is the
	// workspace itself.
	Dir string
	// Env is added to the box's own environment, as NAME=VALUE; later wins.
	Env []string
	// Stdin is copied to the command; nil means an empty input.
	Stdin io.Reader
	// Stdout and Stderr receive the output as it is written; nil discards it.
	// Each is used by one goroutine. A writer's error stops the copying, not
	// the command. Write must not block for long: it holds the command back.
	Stdout, Stderr io.Writer
	// KeepChildren leaves processes alone that the command left behind; the
	// default is to kill and count them when the command itself has ended.
	KeepChildren bool
	// TTY, when set, gives the command a controlling terminal of this size;
	// all output then comes on Stdout.
	TTY *WindowSize
}

// WindowSize is a terminal's size in characters.
type WindowSize struct{ Rows, Cols uint16 }

// A Process is a command that was started. It is safe for concurrent use.
type Process interface {
	// PID is the process id inside the box.
	PID() int
	// Wait returns when the command has ended and its output has been
	// delivered. It may be called by several goroutines. The error is an
	// *Error of KindUnavailable when the box went away first.
	Wait() (Exit, error)
	// Signal sends a signal by name ("SIGINT") to the command's own process
	// group.
	Signal(ctx context.Context, name string) error
	// Resize changes the size of the command's terminal.
	Resize(ctx context.Context, size WindowSize) error
	// Kill ends the whole process tree: SIGTERM, then after grace SIGKILL by
	// the strongest means that the box has, also for processes that left the
	// session, ignore signals, are stopped, or keep forking. Other commands of
	// the box live on. It returns once the kill was sent; Wait tells the end.
	Kill(ctx context.Context, grace time.Duration) error
}

// An Exit tells how a command ended. It is data, never an error.
type Exit struct {
	// Code is the exit status, 0–255, or -1 when a signal ended the command.
	Code int
	// Signal names the signal that ended the command ("SIGKILL"), or is "".
	Signal string
	// Killed counts the processes that were ended by Kill, and KillStep says
	// which step ended the tree: "", "term", "cgroup.kill", "freeze",
	// "stop-walk" or "box".
	Killed   int
	KillStep string
	// Leftover counts processes that the command left behind when it ended by
	// itself, and that were then killed.
	Leftover int
	// OOMKilled is true when the kernel killed a process of the box for memory
	// while the command ran.
	OOMKilled bool
	// PidsLimitHit is true when a fork was refused for the pids limit.
	PidsLimitHit bool
	Usage        Usage
}

// Usage is what a command used. Zero means unknown.
type Usage struct {
	Wall        time.Duration
	CPU         time.Duration
	MaxRSSBytes int64
}

// A Grace says how much time there is between TERM and KILL. It is asked when
// the kill is due, since whoever cancels may have a wish of their own.
type Grace func() time.Duration

// After is a grace of fixed length.
func After(d time.Duration) Grace { return func() time.Duration { return d } }

// Run starts cmd and waits for it. When ctx ends first, the process tree is
// killed with the given grace; the exit then tells how many were killed and
// the caller reads the reason from context.Cause.
func Run(ctx context.Context, box Box, cmd Command, grace Grace) (Exit, error) {
	p, err := box.Start(ctx, cmd)
	if err != nil {
		return Exit{}, err
	}
	stop := context.AfterFunc(ctx, func() {
		// The caller's context has ended; the kill has its own short deadline.
		kctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killSendTimeout)
		defer cancel()
		// A kill that cannot be sent means that the box is gone: Wait says so.
		_ = p.Kill(kctx, grace())
	})
	defer stop()
	return p.Wait()
}

// killSendTimeout bounds the sending of a kill request, not the kill itself.
const killSendTimeout = 10 * time.Second
