package agent

import (
	"errors"
	"fmt"
	"os"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/agent/workspace"
	"github.com/sandboxd/sandboxd/sandbox/agentproto"
	"golang.org/x/sys/unix"
)

// box is the configured agent: what the first hello said, made real.
type box struct {
	cfg     agentproto.Config
	welcome agentproto.Welcome
	user    *user // nil where commands keep the agent's
	outside bool  // there is no container
	root    *workspace.Root
	fill    *workspace.Root // where Fill writes: root, or the writable way to it
	files   *workers
	slots   *slots
	home    int // handle of the workspace, for commands to start in
	null    *os.File
	oom     counter
	env     []string
	limits  []limit
}

type limit struct {
	resource int
	value    int64
}

const (
	defaultCommands = 4
	fileThreads     = 3
	// agentPids is what the agent keeps of the box's pids for its own
	// threads: the runtime's, the file threads and one that waits in a kill;
	// the slots' threads come on top.
	agentPids = 24
)

func newBox(cfg agentproto.Config, opts Options) (*box, error) {
	if cfg.Commands <= 0 {
		cfg.Commands = defaultCommands
	}
	b := &box{cfg: cfg, home: -1, outside: opts.KeepUser}
	if os.Geteuid() == 0 && !opts.KeepUser {
		b.user = &user{uid: cfg.UID, gid: cfg.GID}
	}
	if err := b.open(); err != nil {
		_ = b.close()
		return nil, err
	}
	b.welcome.PID, b.welcome.Version, b.welcome.UID = os.Getpid(), opts.Version, os.Geteuid()
	if b.user != nil {
		b.welcome.UID = b.user.uid
	}
	return b, nil
}

// open makes everything that commands and file work need.
func (b *box) open() error {
	if b.user != nil && b.user.uid == 0 {
		return &sandbox.Error{Kind: sandbox.KindInvalid, Message: "Commands cannot run as root: the hello names user 0."}
	}
	var err error
	if b.files, err = newWorkers(fileThreads, b.user); err != nil {
		return configError("The agent cannot take the user's rights.", err)
	}
	b.files.do(func() {
		if b.root, err = workspace.Open(b.cfg.Workspace, b.cfg.ReadOnly); err == nil {
			b.home, err = b.root.Dir("")
		}
	})
	if err != nil {
		return configError("The agent cannot open the workspace.", err)
	}
	// The way to it leads through a directory that only root enters.
	if b.fill = b.root; b.cfg.FillDir != "" {
		if b.fill, err = workspace.Open(b.cfg.FillDir, false); err != nil {
			return configError("The agent cannot open the workspace to fill it.", err)
		}
	}
	if b.null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
		return configError("The box has no /dev/null.", err)
	}
	b.env = baseEnv(b.cfg)
	b.limits = commandLimits(b.cfg)
	b.oom = openOOM(b.cfg.OOMFile)
	if b.oom.file == nil {
		b.degrade("The box's memory counter cannot be read: a command killed for memory is not told apart.")
	}
	if b.slots, err = newSlots(b); err != nil {
		return configError("The agent cannot make its command slots.", err)
	}
	return nil
}

func (b *box) degrade(sentence string) {
	b.welcome.Degraded = append(b.welcome.Degraded, sentence)
}

func configError(message string, err error) error {
	return &sandbox.Error{Kind: sandbox.KindUnavailable, Message: fmt.Sprintf("%s (%v)", message, err), Cause: err}
}

// close ends the threads and gives the handles back. No command may run.
func (b *box) close() error {
	var errs []error
	if b.slots != nil {
		errs = append(errs, b.slots.close())
	}
	if b.files != nil {
		b.files.close()
	}
	if b.home >= 0 {
		errs = append(errs, unix.Close(b.home))
	}
	if b.fill != nil && b.fill != b.root {
		errs = append(errs, b.fill.Close())
	}
	if b.root != nil {
		errs = append(errs, b.root.Close())
	}
	for _, f := range []*os.File{b.null, b.oom.file} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}
