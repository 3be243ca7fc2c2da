package oci

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/agentproto"
	"github.com/sandboxd/sandboxd/sandbox/cgroup"
	"github.com/sandboxd/sandboxd/seccomp"
)

// agentTimeout bounds the wait for the agent's first word.
const agentTimeout = 30 * time.Second

// Create makes a box, as sandbox.Driver says.
func (d *Driver) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	began := time.Now()
	spec, err := complete(spec, d.runtime.name)
	if err != nil {
		return nil, err
	}
	if err := checkSources(spec, d.cfg.DataDir); err != nil {
		return nil, err
	}
	m := &making{driver: d, spec: spec, undo: &undo{}, dirs: d.dirsOf(spec.RunID)}
	b, err := m.run(ctx)
	if err != nil {
		if left := m.undo.run(ctx); left != nil {
			err = errors.Join(err, fmt.Errorf("and what was made could not all be removed: %w", left))
		}
		return nil, err
	}
	b.facts.StartedIn = time.Since(began)
	return b, nil
}

// making is a box on its way. Its steps run in the order of run.
type making struct {
	driver  *Driver
	spec    sandbox.Spec
	undo    *undo
	dirs    boxDirs
	runtime runtime

	token    string
	plan     plan
	first    *first
	mutter   *mutter
	degraded []string
}

func (m *making) run(ctx context.Context) (*box, error) {
	for _, step := range []func(context.Context) error{m.choose, m.prepare, m.write, m.start} {
		if err := step(ctx); err != nil {
			return nil, err
		}
		// No step is broken off half way, so that it can be undone.
		if err := cancelled(ctx); err != nil {
			return nil, err
		}
	}
	session, err := m.greet(ctx)
	if err != nil {
		return nil, cmp.Or(cancelled(ctx), err)
	}
	return m.box(session), nil
}

// cancelled is the error of a caller who has gone, or nil.
func cancelled(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return &sandbox.Error{Kind: sandbox.KindCancelled, Message: "the creation of the box was cancelled", Cause: context.Cause(ctx)}
}

// choose finds the runtime that was asked for.
func (m *making) choose(ctx context.Context) error {
	m.runtime = m.driver.runtime
	if m.spec.Runtime == m.runtime.name {
		return nil
	}
	rt, err := findRuntime(ctx, m.spec.Runtime)
	if err != nil {
		message := err.Error()
		if e, ok := errors.AsType[*UnusableError](err); ok {
			message = e.Message
		}
		return &sandbox.Error{Kind: sandbox.KindUnsupported, Message: message, Cause: err}
	}
	m.runtime = rt
	return nil
}

// prepare makes what the box finds on the host: directories, token, cgroup.
func (m *making) prepare(context.Context) error {
	sys, err := m.driver.system(m.spec.Image)
	if err != nil {
		return prepareError(err)
	}
	if err := m.dirs.make(m.undo); err != nil {
		return prepareError(err)
	}
	root, err := m.driver.skeleton(sys, places(m.spec))
	if err != nil {
		return prepareError(err)
	}
	if m.token, err = m.dirs.fillRun(); err != nil {
		return prepareError(err)
	}
	tree, run := m.driver.tree, m.spec.RunID
	m.undo.push(func(ctx context.Context) error { return tree.Destroy(ctx, run) })
	if err := tree.Create(run); err != nil {
		return prepareError(err)
	}
	m.plan = plan{
		spec: m.spec, root: root, system: sys.binds, agent: m.driver.cfg.AgentPath, runDir: m.dirs.run,
		workspace: m.spec.Workspace.HostDir, cgroup: tree.Path(run), dirs: tree.Dirs(run), dialect: dialects()[m.runtime.name], noSwap: !tree.CountsSwap(run),
	}
	if m.plan.workspace == "" {
		m.plan.workspace = m.dirs.workspace
	}
	m.explain()
	return nil
}

// explain says what this box cannot be held to.
func (m *making) explain() {
	m.degraded = append(m.degraded, "the size of the workspace is not limited (limits.diskBytes): it lies on the service's disk")
	if m.plan.noSwap {
		m.degraded = append(m.degraded, "the kernel does not count swap, so the memory limit leaves it out")
	}
	if w := m.runtime.warning(); w != "" {
		m.degraded = append(m.degraded, w)
	}
}

func prepareError(err error) error {
	if _, ok := errors.AsType[*sandbox.Error](err); ok {
		return err
	}
	if errors.Is(err, fs.ErrExist) {
		return &sandbox.Error{Kind: sandbox.KindExists, Message: "this run has a box already", Cause: err}
	}
	return &sandbox.Error{Kind: sandbox.KindInternal, Message: "the box's directories could not be made", Cause: err}
}

// write writes the bundle's configuration, if it is hardened.
func (m *making) write(context.Context) error {
	config, err := m.plan.config()
	if err != nil {
		return err
	}
	if err := AssertHardened(config, m.driver.stateDir()); err != nil {
		return &sandbox.Error{Kind: sandbox.KindInvalid, Message: "the box would not be confined: " + reason(err), Cause: err}
	}
	raw, err := json.Marshal(config)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(m.dirs.bundle, "config.json"), raw, 0o600)
}

// start lets the runtime make and start the container.
func (m *making) start(ctx context.Context) error {
	state, run := m.driver.stateOf(m.runtime.name), m.spec.RunID
	if err := os.MkdirAll(state, 0o700); err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	m.mutter = listen(r)
	pidFile := filepath.Join(m.dirs.bundle, "pid")
	m.undo.push(func(ctx context.Context) error { return m.runtime.remove(ctx, state, run) })
	err = m.runtime.call(context.WithoutCancel(ctx), state, w, "run", "--detach", "--bundle", m.dirs.bundle, "--pid-file", pidFile, run)
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return failure(err, m.runtime.name+" did not start the box")
	}
	if m.first, err = holdFirst(pidFile, m.plan.cgroup); err != nil {
		return m.agentError(err)
	}
	m.undo.push(m.first.kill)
	return nil
}

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
		UID:       commandUser,
		GID:       commandUser,
		Home:      homeTarget,
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
	go b.watch(m.first)
	return b
}
