// Command sandboxd-agent is the first process of every box. See package
// sandbox/agent for what it does and sandbox/agentproto for how it is
// launched.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"

	"github.com/sandboxd/sandboxd/sandbox/agent"
	"github.com/sandboxd/sandboxd/sandbox/agentproto"
	"golang.org/x/sys/unix"
)

// version is set by the linker.
var version = "devel"

// The main goroutine must be on the main thread from the start: orphans come
// to that thread, and agent.Reap waits for them there.
func init() { runtime.LockOSThread() }

func main() {
	socket := flag.String("socket", "", "listen on this unix socket")
	stdio := flag.Bool("stdio", false, "serve one session over standard input and output")
	token := flag.String("token-file", agentproto.TokenPath, "file with the session's token")
	showVersion := flag.Bool("version", false, "print the version and exit")
	flag.Parse()
	switch {
	case *showVersion:
		fmt.Println(version)
		return
	case (*socket == "") == !*stdio:
		fmt.Fprintln(os.Stderr, "sandboxd-agent: give either --socket PATH or --stdio")
		os.Exit(2)
	}
	if err := agent.Harden(); err != nil {
		fail(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	go func() {
		defer stop()
		a := agent.New(agent.Options{Version: version, TokenFile: *token, TokenOptional: *stdio})
		err := serve(ctx, a, *socket)
		if err = errors.Join(err, a.Close()); err != nil {
			fail(err)
		}
		os.Exit(0)
	}()
	agent.Reap()
}

// serve returns when ctx ends, or when standard input does.
func serve(ctx context.Context, a *agent.Agent, socket string) error {
	if socket != "" {
		l, err := agent.ListenSocket(socket)
		if err != nil {
			return err
		}
		return a.Listen(ctx, l)
	}
	conn, err := agent.Stdio()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	// The stream's end is the session's proper end.
	_ = a.Serve(conn)
	return nil
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "sandboxd-agent:", err)
	os.Exit(1)
}
