package oci

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/cgroup"
)

// Config says which runtime makes the boxes, and where the service keeps its
// part of them.
type Config struct {
	// DataDir is the service's directory; boxes are below its boxes/, unpacked
	// images below its images/<name>/rootfs.
	DataDir string
	// AgentPath is the agent's static binary.
	AgentPath string
	// OwnerID tells the boxes of one service from those of another on the same
	// machine: 1 to 32 letters, digits and dashes.
	OwnerID string
	// Runtime is the OCI runtime of boxes that name none: "runc" (also ""),
	// "crun" or "runsc".
	Runtime string
	// Logger gets what no caller waits for; nil discards it.
	Logger *slog.Logger
}

// Driver makes boxes with an OCI runtime of this machine.
type Driver struct {
	cfg     Config
	tree    *cgroup.Tree
	runtime runtime // the default one
	host    hostRoot
	etc     etc
	log     *slog.Logger
}

var _ sandbox.Driver = (*Driver)(nil)

// An UnusableError says why no box can be made on this machine, and in the same
// sentence what to do about it.
type UnusableError struct {
	Message string
	Cause   error
}

func (e *UnusableError) Error() string { return "oci: " + e.Message }

// Unwrap returns the cause.
func (e *UnusableError) Unwrap() error { return e.Cause }

// New looks for the runtime and prepares the data directory. The error is an
// *UnusableError where the machine or the user cannot make boxes.
func New(ctx context.Context, cfg Config) (*Driver, error) {
	if err := checkConfig(cfg); err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 {
		return nil, &UnusableError{Message: "only root can make boxes without a Docker engine; run the service as root, or start an engine and choose the docker driver"}
	}
	rt, err := findRuntime(ctx, cfg.Runtime)
	if err != nil {
		return nil, err
	}
	tree, err := cgroup.Open(cfg.OwnerID)
	if err != nil {
		return nil, &UnusableError{Message: "cgroups are not mounted; mount them at /sys/fs/cgroup, or choose the docker driver", Cause: err}
	}
	cfg.DataDir = filepath.Clean(cfg.DataDir)
	d := &Driver{cfg: cfg, tree: tree, runtime: rt, log: cfg.Logger}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	for _, dir := range []string{d.boxesDir(), d.stateDir(), d.etcDir(), d.rootsDir()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	d.host, err = lookAtHost()
	return d, err
}

func checkConfig(cfg Config) error {
	switch {
	case !sandbox.ValidName(cfg.OwnerID) || len(cfg.OwnerID) > 32:
		return fmt.Errorf("oci: an owner id is 1 to 32 letters, digits and dashes, not %q", cfg.OwnerID)
	case !filepath.IsAbs(cfg.DataDir):
		return fmt.Errorf("oci: the data directory must be an absolute path, not %q", cfg.DataDir)
	case reaches(filepath.Clean(cfg.DataDir), forbiddenSources()) != "":
		return fmt.Errorf("oci: the data directory cannot be %q: boxes are given directories below it, and none of %s may be in a box",
			cfg.DataDir, strings.Join(forbiddenSources(), ", "))
	case !filepath.IsAbs(cfg.AgentPath):
		return fmt.Errorf("oci: the agent's path must be absolute, not %q", cfg.AgentPath)
	}
	info, err := os.Stat(cfg.AgentPath)
	if err != nil {
		return fmt.Errorf("oci: there is no agent; build it (make build): %w", err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("oci: the agent at %s is not a file", cfg.AgentPath)
	}
	return nil
}

// Name is "oci".
func (d *Driver) Name() string { return "oci" }

// About is one line on the driver for people: the runtime, its version and how
// the machine keeps cgroups.
func (d *Driver) About() string {
	return fmt.Sprintf("%s %s at %s (cgroup %s)", d.runtime.name, d.runtime.version, d.runtime.path, d.tree.Mode())
}

// Close does nothing: the driver holds nothing open. Boxes live on.
func (d *Driver) Close() error { return nil }

func (d *Driver) boxesDir() string { return filepath.Join(d.cfg.DataDir, "boxes") }
func (d *Driver) etcDir() string   { return filepath.Join(d.cfg.DataDir, "oci", "etc") }
func (d *Driver) rootsDir() string { return filepath.Join(d.cfg.DataDir, "oci", "roots") }

// stateDir holds a directory for each runtime that has containers of ours
// (--root), so that its list of containers holds ours alone.
func (d *Driver) stateDir() string { return filepath.Join(d.cfg.DataDir, "oci", "state") }

func (d *Driver) stateOf(runtime string) string { return filepath.Join(d.stateDir(), runtime) }
