package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/sandboxd/sandboxd/api"
	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/runtime/artifact"
	"github.com/sandboxd/sandboxd/runtime/ledger"
	"github.com/sandboxd/sandboxd/runtime/workspace"
	"github.com/sandboxd/sandboxd/sandbox"
	fstool "github.com/sandboxd/sandboxd/tools/fs"
	gittool "github.com/sandboxd/sandboxd/tools/git"
	shelltool "github.com/sandboxd/sandboxd/tools/shell"
)

// service is every part of a running service, built and ready.
type service struct {
	cfg     *serveCmd
	log     *slog.Logger
	auth    *api.Auth
	ledger  *ledger.Ledger
	driver  sandbox.Driver
	why     string // why this driver
	kernel  *runtime.Kernel
	closers []func(context.Context) error // in the order of building
}

// wire builds the parts in the order of their dependencies. What was built is
// closed again when a later part fails.
func (c *serveCmd) wire(ctx context.Context, log *slog.Logger) (*service, error) {
	s := &service{cfg: c, log: log}
	for _, part := range []func(context.Context) error{
		s.openData, s.openKeys, s.openLedger, s.openDriver, s.openKernel,
	} {
		if err := part(ctx); err != nil {
			return nil, errors.Join(err, s.close(ctx))
		}
	}
	return s, nil
}

func (s *service) close(ctx context.Context) error {
	var errs []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i](ctx))
	}
	return errors.Join(errs...)
}

// openData makes the data directory, readable by the service alone.
func (s *service) openData(context.Context) error {
	if err := os.MkdirAll(s.cfg.Data, 0o700); err != nil {
		return fmt.Errorf("make the data directory (--data): %w", err)
	}
	return os.Chmod(s.cfg.Data, 0o700)
}

func (s *service) openKeys(context.Context) error {
	if s.cfg.NoAuth {
		s.auth = api.NoAuth()
		return nil
	}
	auth, shownOnce, err := api.LoadAuth(filepath.Join(s.cfg.Data, "keys"), s.cfg.APIKey)
	if err != nil {
		return err
	}
	if shownOnce != "" {
		fmt.Fprintf(os.Stderr, "\n  The admin key, shown this once and kept hashed:\n\n      %s\n\n", shownOnce)
	}
	s.auth = auth
	return nil
}

func (s *service) openLedger(ctx context.Context) error {
	l, err := ledger.Open(ctx, ledger.Config{Path: filepath.Join(s.cfg.Data, "ledger.db"), Logger: s.log})
	if err != nil {
		return err
	}
	s.ledger = l
	s.closers = append(s.closers, func(context.Context) error { return l.Close() })
	return nil
}

func (s *service) openDriver(ctx context.Context) error {
	agent, err := s.cfg.agentPath()
	if err != nil {
		return err
	}
	s.driver, s.why, err = chooseDriver(ctx, driverConfig{
		name: s.cfg.Driver, data: s.cfg.Data, agent: agent, runtime: s.cfg.Runtime, log: s.log,
	})
	if err != nil {
		return err
	}
	s.closers = append(s.closers, func(context.Context) error { return s.driver.Close() })
	return nil
}

func (s *service) openKernel(ctx context.Context) error {
	store, err := artifact.Open(filepath.Join(s.cfg.Data, "artifacts"), artifact.Options{MaxBytes: maxArtifact, KeepFreeBytes: keepFree})
	if err != nil {
		return err
	}
	s.kernel, err = runtime.New(runtime.Config{
		Driver: s.driver, Ledger: s.ledger, Artifacts: store, Tools: catalogue(), Logger: s.log,
		Workspaces: workspace.NewStore(filepath.Join(s.cfg.Data, "bases"), workspace.DefaultLimits()),
		Policy: runtime.RunPolicy{
			HostRoots: s.cfg.AllowHostRoot, Images: s.cfg.AllowImage, MaxRuns: s.cfg.MaxRuns, MaxWall: s.cfg.MaxWall,
		},
		HostPaths: []string{s.cfg.Data},
	})
	if err != nil {
		return err
	}
	return s.kernel.Recover(ctx)
}

// handler is the API in front of the kernel.
func (s *service) handler(addr net.Addr) http.Handler {
	return api.New(api.Config{Kernel: s.kernel, Auth: s.auth, Logger: s.log, Address: addr.String()})
}

// catalogue is the list of tools.
func catalogue() []*runtime.Tool {
	var tools []*runtime.Tool
	tools = append(tools, fstool.Tools()...)
	tools = append(tools, shelltool.Tools()...)
	tools = append(tools, gittool.Tools()...)
	return tools
}

// agentPath is where the agent's program is: named, or beside this one.
func (c *serveCmd) agentPath() (string, error) {
	if c.Agent != "" {
		return filepath.Abs(c.Agent)
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(self), "sandboxd-agent")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("sandboxd-agent is not beside %s; build it (make build) or name it with --agent", self)
	}
	return path, nil
}

// The bounds of the artifact store: one artifact, and the disk space that is
// left alone.
const (
	maxArtifact = 4 << 30
	keepFree    = 256 << 20
)
