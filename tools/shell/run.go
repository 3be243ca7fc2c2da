package shell

import (
	"context"
	"io"
	"path"
	"strings"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/sandbox"
)

// run starts the command in the grant's box and tells what it did.
func run(ctx context.Context, g *runtime.Grant, in RunInput) (runtime.Output, error) {
	stdout := g.Capture("stdout", "Full standard output")
	stderr := g.Capture("stderr", "Full standard error")
	exit, err := runInBox(ctx, g, in, stdout, stderr)
	if err != nil {
		return runtime.Output{}, startFault(in, err)
	}
	root := path.Join(g.Box().Facts().WorkspacePath, in.Cwd)
	return conclude(ctx, root, in, exit, readStream(stdout), readStream(stderr))
}

// runInBox runs argv, or the script with the first shell that is there.
func runInBox(ctx context.Context, g *runtime.Grant, in RunInput, stdout, stderr io.Writer) (exit sandbox.Exit, err error) {
	for _, argv := range in.argvs() {
		exit, err = sandbox.Run(ctx, g.Box(), sandbox.Command{
			Argv: argv, Dir: in.Cwd, Env: in.environ(g.Secrets()),
			Stdin: in.stdin(), Stdout: stdout, Stderr: stderr,
		}, g.Grace)
		if sandbox.KindOf(err) != sandbox.KindCommandNotFound {
			break
		}
	}
	return exit, err
}

// argvs are the ways to start the input, to be tried in this order. The script
// is one argument, byte for byte; the shell is no login shell, reads no start
// files, and "--" keeps a script that begins with a dash from being an option.
func (in RunInput) argvs() [][]string {
	if in.Script == nil {
		return [][]string{in.Argv}
	}
	return [][]string{
		{"/bin/bash", "--noprofile", "--norc", "-c", "--", *in.Script},
		{"/bin/sh", "-c", "--", *in.Script},
	}
}

func (in RunInput) stdin() io.Reader {
	if in.Stdin == "" {
		return nil
	}
	return strings.NewReader(in.Stdin)
}

// quietEnv keeps programs from waiting for a person, and their output plain.
var quietEnv = []string{
	"TERM=dumb", "NO_COLOR=1", "PAGER=cat", "GIT_PAGER=cat", "GIT_EDITOR=true", "GIT_TERMINAL_PROMPT=0",
	"GCM_INTERACTIVE=never", "GIT_SSH_COMMAND=ssh -oBatchMode=yes", "DEBIAN_FRONTEND=noninteractive",
}

// environ is what the command gets besides the box's own environment. What
// the run and the call state wins over the defaults.
func (in RunInput) environ(secrets []string) []string {
	env := append([]string{}, quietEnv...)
	if in.Script != nil {
		env = append(env, "BASH_ENV=", "ENV=") // an image's start file is not part of the script
	}
	for name, value := range in.Env {
		env = append(env, name+"="+value)
	}
	return append(env, secrets...)
}

// startFault says why the command could not be started.
func startFault(in RunInput, err error) *runtime.Fault {
	if in.Script != nil && sandbox.KindOf(err) == sandbox.KindCommandNotFound {
		return &runtime.Fault{
			Code:    runtime.CodeCommandNotFound,
			Message: "The box has no shell (/bin/bash, /bin/sh), so a script cannot run. Use argv with a program of the image.",
			Cause:   err,
		}
	}
	return runtime.BoxFault(err)
}

// stream is what came out on one descriptor.
type stream struct {
	text    string
	bytes   int64
	omitted int64
}

func readStream(c *runtime.Capture) stream {
	text := c.Text()
	total, omitted := c.Bytes()
	return stream{text, total, omitted}
}
