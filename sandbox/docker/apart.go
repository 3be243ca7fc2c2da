package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/volume"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/agentproto"
)

// prepareApart makes what a box finds on an engine that shares no files with
// the service: a volume with the agent, filled once, and a volume to work in.
func (m *making) prepareApart(ctx context.Context) error {
	if m.spec.Workspace.HostDir != "" || len(m.spec.Mounts) > 0 {
		return &sandbox.Error{Kind: sandbox.KindUnsupported, Message: "the Docker engine does not see the service's files, so no directory can be mounted; upload the files into the workspace instead, or run the service beside the engine, as root"}
	}
	agent, err := m.driver.agentVolumeName(ctx, m.spec)
	if err != nil {
		return err
	}
	workspace := containerName(m.plan.owner, m.spec.RunID)
	if err := m.driver.makeVolume(ctx, workspace, m.plan.owner, m.spec.RunID); err != nil {
		return err
	}
	m.undo.push(func(ctx context.Context) error { return m.driver.removeVolume(ctx, workspace) })
	m.token = rand.Text()
	m.plan.agent = volumeMount(agent, agentproto.Dir, true)
	m.plan.workspace = volumeMount(workspace, m.spec.Workspace.Path, m.spec.Workspace.ReadOnly)
	if m.spec.Workspace.ReadOnly {
		m.plan.fill = volumeMount(workspace, agentproto.FillMount, false)
		if err := m.driver.fillVolume(ctx, workspace, m.spec, ownDirectory()); err != nil {
			return err
		}
	}
	m.degraded = append(m.degraded,
		"the size of the workspace is not limited (limits.diskBytes): it is a volume of the engine's",
		"the engine is apart from the service, so a box has no cgroups for its commands: they are killed by walking their process tree")
	return nil
}

func volumeMount(name, target string, readOnly bool) mount.Mount {
	return mount.Mount{
		Type: mount.TypeVolume, Source: name, Target: target, ReadOnly: readOnly,
		// Without NoCopy the image's files at that place are copied in.
		VolumeOptions: &mount.VolumeOptions{NoCopy: true},
	}
}

func (d *Driver) makeVolume(ctx context.Context, name, owner, run string) error {
	labels := map[string]string{labelOwner: owner}
	if run != "" {
		labels[labelRun] = run
	}
	if _, err := d.engine.VolumeCreate(ctx, volume.CreateOptions{Name: name, Driver: "local", Labels: labels}); err != nil {
		return unavailable("the Docker engine did not make a volume", err)
	}
	return nil
}

// fillRun is the run that containers are labelled with that only fill a volume
// and are never started. It cannot be a run's id, which has no dot.
const fillRun = "agent.fill"

// agentVolumeName makes sure, once a driver, that the engine has a volume with
// the agent, and returns its name. The name tells the agent's content, so
// services of different builds share an engine, and their boxes live on when a
// service is upgraded.
func (d *Driver) agentVolumeName(ctx context.Context, spec sandbox.Spec) (string, error) {
	d.agentVolume.Lock()
	defer d.agentVolume.Unlock()
	if d.agentVolumeMade != "" {
		return d.agentVolumeMade, nil
	}
	agent, err := os.ReadFile(d.cfg.AgentPath)
	if err != nil {
		return "", unavailable("the agent's program cannot be read", err)
	}
	name := fmt.Sprintf("sandboxd-%s-agent-%.12x", d.cfg.OwnerID, sha256.Sum256(agent))
	if err := d.makeVolume(ctx, name, d.cfg.OwnerID, ""); err != nil {
		return "", err
	}
	content := []tarEntry{{name: volumeRoot, mode: 0o700}, {name: path.Base(agentproto.FillMount) + "/", mode: 0o700}, {name: path.Base(agentproto.AgentPath), mode: 0o755, content: agent}}
	if err := d.fillVolume(ctx, name, spec, content); err != nil {
		return "", err
	}
	d.agentVolumeMade = name
	return name, nil
}

