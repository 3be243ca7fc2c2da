package docker_test

import (
	"context"
	"crypto/rand"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/docker"
	"github.com/sandboxd/sandboxd/sandbox/sandboxtest"
)

// bench is what tests with a real engine share: one owner, one data directory,
// the agent, and a client to look from outside.
type bench struct {
	cfg docker.Config
	api *client.Client
}

// newBench finds the engine. Where there is none the test is skipped loudly, or
// fails where tests are to be complete (CI, SANDBOXD_TEST_REQUIRE=1).
func newBench(t *testing.T, transport docker.Transport) *bench {
	t.Helper()
	cfg := docker.Config{
		DataDir:   t.TempDir(),
		AgentPath: buildAgent(t),
		OwnerID:   "test-" + strings.ToLower(rand.Text()[:12]),
		Transport: transport,
	}
	d, err := docker.New(t.Context(), cfg)
	if err != nil {
		missing(t, err.Error())
	}
	t.Log(d.About())
	require.NoError(t, d.Close())
	api, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, api.Close()) })
	if _, err := api.ImageInspect(t.Context(), docker.DefaultImage); err != nil {
		missing(t, "the image "+docker.DefaultImage+" is not there: run images/build.sh")
	}
	b := &bench{cfg: cfg, api: api}
	t.Cleanup(func() {
		d := b.driver(t)
		gone, err := d.Reconcile(context.Background(), nil)
		require.NoError(t, err)
		require.Empty(t, gone, "the tests left boxes")
		require.NoError(t, d.Close())
		volumes, err := b.api.VolumeList(context.Background(), volume.ListOptions{Filters: filters.NewArgs(filters.Arg("label", "io.sandboxd.owner="+b.cfg.OwnerID))})
		require.NoError(t, err)
		require.Empty(t, volumes.Volumes, "a volume with an agent that nobody uses stays")
	})
	return b
}

func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" || os.Getenv("SANDBOXD_TEST_REQUIRE") == "1" {
		require.FailNow(t, "tests need a Docker engine with "+docker.DefaultImage, what)
	}
	t.Skip("NOT TESTED: " + what)
}

func (b *bench) driver(t *testing.T) *docker.Driver {
	t.Helper()
	d, err := docker.New(context.Background(), b.cfg)
	require.NoError(t, err)
	return d
}

// buildAgent builds the agent as the product does: static, small. Where the
// product was built for the tests (SANDBOXD_BIN) its own is taken.
func buildAgent(t *testing.T) string {
	t.Helper()
	if bin := os.Getenv("SANDBOXD_BIN"); bin != "" {
		return filepath.Join(bin, "sandboxd-agent")
	}
	out := filepath.Join(t.TempDir(), "agent")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", out, "github.com/sandboxd/sandboxd/cmd/sandboxd-agent")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	log, err := cmd.CombinedOutput()
	require.NoError(t, err, string(log))
	return out
}

// remains is what the host has of a run.
func (b *bench) remains(t *testing.T, run string) []string {
	t.Helper()
	var found []string
	label := filters.NewArgs(filters.Arg("label", "io.sandboxd.run="+run))
	all, err := b.api.ContainerList(context.Background(), container.ListOptions{All: true, Filters: label})
	require.NoError(t, err)
	for _, c := range all {
		found = append(found, "container "+c.ID)
	}
	volumes, err := b.api.VolumeList(context.Background(), volume.ListOptions{Filters: label})
	require.NoError(t, err)
	for _, v := range volumes.Volumes {
		found = append(found, "volume "+v.Name)
	}
	if _, err := os.Lstat(filepath.Join(b.cfg.DataDir, "boxes", run)); err == nil {
		found = append(found, "directory")
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, run) {
			found = append(found, "mount "+line)
		}
	}
	return append(found, cgroupsNamed(t, run)...)
}

func cgroupsNamed(t *testing.T, run string) (found []string) {
	t.Helper()
	err := filepath.WalkDir("/sys/fs/cgroup", func(p string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && e.Name() == run {
			found = append(found, "cgroup "+p)
		}
		return nil
	})
	require.NoError(t, err)
	return found
}

// destroy is docker rm -f.
func (b *bench) destroy(t *testing.T, run string) {
	t.Helper()
	name := "sandboxd-" + b.cfg.OwnerID + "-" + run
	require.NoError(t, b.api.ContainerRemove(context.Background(), name, container.RemoveOptions{Force: true}))
}

// stranger makes a container that looks like ours, of another owner.
func (b *bench) stranger(t *testing.T) func() bool {
	t.Helper()
	made, err := b.api.ContainerCreate(context.Background(), &container.Config{
		Image: docker.DefaultImage, Cmd: []string{"sleep", "1000"},
		Labels: map[string]string{"io.sandboxd.owner": b.cfg.OwnerID + "2", "io.sandboxd.run": "run"},
	}, &container.HostConfig{NetworkMode: "none"}, nil, nil, "")
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, b.api.ContainerRemove(context.Background(), made.ID, container.RemoveOptions{Force: true}))
	})
	require.NoError(t, b.api.ContainerStart(context.Background(), made.ID, container.StartOptions{}))
	return func() bool {
		c, err := b.api.ContainerInspect(context.Background(), made.ID)
		return err == nil && c.State.Running
	}
}

func (b *bench) options() sandboxtest.Options {
	return sandboxtest.Options{
		Missing:  "sandboxd/no-such-image:test",
		Remains:  b.remains,
		Destroy:  b.destroy,
		Stranger: b.stranger,
	}
}

func TestContract(t *testing.T) {
	b := newBench(t, docker.TransportAuto)
	sandboxtest.RunContract(t, func(t *testing.T) sandbox.Driver { return b.driver(t) }, b.options())
}

func TestContractOnAnEngineApart(t *testing.T) {
	b := newBench(t, docker.TransportStdio)
	opt := b.options()
	opt.Apart = true
	sandboxtest.RunContract(t, func(t *testing.T) sandbox.Driver { return b.driver(t) }, opt)
}

func TestKillTrials(t *testing.T) {
	b := newBench(t, docker.TransportAuto)
	sandboxtest.RunKillTrials(t, func(t *testing.T) sandbox.Driver { return b.driver(t) }, b.options())
}
