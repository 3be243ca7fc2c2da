package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/sandbox"
)

// Transport is how the service reaches the agents.
type Transport string

// The transports. Auto takes the socket where service and engine share a host.
const (
	TransportAuto   Transport = ""
	TransportSocket Transport = "socket"
	TransportStdio  Transport = "stdio"
)

// Config says which engine makes the boxes, and where the service keeps its
// part of them.
type Config struct {
	// Host is the engine's address, as in DOCKER_HOST; "" takes that variable or
	// the default socket.
	Host string
	// DataDir is the service's directory; boxes are below its boxes/.
	DataDir string
	// AgentPath is the agent's static binary for the engine's machine; a copy
	// below DataDir is what boxes get.
	AgentPath string
	// OwnerID tells the boxes of one service from those of another on the same
	// engine: 1 to 32 lower-case letters, digits and dashes.
	OwnerID string
	// Runtime is the OCI runtime of boxes that name none; "" is the engine's.
	Runtime string
	// Transport is TransportAuto except in tests and behind odd proxies.
	Transport Transport
	// Logger gets what no caller waits for; nil discards it.
	Logger *slog.Logger
}

// Driver makes boxes with one Docker engine.
type Driver struct {
	cfg    Config
	engine engine
	about  aboutEngine
	boxes  string
	// agent is the service's own copy of the agent, in its data directory.
	agent string
	// cgroups is nil where boxes can be handed none; noCgroups says why.
	cgroups   cgroups
	noCgroups string
	log       *slog.Logger

	// mu guards the answer to whether service and engine share a host, which
	// the first box finds out.
	mu        sync.Mutex
	transport Transport

	// agentVolume guards the name of the volume with the agent, "" until the
	// first box needs it.
	agentVolume     sync.Mutex
	agentVolumeMade string
}

// aboutEngine is what the engine says of itself, asked once.
type aboutEngine struct {
	version      string
	arch         string // as images name it
	runtime      string // the default one
	dataRoot     string
	cgroupDriver string
	cgroupMode   string
	runtimes     []string
	local        bool // its address is a unix socket
	remapped     bool // its containers' root is not the host's
}

var _ sandbox.Driver = (*Driver)(nil)

// New connects to the engine. The error is an *EngineError when none answers,
// or none that is new enough: it then says what to do.
func New(ctx context.Context, cfg Config) (*Driver, error) {
	if err := checkConfig(cfg); err != nil {
		return nil, err
	}
	c, err := connect(ctx, cfg.Host)
	if err != nil {
		return nil, err
	}
	d, err := newDriver(ctx, cfg, c)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return d, nil
}

func checkConfig(cfg Config) error {
	switch {
	case !sandbox.ValidName(cfg.OwnerID) || len(cfg.OwnerID) > 32 || strings.ToLower(cfg.OwnerID) != cfg.OwnerID:
		return fmt.Errorf("docker: an owner id is 1 to 32 lower-case letters, digits and dashes, not %q", cfg.OwnerID)
	case !filepath.IsAbs(cfg.DataDir):
		return fmt.Errorf("docker: the data directory must be an absolute path, not %q", cfg.DataDir)
	case !filepath.IsAbs(cfg.AgentPath):
		return fmt.Errorf("docker: the agent's path must be absolute, not %q", cfg.AgentPath)
	}
	if info, err := os.Stat(cfg.AgentPath); err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("docker: there is no agent at %s; build it (make build): %w", cfg.AgentPath, cmp.Or(err, os.ErrInvalid))
	}
	return nil
}

// newDriver is New on an engine that is there, for tests a fake one.
func newDriver(ctx context.Context, cfg Config, e engine) (*Driver, error) {
	about, err := askEngine(ctx, e)
	if err != nil {
		return nil, err
	}
	boxes := filepath.Join(filepath.Clean(cfg.DataDir), "boxes")
	if err := os.MkdirAll(boxes, 0o700); err != nil {
		return nil, err
	}
	// The engine is given these paths and resolves links in its own view.
	if boxes, err = filepath.EvalSymlinks(boxes); err != nil {
		return nil, err
	}
	agent, err := installAgent(filepath.Join(filepath.Dir(boxes), "agents"), cfg.AgentPath)
	if err != nil {
		return nil, err
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	d := &Driver{cfg: cfg, engine: e, about: about, boxes: boxes, agent: agent, log: log, transport: cfg.Transport}
	// A remapped root could not enter the box's directories.
	if d.transport == TransportAuto && (!about.local || about.remapped || os.Geteuid() != 0) {
		d.transport = TransportStdio
	}
	if d.transport != TransportStdio {
		d.cgroups, d.noCgroups = openCgroups(about, cfg.OwnerID)
	}
	return d, nil
}

// askTimeout bounds the questions at start; an engine that hangs is none.
const askTimeout = 30 * time.Second

func askEngine(ctx context.Context, e engine) (aboutEngine, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	info, err := e.Info(ctx)
	if err != nil {
		return aboutEngine{}, &EngineError{e.DaemonHost(), fmt.Sprintf("the Docker engine at %s does not describe itself: %v", e.DaemonHost(), err), err}
	}
	about := aboutEngine{
		version:      info.ServerVersion,
		arch:         goArch(info.Architecture),
		runtime:      info.DefaultRuntime,
		dataRoot:     info.DockerRootDir,
		cgroupDriver: info.CgroupDriver,
		cgroupMode:   "v" + cmp.Or(info.CgroupVersion, "1"),
		local:        strings.HasPrefix(e.DaemonHost(), "unix://"),
	}
	for _, opt := range info.SecurityOptions {
		about.remapped = about.remapped || strings.Contains(opt, "name=userns") || strings.Contains(opt, "name=rootless")
	}
	for name := range info.Runtimes {
		about.runtimes = append(about.runtimes, name)
	}
	return about, nil
}

// Name is "docker".
func (d *Driver) Name() string { return "docker" }

// About is one line on the engine, for people: version, address, how it keeps
// cgroups.
func (d *Driver) About() string {
	return fmt.Sprintf("Docker %s at %s (%s, cgroup %s, %s)", d.about.version, d.engine.DaemonHost(), d.about.runtime, d.about.cgroupMode, d.about.cgroupDriver)
}

// Close releases the connections to the engine. Boxes live on.
func (d *Driver) Close() error { return d.engine.Close() }
