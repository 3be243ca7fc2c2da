package oci

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/agentproto"
	"github.com/sandboxd/sandboxd/sandbox/cgroup"
	"github.com/sandboxd/sandboxd/seccomp"
)

// agentTimeout bounds the wait for the agent's first word.
const agentTimeout = 30 * time.Second

// greet opens the session. An agent that dies meanwhile ends the wait at once.
func (m *making) greet(ctx context.Context) (*agentproto.Session, error) {
	cfg, err := m.agentConfig()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, agentTimeout)
	defer cancel()
	ctx, die := context.WithCancelCause(ctx)
	defer die(nil)
	greeted := make(chan struct{})
	defer close(greeted)
	go func() {
		select {
		case <-m.first.dead:
			die(errors.New("the agent ended"))
		case <-greeted:
		}
	}()
	conn, err := dialAgent(ctx, m.dirs.run)
	if err != nil {
		return nil, m.agentError(err)
	}
	session, err := agentproto.Open(ctx, conn, cfg)
	if err != nil {
		return nil, m.agentError(err)
	}
	m.undo.push(func(context.Context) error { return session.Close() })
	return session, nil
}

// dialAgent waits for the agent's socket in dir. The path of a socket has at
// most 107 bytes, which a data directory may take up alone, so it is reached
// through a handle.
func dialAgent(ctx context.Context, dir string) (net.Conn, error) {
	handle, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = handle.Close() }()
	return agentproto.WaitSocket(ctx, fmt.Sprintf("/proc/self/fd/%d/%s", handle.Fd(), agentproto.SocketName))
}

// agentError explains why the agent does not serve: in its own words where it
// answered, else by what it wrote before it ended.
func (m *making) agentError(err error) error {
	if said := m.mutter.String(); said != "" {
		err = fmt.Errorf("%w; the agent said: %s", err, said)
	}
	if missing := m.plan.dialect.missing; missing != "" {
		return &sandbox.Error{Kind: sandbox.KindUnsupported, Message: missing, Cause: err}
	}
	if e, ok := errors.AsType[*sandbox.Error](err); ok && e.Kind != sandbox.KindUnavailable {
		return &sandbox.Error{Kind: e.Kind, Message: "the box's agent does not serve: " + e.Message, Cause: err}
	}
	return unavailable("the box started, but its agent did not answer; see the service's log for its last words", err)
}

func (m *making) agentConfig() (agentproto.Config, error) {
	filter, err := seccomp.CommandFilter(m.spec.Seccomp)
	if err != nil {
		return agentproto.Config{}, err
	}
	l := m.spec.Limits
	cfg := agentproto.Config{
		Token:     m.token,
		Workspace: m.spec.Workspace.Path,
		ReadOnly:  m.spec.Workspace.ReadOnly,
		UID:       sandbox.CommandUser,
		GID:       sandbox.CommandUser,
		Home:      sandbox.HomePath,
		Env:       slices.Clone(m.spec.Env),
		FileBytes: l.FileBytes,
		OpenFiles: l.OpenFiles,
		Commands:  l.Commands,
		BoxPids:   l.Pids,
		OOMFile:   "/sys/fs/cgroup/memory/memory.oom_control",
		Filter:    filter,
	}
	if m.driver.tree.Mode() == cgroup.V2 {
		cfg.OOMFile = "/sys/fs/cgroup/memory.events"
	}
	if m.plan.fills() {
		cfg.FillDir = agentproto.FillMount
	}
	if m.plan.dirs.Unified != "" {
		cfg.Cgroup2Dir = agentproto.Cgroup2Mount + "/" + containerName
	}
	if m.plan.dirs.Pids != "" {
		cfg.PidsCgroupDir = agentproto.PidsMount + "/" + containerName
	}
	return cfg, nil
}

func (m *making) box(session *agentproto.Session) *box {
	w := session.Facts()
	b := &box{
		session: session,
		log:     m.driver.log.With("run", m.spec.RunID),
		undo:    m.undo,
		done:    make(chan struct{}),
		removed: make(chan struct{}),
		facts: sandbox.Facts{
			Driver:        m.driver.Name(),
			Runtime:       m.runtime.name,
			Image:         m.spec.Image,
			WorkspacePath: m.spec.Workspace.Path,
			UserID:        w.UID,
			CgroupMode:    w.CgroupMode,
			KillStep:      w.KillStep,
			Degraded:      slices.Concat(m.degraded, w.Degraded),
		},
	}
	go b.watch(m.first, m.mutter)
	return b
}
