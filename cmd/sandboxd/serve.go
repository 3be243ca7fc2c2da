package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sandboxd/sandboxd/api"
)

// serveCmd is the service's configuration: flags, or the environment.
type serveCmd struct {
	Listen        string        `default:"127.0.0.1:8080" env:"SANDBOXD_LISTEN" help:"Address to serve on; port 0 takes a free one."`
	Data          string        `default:"/var/lib/sandboxd" env:"SANDBOXD_DATA" help:"Directory of ledger, artifacts, keys and boxes."`
	Driver        string        `default:"auto" enum:"auto,docker,oci" env:"SANDBOXD_DRIVER" help:"What makes boxes: docker, oci, or auto (docker if it answers, else oci)."`
	Runtime       string        `env:"SANDBOXD_RUNTIME" help:"OCI runtime by name (runc, crun, runsc); the driver's default otherwise."`
	Agent         string        `env:"SANDBOXD_AGENT" help:"Path of sandboxd-agent; beside this program otherwise."`
	APIKey        string        `name:"api-key" env:"SANDBOXD_API_KEY" help:"Admin key, at least 32 characters; one is made at the first start otherwise."`
	NoAuth        bool          `help:"Take calls without a key; on loopback addresses only."`
	AllowHostRoot []string      `env:"SANDBOXD_ALLOW_HOST_ROOT" type:"path" help:"Directory below which sources and mounts may point; repeatable."`
	AllowImage    []string      `env:"SANDBOXD_ALLOW_IMAGE" help:"Image that runs may name; all that the driver knows otherwise; repeatable."`
	MaxRuns       int           `default:"200" env:"SANDBOXD_MAX_RUNS" help:"Most runs at a time."`
	MaxWall       time.Duration `default:"24h" env:"SANDBOXD_MAX_WALL" help:"Longest life of a run, and its default."`
	DrainTimeout  time.Duration `default:"30s" env:"SANDBOXD_DRAIN_TIMEOUT" help:"How long a stop waits for calls to be recorded and boxes removed."`
	LogLevel      slog.Level    `default:"INFO" env:"SANDBOXD_LOG_LEVEL" help:"DEBUG, INFO, WARN or ERROR."`
}

// Run serves until the context ends, then drains.
func (c *serveCmd) Run(ctx context.Context) error {
	// Who reads the log may go; that must not end the service at its next line.
	signal.Ignore(syscall.SIGPIPE)
	log := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: c.LogLevel}))
	if err := c.check(); err != nil {
		return err
	}
	svc, err := c.wire(ctx, log)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return errors.Join(fmt.Errorf("listen on %s: %w", c.Listen, err), svc.close(ctx))
	}
	server := api.Server(svc.handler(listener.Addr()))
	log.Info("serving", "address", "http://"+listener.Addr().String(), "driver", svc.driver.Name(), "why", svc.why, "data", c.Data, "auth", !c.NoAuth)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err = <-failed:
	case <-ctx.Done():
		log.Info("stopping: calls are cancelled and recorded, boxes removed", "within", c.DrainTimeout.String())
	}
	return errors.Join(err, c.drain(server, svc))
}

// drain answers what is under way, then closes the parts in reverse order.
func (c *serveCmd) drain(server *http.Server, svc *service) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.DrainTimeout)
	defer cancel()
	// Runs end first: their calls get their results, and the streams that
	// follow them come to their end; then the connections are idle.
	err := svc.kernel.Close(ctx)
	if stop := server.Shutdown(ctx); stop != nil {
		err = errors.Join(err, server.Close())
	}
	return errors.Join(err, svc.close(ctx))
}

// check refuses a configuration that cannot be meant.
func (c *serveCmd) check() error {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return fmt.Errorf("--listen %q is not HOST:PORT: %w", c.Listen, err)
	}
	if ip := net.ParseIP(host); c.NoAuth && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("--no-auth works on loopback addresses only, and --listen is %s; use 127.0.0.1:PORT, or leave --no-auth out", c.Listen)
	}
	for i, root := range c.AllowHostRoot {
		resolved, err := filepath.EvalSymlinks(root)
		if err != nil {
			return fmt.Errorf("--allow-host-root %s: %w", root, err)
		}
		c.AllowHostRoot[i] = resolved
	}
	c.Data, err = filepath.Abs(c.Data)
	return err
}
