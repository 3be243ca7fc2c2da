package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/containerd/errdefs"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/agentproto"
)

// engineTimeout bounds one request that makes or starts a container.
const engineTimeout = 60 * time.Second

// errNotShared says that the engine sees another file system than the service.
var errNotShared = errors.New("the engine does not see the service's files")

// Create makes a box, as sandbox.Driver says.
func (d *Driver) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	began := time.Now()
	spec, err := complete(spec, d.cfg.Runtime)
	if err != nil {
		return nil, err
	}
	if spec.Runtime != "" && !slices.Contains(d.about.runtimes, spec.Runtime) {
		return nil, &sandbox.Error{Kind: sandbox.KindUnsupported, Message: fmt.Sprintf(
			"the Docker engine has no runtime %q, it has %q; add it to the engine's daemon.json", spec.Runtime, d.about.runtimes)}
	}
	image, err := d.inspectImage(ctx, spec.Image)
	if err != nil {
		return nil, err
	}
	transport := d.knownTransport()
	b, err := d.build(ctx, spec, image, transport)
	if errors.Is(err, errNotShared) && transport == TransportAuto {
		d.settleTransport(TransportStdio)
		b, err = d.build(ctx, spec, image, TransportStdio)
	}
	if err != nil {
		return nil, err
	}
	b.facts.StartedIn = time.Since(began)
	return b, nil
}

func (d *Driver) knownTransport() Transport {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.transport
}

func (d *Driver) settleTransport(t Transport) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.transport == TransportAuto {
		d.transport = t
		d.log.Info("found how to reach agents", "engine", d.engine.DaemonHost(), "transport", t)
	}
}

// build makes a box with one transport, or nothing.
func (d *Driver) build(ctx context.Context, spec sandbox.Spec, image imageFacts, transport Transport) (*box, error) {
	m := &making{driver: d, spec: spec, image: image, transport: transport, undo: &undo{}}
	b, err := m.run(ctx)
	if err == nil {
		return b, nil
	}
	if uerr := m.undo.run(ctx); uerr != nil {
		err = errors.Join(err, fmt.Errorf("and what was made could not all be removed: %w", uerr))
	}
	return nil, err
}

// making is a box on its way. Its steps run in the order of run.
type making struct {
	driver    *Driver
	spec      sandbox.Spec
	image     imageFacts
	transport Transport
	undo      *undo

	plan     plan
	dirs     boxDirs
	token    string
	id       string
	death    *death
	degraded []string
}

func (m *making) run(ctx context.Context) (*box, error) {
	m.plan = plan{owner: m.driver.cfg.OwnerID, spec: m.spec, imageVolumes: m.image.volumes}
	prepare := m.prepareShared
	if m.transport == TransportStdio {
		prepare = m.prepareApart
	}
	if err := prepare(ctx); err != nil {
		return nil, err
	}
	if err := m.container(ctx); err != nil {
		return nil, err
	}
	session, err := m.start(ctx)
	if err != nil {
		return nil, err
	}
	return m.box(session), nil
}

// prepareShared makes what the box finds on the host that it shares with the
// service: directories, the session's token, its cgroup.
func (m *making) prepareShared(context.Context) error {
	if err := sourcesExist(m.spec); err != nil {
		return err
	}
	m.dirs = m.driver.dirsOf(m.spec.RunID)
	if err := m.dirs.make(m.undo); err != nil {
		return prepareError(err)
	}
	token, err := m.dirs.writeToken()
	if err != nil {
		return prepareError(err)
	}
	m.token = token
	if err := m.cgroup(); err != nil {
		return prepareError(err)
	}
	source := m.spec.Workspace.HostDir
	if source == "" {
		source = m.dirs.workspace
		if m.spec.Workspace.ReadOnly {
			m.plan.fill = bind(source, agentproto.FillMount, false)
		}
	}
	m.plan.agent = bind(m.driver.agent, agentproto.AgentPath, true)
	m.plan.runDir = m.dirs.agent
	m.plan.workspace = bind(source, m.spec.Workspace.Path, m.spec.Workspace.ReadOnly)
	m.degraded = append(m.degraded, "the size of the workspace is not limited (limits.diskBytes): it lies on the service's disk")
	return nil
}

// sourcesExist refuses a directory that is not there before the engine does,
// whose refusal would mean that it sees other files.
func sourcesExist(spec sandbox.Spec) error {
	var sources []string
	if spec.Workspace.HostDir != "" {
		sources = append(sources, spec.Workspace.HostDir)
	}
	for _, m := range spec.Mounts {
		sources = append(sources, m.Source)
	}
	for _, dir := range sources {
		if _, err := os.Stat(dir); err != nil {
			return &sandbox.Error{Kind: sandbox.KindInvalid, Message: "a directory to mount does not exist on the service's machine", Cause: err}
		}
	}
	return nil
}

func prepareError(err error) error {
	if errors.Is(err, errExists) {
		return &sandbox.Error{Kind: sandbox.KindExists, Message: "this run has a box already", Cause: err}
	}
	return &sandbox.Error{Kind: sandbox.KindInternal, Message: "the box's directories could not be made", Cause: err}
}

// container creates the container. The request is not tied to the caller's
// context: an engine that is left alone may still make the container, and
// nobody would know of it.
func (m *making) container(ctx context.Context) error {
	id, err := m.driver.createContainer(ctx, m.plan, containerName(m.plan.owner, m.spec.RunID), m.undo)
	if err != nil {
		return err
	}
	m.id = id
	if m.transport == TransportAuto {
		if err := m.driver.proveShared(ctx, id, m.token); err != nil {
			return err
		}
		m.driver.settleTransport(TransportSocket)
	}
	return context.Cause(ctx)
}

// createContainer sends a create request that is hardened, and only such.
func (d *Driver) createContainer(ctx context.Context, p plan, name string, u *undo) (string, error) {
	config, host, err := p.request()
	if err != nil {
		return "", err
	}
	if err := AssertHardened(config, host, d.about.dataRoot); err != nil {
		return "", &sandbox.Error{Kind: sandbox.KindInvalid, Message: err.Error(), Cause: err}
	}
	cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), engineTimeout)
	defer cancel()
	made, err := d.engine.ContainerCreate(cctx, config, host, nil, nil, name)
	switch {
	case err == nil:
		u.push(func(ctx context.Context) error { return d.removeContainer(ctx, made.ID) })
		return made.ID, nil
	case errdefs.IsConflict(err):
		return "", &sandbox.Error{Kind: sandbox.KindExists, Message: "this run has a box already", Cause: err}
	case errdefs.IsInvalidArgument(err) && isMissingSource(err):
		return "", errors.Join(errNotShared, unavailable("the Docker engine does not see the service's files", err))
	}
	return "", unavailable("the Docker engine did not create the box", err)
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
			Runtime:       m.driver.runtimeName(m.spec.Runtime),
			Image:         m.spec.Image,
			ImageDigest:   m.image.digest,
			WorkspacePath: m.spec.Workspace.Path,
			UserID:        w.UID,
			CgroupMode:    w.CgroupMode,
			KillStep:      w.KillStep,
			Degraded:      slices.Concat(m.degraded, w.Degraded),
		},
	}
	go b.watch(m.death)
	return b
}

func (d *Driver) runtimeName(asked string) string {
	if asked != "" {
		return asked
	}
	return d.about.runtime
}
