package docker

import (
	"context"
	"io"

	"github.com/docker/docker/api/types/container"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/agentproto"
)

// RequestFor builds the create request of a spec as Create does, with every
// optional part of it present.
func RequestFor(spec sandbox.Spec) (*container.Config, *container.HostConfig, error) {
	spec, err := complete(spec, "")
	if err != nil {
		return nil, nil, err
	}
	parent := cgroupParent("owner", spec.RunID)
	return plan{
		owner:        "owner",
		spec:         spec,
		imageVolumes: []string{"/data"},
		agent:        bind("/opt/sandboxd/agent", agentproto.AgentPath, true),
		workspace:    bind("/srv/boxes/"+spec.RunID+"/workspace", spec.Workspace.Path, spec.Workspace.ReadOnly),
		runDir:       "/srv/boxes/" + spec.RunID + "/agent",
		cgroupParent: parent,
		cgroups:      map[string]string{agentproto.Cgroup2Mount: "/sys/fs/cgroup/unified" + parent, agentproto.PidsMount: "/sys/fs/cgroup/pids" + parent},
	}.request()
}

// NewAttached reads an engine's stream of frames.
func NewAttached(r io.Reader) io.Reader { return &attached{in: r} }

// NewOn is New on an engine of the test's.
func NewOn(ctx context.Context, cfg Config, e engine) (*Driver, error) { return newDriver(ctx, cfg, e) }
