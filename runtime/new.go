package runtime

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/runtime/artifact"
	"github.com/sandboxd/sandboxd/sandbox"
)

// Kernel is the tool kernel of one service. It is safe for concurrent use.
type Kernel struct {
	driver    sandbox.Driver
	journal   Journal
	reader    Reader
	artifacts *artifact.Store
	tools     *registry
	spaces    Workspaces
	limits    RunPolicy
	hostPaths []string
	log       *slog.Logger
	now       func() time.Time

	ctx    context.Context
	cancel context.CancelCauseFunc
	tasks  sync.WaitGroup // making and ending of runs

	mu      sync.Mutex
	runs    map[string]*liveRun
	closing bool // no further run is admitted
}

// Config is what a kernel is built from; all but Logger and Now are required.
type Config struct {
	Driver    sandbox.Driver
	Ledger    Ledger
	Artifacts *artifact.Store
	Tools     []*Tool
	// Workspaces fills workspaces and makes diffs.
	Workspaces Workspaces
	// Policy is what the operator allows runs to ask for.
	Policy RunPolicy
	// HostPaths are directories of the service whose names nobody else is to
	// see; they are redacted.
	HostPaths []string
	Logger    *slog.Logger
	Now       func() time.Time
}

// Ledger is a journal that can also be read.
type Ledger interface {
	Journal
	Reader
}

// RunPolicy is what the operator allows runs to ask for.
type RunPolicy struct {
	// HostRoots are the resolved directories below which sources and mounts may
	// point; empty allows none.
	HostRoots []string
	// Images that runs may name; empty allows any that the driver knows.
	Images []string
	// MaxRuns bounds the runs that are not ended.
	MaxRuns int
	// Most caps each limit of a run; zero fields are uncapped.
	Most sandbox.Limits
	// MaxWall caps a run's lifetime and is its default.
	MaxWall time.Duration
}

// New builds a kernel. It starts nothing; see Recover.
func New(cfg Config) (*Kernel, error) {
	tools, err := newRegistry(cfg.Tools)
	if err != nil {
		return nil, err
	}
	k := &Kernel{
		driver: cfg.Driver, journal: cfg.Ledger, reader: cfg.Ledger, artifacts: cfg.Artifacts,
		tools: tools, spaces: cfg.Workspaces, limits: cfg.Policy, hostPaths: cfg.HostPaths, log: cfg.Logger, now: cfg.Now,
		runs: map[string]*liveRun{},
	}
	if k.log == nil {
		k.log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if k.now == nil {
		k.now = func() time.Time { return time.Now().UTC() }
	}
	k.ctx, k.cancel = context.WithCancelCause(context.Background())
	return k, nil
}

// Close drains: new calls are refused, those under way cancelled with reason
// shutdown and recorded, and the boxes removed. ctx bounds the waiting.
func (k *Kernel) Close(ctx context.Context) error {
	k.mu.Lock()
	k.closing = true
	runs := make([]*liveRun, 0, len(k.runs))
	for _, r := range k.runs {
		runs = append(runs, r)
	}
	k.mu.Unlock()
	var wg sync.WaitGroup
	for _, r := range runs {
		wg.Go(func() { k.shutRun(ctx, r) })
	}
	wg.Wait()
	k.cancel(&CancelCause{Reason: ReasonShutdown, Grace: -1})
	done := make(chan struct{})
	go func() { k.tasks.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