// fillVolume puts files into a volume through a container that is never
// started.
func (d *Driver) fillVolume(ctx context.Context, name string, spec sandbox.Spec, entries []tarEntry) error {
	spec.RunID = fillRun
	spec.Workspace = sandbox.Workspace{Path: sandbox.DefaultWorkspacePath}
	undo := &undo{}
	p := plan{owner: d.cfg.OwnerID, spec: spec, workspace: volumeMount(name, spec.Workspace.Path, false)}
	id, err := d.createContainer(ctx, p, containerName(d.cfg.OwnerID, fillRun+"-"+rand.Text()[:8]), undo)
	if err == nil {
		err = d.putFiles(ctx, id, spec.Workspace.Path, entries)
	}
	if uerr := undo.run(ctx); err == nil && uerr != nil {
		return unavailable("the Docker engine did not remove a container that filled a volume", uerr)
	}
	return err
}

// volumeRoot is the name of an entry that gives the volume itself an owner and a
// mode. Engines skip the entry "." and take this one, which means the same.
const volumeRoot = "/"

// A tarEntry is a file, or a directory if its name ends with a slash.
type tarEntry struct {
	name    string
	mode    int64
	uid     int
	content []byte
}

// ownDirectory gives a volume to the commands' user; a new one is root's.
func ownDirectory() []tarEntry {
	return []tarEntry{{name: volumeRoot, mode: 0o755, uid: sandbox.CommandUser}}
}

func (d *Driver) putFiles(ctx context.Context, id, dir string, entries []tarEntry) error {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: e.mode, Uid: e.uid, Gid: e.uid, Size: int64(len(e.content)), Typeflag: tar.TypeReg}
		if strings.HasSuffix(e.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := w.Write(e.content); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	// CopyUIDGID would look the container's user up in the image's passwd file;
	// without it the archive's own numbers are kept.
	if err := d.engine.CopyToContainer(ctx, id, dir, &archive, container.CopyToContainerOptions{}); err != nil {
		return unavailable("the Docker engine did not take files for a box", err)
	}
	return nil
}

// attach connects to the container's streams before it is started, so that not
// a byte is lost.
func (m *making) attach(ctx context.Context) (connector, error) {
	if !m.spec.Workspace.ReadOnly {
		if err := m.driver.putFiles(ctx, m.id, m.spec.Workspace.Path, ownDirectory()); err != nil {
			return nil, err
		}
	}
	h, err := m.driver.engine.ContainerAttach(ctx, m.id, container.AttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		return nil, unavailable("the Docker engine did not attach to the box", err)
	}
	conn := &attached{Conn: h.Conn, in: h.Reader}
	m.undo.push(func(context.Context) error { return ended(conn.Close()) })
	return func(context.Context) (net.Conn, error) { return conn, nil }, nil
}

// attached is the agent's standard input and output as one connection. The
// engine sends output in frames of a stream's number, three zeros, and four
// bytes of length, big endian ("Attach to a container" in the engine's API).
type attached struct {
	net.Conn
	in   io.Reader
	left uint32
	// complaint is the beginning of what the agent wrote to standard error.
	complaint strings.Builder
}

const maxComplaint = 4 << 10

// Read reads the agent's output. Standard error is set aside: an agent that
// cannot start says why there.
func (a *attached) Read(p []byte) (int, error) {
	for a.left == 0 {
		if err := a.nextFrame(); err != nil {
			return 0, err
		}
	}
	n, err := a.in.Read(p[:min(len(p), int(a.left))])
	a.left -= uint32(n)
	return n, err
}

// nextFrame reads headers up to one of standard output.
func (a *attached) nextFrame() error {
	var h [8]byte
	if _, err := io.ReadFull(a.in, h[:]); err != nil {
		return a.explained(err)
	}
	size := uint32(h[4])<<24 | uint32(h[5])<<16 | uint32(h[6])<<8 | uint32(h[7])
	switch h[0] {
	case 1:
		a.left = size
		return nil
	case 2:
		_, err := io.CopyN(complaintWriter{a}, a.in, int64(size))
		return err
	}
	return fmt.Errorf("docker: the engine sent a frame of stream %d", h[0])
}

// explained adds what the agent complained about to the end of its stream.
func (a *attached) explained(err error) error {
	if a.complaint.Len() == 0 {
		return err
	}
	return fmt.Errorf("%w; the agent said %q", err, a.complaint.String())
}

type complaintWriter struct{ a *attached }

func (w complaintWriter) Write(p []byte) (int, error) {
	room := maxComplaint - w.a.complaint.Len()
	w.a.complaint.Write(p[:min(len(p), room)])
	return len(p), nil
}
