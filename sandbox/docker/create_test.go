package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/docker"
)

// fakeEngine keeps containers and volumes in memory and fails where it is told.
// Its containers' agents die at once.
type fakeEngine struct {
	mu         sync.Mutex
	fail       map[string]error
	image      image.InspectResponse
	blind      bool // sees other files than the service
	containers map[string]*container.HostConfig
	volumes    map[string]bool
	hardened   bool
}

func newFake() *fakeEngine {
	return &fakeEngine{
		fail:       map[string]error{},
		image:      image.InspectResponse{ID: "sha256:1", Os: "linux", Architecture: "amd64"},
		containers: map[string]*container.HostConfig{},
		volumes:    map[string]bool{},
		hardened:   true,
	}
}

func (f *fakeEngine) Info(context.Context) (system.Info, error) {
	// The systemd driver keeps the test away from the machine's cgroups.
	return system.Info{Architecture: "x86_64", CgroupDriver: "systemd", DefaultRuntime: "runc", DockerRootDir: "/big/docker"}, f.fail["info"]
}

func (f *fakeEngine) ImageInspect(context.Context, string, ...client.ImageInspectOption) (image.InspectResponse, error) {
	return f.image, f.fail["image"]
}
func (f *fakeEngine) DaemonHost() string { return "unix:///fake.sock" }
func (f *fakeEngine) Close() error       { return nil }

func (f *fakeEngine) ContainerCreate(_ context.Context, c *container.Config, h *container.HostConfig, _ *network.NetworkingConfig, _ *ocispec.Platform, name string) (container.CreateResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail["create"]; err != nil {
		return container.CreateResponse{}, err
	}
	if docker.AssertHardened(c, h, "/big/docker") != nil {
		f.hardened = false
	}
	f.containers[name] = h
	return container.CreateResponse{ID: name}, nil
}

func (f *fakeEngine) ContainerInspect(context.Context, string) (container.InspectResponse, error) {
	return container.InspectResponse{}, nil
}
func (f *fakeEngine) ContainerList(context.Context, container.ListOptions) ([]container.Summary, error) {
	return nil, f.fail["list"]
}

func (f *fakeEngine) ContainerRemove(_ context.Context, id string, _ container.RemoveOptions) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.containers, id)
	return nil
}

func (f *fakeEngine) ContainerStart(context.Context, string, container.StartOptions) error {
	return f.fail["start"]
}

func (f *fakeEngine) ContainerWait(context.Context, string, container.WaitCondition) (<-chan container.WaitResponse, <-chan error) {
	ended := make(chan container.WaitResponse, 1)
	ended <- container.WaitResponse{StatusCode: 3}
	return ended, make(chan error)
}

func (f *fakeEngine) ContainerAttach(context.Context, string, container.AttachOptions) (types.HijackedResponse, error) {
	return types.HijackedResponse{}, errors.Join(f.fail["attach"], errors.ErrUnsupported)
}

func (f *fakeEngine) CopyToContainer(_ context.Context, _, _ string, content io.Reader, _ container.CopyToContainerOptions) error {
	_, err := io.Copy(io.Discard, content)
	return errors.Join(err, f.fail["copy"])
}

// CopyFromContainer finds a file behind the container's binds.
func (f *fakeEngine) CopyFromContainer(_ context.Context, id, file string) (io.ReadCloser, container.PathStat, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.containers[id].Mounts {
		if m.Type != mount.TypeBind || m.Target != path.Dir(file) || f.blind {
			continue
		}
		b, err := os.ReadFile(filepath.Join(m.Source, path.Base(file)))
		if err != nil {
			return nil, container.PathStat{}, err
		}
		var archive bytes.Buffer
		w := tar.NewWriter(&archive)
		_ = w.WriteHeader(&tar.Header{Name: path.Base(file), Size: int64(len(b)), Mode: 0o600})
		_, _ = w.Write(b)
		_ = w.Close()
		return io.NopCloser(&archive), container.PathStat{}, nil
	}
	return nil, container.PathStat{}, errdefs.ErrNotFound
}

func (f *fakeEngine) VolumeCreate(_ context.Context, o volume.CreateOptions) (volume.Volume, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.volumes[o.Name] = o.Labels["io.sandboxd.run"] != ""
	return volume.Volume{Name: o.Name}, f.fail["volume"]
}
func (f *fakeEngine) VolumeList(context.Context, volume.ListOptions) (volume.ListResponse, error) {
	return volume.ListResponse{}, nil
}
func (f *fakeEngine) VolumeRemove(_ context.Context, name string, _ bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.volumes, name)
	return nil
}

