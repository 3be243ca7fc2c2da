// Command sandboxd runs a model's tool calls in boxes of their own and records
// everything. It is the wiring: every concrete part is built here, in the
// order of its dependencies, one function a part (wire.go); the rest of the
// module knows only interfaces.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

// version is set when a release is built.
var version = "dev"

// cli is the command line; its tags are its help.
type cli struct {
	Serve   serveCmd   `cmd:"" help:"Start the service."`
	Demo    demoCmd    `cmd:"" help:"Start a service and do the main job before your eyes, each step checked."`
	Doctor  doctorCmd  `cmd:"" help:"Say what this machine can enforce, and what to do about the rest."`
	Ledger  ledgerCmd  `cmd:"" help:"Look into a ledger."`
	Version versionCmd `cmd:"" help:"Print the version."`
}

type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run() error {
	fmt.Println("sandboxd", version)
	return nil
}

func main() {
	os.Exit(run(os.Args[1:]))
}

// run is main with an exit code: 0 done, 1 failed, 2 wrong usage.
func run(args []string) int {
	var c cli
	parser, err := kong.New(&c, kong.Name("sandboxd"), kong.UsageOnError(),
		kong.Description("Runs a model's tool calls in boxes of their own, and records everything."))
	if err != nil {
		fmt.Fprintln(os.Stderr, "sandboxd:", err)
		return 1
	}
	command, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "sandboxd:", err)
		fmt.Fprintln(os.Stderr, "Try: sandboxd --help")
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	command.BindTo(ctx, (*context.Context)(nil))
	if err := command.Run(); err != nil {
		if !errors.Is(err, errSaid) {
			fmt.Fprintln(os.Stderr, "sandboxd:", err)
		}
		return 1
	}
	return 0
}

// errSaid ends a command whose output has told already what is wrong.
var errSaid = errors.New("said already")
