package docker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/agentproto"
	"github.com/sandboxd/sandboxd/seccomp"
)

// agentTimeout bounds the wait for an agent's first word.
const agentTimeout = 30 * time.Second

// start starts the container and returns the session with its agent.
func (m *making) start(ctx context.Context) (*agentproto.Session, error) {
	d := m.driver
	seen, stop := d.watchDeath(ctx, m.id)
	m.death = seen
	m.undo.push(func(context.Context) error { stop(); return nil })

	actx, cancel := context.WithTimeout(ctx, agentTimeout)
	defer cancel()
	connect, err := m.connector(actx)
	if err != nil {
		return nil, err
	}
	sctx, cancelStart := context.WithTimeout(context.WithoutCancel(ctx), engineTimeout)
	defer cancelStart()
	if err := d.engine.ContainerStart(sctx, m.id, container.StartOptions{}); err != nil {
		return nil, unavailable("the Docker engine did not start the box", err)
	}
	return m.greet(actx, connect)
}

// greet opens the session. An agent that dies meanwhile ends the wait at once.
func (m *making) greet(ctx context.Context, connect connector) (*agentproto.Session, error) {
	cfg, err := m.agentConfig()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	greeted := make(chan struct{})
	defer close(greeted)
	go func() {
		select {
		case <-m.death.ch:
			cancel(m.death.cause)
		case <-greeted:
		}
	}()
	conn, err := connect(ctx)
	if err != nil {
		return nil, m.agentError(ctx, err)
	}
	session, err := agentproto.Open(ctx, conn, cfg)
	if err != nil {
		return nil, m.agentError(ctx, err)
	}
	m.undo.push(func(context.Context) error { return ended(session.Close()) })
	return session, nil
}

func (m *making) agentError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = errors.Join(cause, err)
	}
	return unavailable("the box started, but its agent did not answer; look at the engine's runtime and at the agent's architecture", err)
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
		Env:       slices.Concat(m.image.env, m.spec.Env),
		FileBytes: l.FileBytes,
		OpenFiles: l.OpenFiles,
		Commands:  l.Commands,
		BoxPids:   l.Pids,
		Filter:    filter,
	}
	if m.plan.fill.Target != "" {
		cfg.FillDir = agentproto.FillMount
	}
	if m.plan.cgroups[agentproto.Cgroup2Mount] != "" {
		cfg.Cgroup2Dir = agentproto.Cgroup2Mount + "/" + m.id
	}
	if m.plan.cgroups[agentproto.PidsMount] != "" {
		cfg.PidsCgroupDir = agentproto.PidsMount + "/" + m.id
	}
	return cfg, nil
}
