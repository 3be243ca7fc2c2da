package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/api/types/versions"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// minAPI is the oldest engine API that has all that a box needs (20.10).
const minAPI = "1.41"

// engine is what the driver needs of a Docker engine, in the client's own words.
// It is the seam where tests without an engine put a fake.
type engine interface {
	containers
	lifecycle
	archives
	volumes
	about
}

type containers interface {
	ContainerCreate(ctx context.Context, config *container.Config, host *container.HostConfig, net *network.NetworkingConfig, platform *ocispec.Platform, name string) (container.CreateResponse, error)
	ContainerInspect(ctx context.Context, id string) (container.InspectResponse, error)
	ContainerList(ctx context.Context, opts container.ListOptions) ([]container.Summary, error)
	ContainerRemove(ctx context.Context, id string, opts container.RemoveOptions) error
}

type lifecycle interface {
	ContainerStart(ctx context.Context, id string, opts container.StartOptions) error
	ContainerWait(ctx context.Context, id string, condition container.WaitCondition) (<-chan container.WaitResponse, <-chan error)
	ContainerAttach(ctx context.Context, id string, opts container.AttachOptions) (types.HijackedResponse, error)
}

type archives interface {
	CopyToContainer(ctx context.Context, id, dir string, content io.Reader, opts container.CopyToContainerOptions) error
	CopyFromContainer(ctx context.Context, id, path string) (io.ReadCloser, container.PathStat, error)
}

type volumes interface {
	VolumeCreate(ctx context.Context, opts volume.CreateOptions) (volume.Volume, error)
	VolumeList(ctx context.Context, opts volume.ListOptions) (volume.ListResponse, error)
	VolumeRemove(ctx context.Context, name string, force bool) error
}

type about interface {
	Info(ctx context.Context) (system.Info, error)
	ImageInspect(ctx context.Context, ref string, opts ...client.ImageInspectOption) (image.InspectResponse, error)
	DaemonHost() string
	Close() error
}

// An EngineError says that no engine serves, or not one that can. Error is a
// sentence that tells what to do; the cause is for the log.
type EngineError struct {
	Host    string
	Message string
	Cause   error
}

func (e *EngineError) Error() string { return e.Message }

// Unwrap returns the client's error.
func (e *EngineError) Unwrap() error { return e.Cause }

// connect reaches the engine at host ("" is DOCKER_HOST or the default socket)
// and checks that it is new enough.
func connect(ctx context.Context, host string) (*client.Client, error) {
	opts := []client.Opt{client.FromEnv, client.WithAPIVersionNegotiation()}
	if host != "" {
		opts = append(opts, client.WithHost(host))
	}
	c, err := client.NewClientWithOpts(opts...)
	if err != nil {
		return nil, &EngineError{host, fmt.Sprintf("the Docker engine's address cannot be used: %v; check DOCKER_HOST and the DOCKER_TLS settings", err), err}
	}
	if err := greetEngine(ctx, c); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// greetEngine settles the API version to speak.
func greetEngine(ctx context.Context, c *client.Client) error {
	host := c.DaemonHost()
	ping, err := c.Ping(ctx)
	switch {
	case err != nil:
		return &EngineError{host, absentMessage(host, err), err}
	case versions.LessThan(ping.APIVersion, minAPI):
		return &EngineError{host, fmt.Sprintf(
			"the Docker engine at %s speaks API %s, and boxes need %s (Docker 20.10) or newer; upgrade it, name another one in DOCKER_HOST, or use --driver oci",
			host, ping.APIVersion, minAPI), nil}
	case ping.OSType != "" && ping.OSType != "linux":
		return &EngineError{host, fmt.Sprintf("the Docker engine at %s runs %s containers, and boxes are Linux; switch it to Linux containers", host, ping.OSType), nil}
	}
	c.NegotiateAPIVersionPing(ping)
	return nil
}

// absentMessage tells the two usual cases apart: nothing listens, or this user
// may not connect.
func absentMessage(host string, err error) string {
	if strings.Contains(err.Error(), "permission denied") {
		return fmt.Sprintf("this user may not reach the Docker engine at %s; run as root, or join the group that owns the socket", host)
	}
	return fmt.Sprintf("no Docker engine answers at %s; start one (systemctl start docker, or scripts/engine.sh start in a checkout), name one in DOCKER_HOST, or use --driver oci", host)
}
