package oci

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sandboxd/sandboxd/sandbox"
)

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
	places := places(m.spec)
	sys, err := m.driver.system(m.spec.Image, places)
	if err != nil {
		return prepareError(err)
	}
	if err := m.dirs.make(m.undo); err != nil {
		return prepareError(err)
	}
	root, err := m.driver.skeleton(sys, places)
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
	m.undo.push(m.end)
	return nil
}

// end kills the box. Its cgroups go before the runtime removes its record: they
// end what is frozen too, and the runtime alone waits in steps of 100 ms.
func (m *making) end(ctx context.Context) error {
	select {
	case <-m.first.dead:
	default:
		if err := m.first.kill(); err != nil {
			return err
		}
	}
	if err := m.driver.tree.Destroy(ctx, m.spec.RunID); err != nil {
		return err
	}
	return m.first.release(ctx)
}