// left lists what is there of runs.
func (f *fakeEngine) left(t *testing.T, cfg docker.Config) (all []string) {
	t.Helper()
	for name := range f.containers {
		all = append(all, "container "+name)
	}
	for name, ofRun := range f.volumes {
		if ofRun {
			all = append(all, "volume "+name)
		}
	}
	entries, err := os.ReadDir(filepath.Join(cfg.DataDir, "boxes"))
	require.NoError(t, err)
	for _, e := range entries {
		all = append(all, "directory "+e.Name())
	}
	return all
}

func TestACreateThatFailsAnywhereLeavesNothing(t *testing.T) {
	boom := errors.New("boom")
	for step, want := range map[string]sandbox.Kind{
		"image": sandbox.KindUnavailable, "create": sandbox.KindUnavailable, "start": sandbox.KindUnavailable,
		"the agent": sandbox.KindUnavailable,
	} {
		t.Run(step, func(t *testing.T) {
			cfg, fake := someConfig(t), newFake()
			d, err := docker.NewOn(t.Context(), cfg, fake)
			require.NoError(t, err)
			fake.fail[step] = boom
			began := time.Now()
			_, err = d.Create(t.Context(), sandbox.Spec{RunID: "run1"})
			require.Equal(t, want, sandbox.KindOf(err), "%v", err)
			require.Less(t, time.Since(began), 10*time.Second, "an agent that died is not waited for")
			require.Empty(t, fake.left(t, cfg))
			require.True(t, fake.hardened)
		})
	}
	for _, step := range []string{"volume", "copy", "create", "attach"} {
		t.Run("apart, "+step, func(t *testing.T) {
			cfg, fake := someConfig(t), newFake()
			cfg.Transport = docker.TransportStdio
			d, err := docker.NewOn(t.Context(), cfg, fake)
			require.NoError(t, err)
			fake.fail[step] = boom
			_, err = d.Create(t.Context(), sandbox.Spec{RunID: "run1"})
			require.Equal(t, sandbox.KindUnavailable, sandbox.KindOf(err), "%v", err)
			require.Empty(t, fake.left(t, cfg))
			require.True(t, fake.hardened)
		})
	}
}

func TestAnEngineThatSeesOtherFilesIsNotTakenForALocalOne(t *testing.T) {
	for name, fake := range map[string]*fakeEngine{"no such file": newFake(), "no such directory": newFake()} {
		t.Run(name, func(t *testing.T) {
			cfg := someConfig(t)
			if name == "no such file" {
				fake.blind = true
			} else {
				fake.fail["create"] = errors.Join(errdefs.ErrInvalidArgument, errors.New("invalid mount config: bind source path does not exist: /x"))
			}
			d, err := docker.NewOn(t.Context(), cfg, fake)
			require.NoError(t, err)
			_, err = d.Create(t.Context(), sandbox.Spec{RunID: "run1", Workspace: sandbox.Workspace{HostDir: "/srv"}})
			require.Equal(t, sandbox.KindUnsupported, sandbox.KindOf(err), "%v", err)
			require.Contains(t, err.Error(), "does not see the service's files")
			require.Empty(t, fake.left(t, cfg))
		})
	}
}

func TestImagesThatCannotRunAreRefusedInASentence(t *testing.T) {
	cfg, fake := someConfig(t), newFake()
	d, err := docker.NewOn(t.Context(), cfg, fake)
	require.NoError(t, err)
	create := func(name string) error {
		_, err := d.Create(t.Context(), sandbox.Spec{RunID: "run1", Image: name})
		return err
	}
	fake.fail["image"] = errdefs.ErrNotFound
	err = create("alpine:3")
	require.Equal(t, sandbox.KindImageMissing, sandbox.KindOf(err))
	require.Contains(t, err.Error(), "docker pull alpine:3")
	require.Contains(t, create("").Error(), "images/build.sh")
	fake.fail["image"] = nil
	fake.image.Architecture = "arm64"
	err = create("other")
	require.Equal(t, sandbox.KindUnsupported, sandbox.KindOf(err))
	require.Contains(t, err.Error(), "for arm64 and the engine's machine is amd64")
	fake.image.Os = "windows"
	require.Equal(t, sandbox.KindUnsupported, sandbox.KindOf(create("other")))
	require.Empty(t, fake.left(t, cfg))
}

func TestASecondBoxOfARunIsRefusedAndTheFirstUntouched(t *testing.T) {
	cfg, fake := someConfig(t), newFake()
	d, err := docker.NewOn(t.Context(), cfg, fake)
	require.NoError(t, err)
	first := filepath.Join(cfg.DataDir, "boxes", "run1", "workspace")
	require.NoError(t, os.MkdirAll(first, 0o755))
	_, err = d.Create(t.Context(), sandbox.Spec{RunID: "run1"})
	require.Equal(t, sandbox.KindExists, sandbox.KindOf(err))
	require.DirExists(t, first)
}
