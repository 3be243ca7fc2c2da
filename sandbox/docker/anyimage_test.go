package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/docker"
)

// run runs a command in a box and returns what it wrote.
func run(t *testing.T, box sandbox.Box, argv ...string) (sandbox.Exit, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var out bytes.Buffer
	exit, err := sandbox.Run(ctx, box, sandbox.Command{Argv: argv, Stdout: &out, Stderr: &out}, sandbox.After(time.Second))
	require.NoError(t, err)
	return exit, out.String()
}

// box makes a box of an image that is removed with the test.
func (b *bench) box(t *testing.T, ref string) sandbox.Box {
	t.Helper()
	d := b.driver(t)
	box, err := d.Create(t.Context(), sandbox.Spec{RunID: "run1", Image: ref})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, box.Remove(context.Background()))
		require.NoError(t, d.Close())
	})
	return box
}

// variant makes an image of the base image and further instructions.
func (b *bench) variant(t *testing.T, ref string, instructions ...string) {
	t.Helper()
	made, err := b.api.ContainerCreate(t.Context(), &container.Config{Image: docker.DefaultImage, Cmd: []string{"true"}}, &container.HostConfig{NetworkMode: "none"}, nil, nil, "")
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, b.api.ContainerRemove(context.Background(), made.ID, container.RemoveOptions{}))
	})
	_, err = b.api.ContainerCommit(t.Context(), made.ID, container.CommitOptions{Reference: ref, Changes: instructions})
	require.NoError(t, err)
	b.removeImage(t, ref)
}

func (b *bench) removeImage(t *testing.T, ref string) {
	t.Cleanup(func() {
		_, err := b.api.ImageRemove(context.Background(), ref, image.RemoveOptions{})
		require.NoError(t, err)
	})
}

func TestAnImagesOwnIdeasOfItsStartAreOverridden(t *testing.T) {
	b := newBench(t, docker.TransportAuto)
	ref := b.cfg.OwnerID + ":variant"
	b.variant(t, ref,
		`ENTRYPOINT ["/bin/false"]`, `CMD ["nonsense"]`, `USER 12345:12345`, `WORKDIR /nowhere/at/all`,
		`VOLUME /data`, `VOLUME /workspace`, `VOLUME /tmp`, `HEALTHCHECK --interval=1s CMD touch /tmp/health`,
		`ENV FROM_IMAGE=yes`, `ENV PATH=/opt/special:/usr/bin:/bin`, `EXPOSE 80`)
	box := b.box(t, ref)
	_, out := run(t, box, "id", "-u")
	require.Equal(t, "1000\n", out)
	_, out = run(t, box, "pwd")
	require.Equal(t, "/workspace\n", out)
	_, out = run(t, box, "env")
	require.Contains(t, out, "FROM_IMAGE=yes", "an image's environment is its commands'")
	require.Contains(t, out, "PATH=/opt/special:/usr/bin:/bin")
	exit, out := run(t, box, "touch", "/data/x")
	require.NotZero(t, exit.Code, "an image's volume is no place to write")
	require.Contains(t, out, "Read-only file system")
	exit, out = run(t, box, "touch", "/workspace/x", "/tmp/x")
	require.Zero(t, exit.Code, out)
	time.Sleep(1500 * time.Millisecond)
	exit, _ = run(t, box, "test", "-e", "/tmp/health")
	require.NotZero(t, exit.Code, "its health check does not run")
	volumes, err := b.api.ContainerInspect(t.Context(), "sandboxd-"+b.cfg.OwnerID+"-run1")
	require.NoError(t, err)
	for _, m := range volumes.Mounts {
		require.NotEqual(t, "volume", string(m.Type), "%+v", m)
	}
}

func TestAnImageOfOneStaticProgramMakesABox(t *testing.T) {
	b := newBench(t, docker.TransportAuto)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\nimport \"os\"\nfunc main() { os.Stdout.WriteString(\"hello\"); os.Exit(len(os.Args)) }\n"), 0o644))
	cmd := exec.Command("go", "build", "-o", filepath.Join(dir, "hello"), filepath.Join(dir, "main.go"))
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	log, err := cmd.CombinedOutput()
	require.NoError(t, err, string(log))
	program, err := os.ReadFile(filepath.Join(dir, "hello"))
	require.NoError(t, err)

	var root bytes.Buffer
	w := tar.NewWriter(&root)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "app/hello", Mode: 0o755, Size: int64(len(program))}))
	_, err = w.Write(program)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	ref := b.cfg.OwnerID + ":one"
	done, err := b.api.ImageImport(t.Context(), image.ImportSource{Source: &root, SourceName: "-"}, ref, image.ImportOptions{Changes: []string{`ENV PATH=/app`}})
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, done)
	require.NoError(t, err)
	require.NoError(t, done.Close())
	b.removeImage(t, ref)

	box := b.box(t, ref)
	exit, out := run(t, box, "hello", "x")
	require.Equal(t, "hello", out)
	require.Equal(t, 2, exit.Code)
	_, err = box.Start(t.Context(), sandbox.Command{Argv: []string{"sh"}})
	require.Equal(t, sandbox.KindCommandNotFound, sandbox.KindOf(err))
	_, err = box.Files().Apply(t.Context(), []sandbox.Change{{Op: sandbox.OpWrite, Path: "f", Data: []byte("x")}})
	require.NoError(t, err)
}

func TestNothingSecretIsShownByInspect(t *testing.T) {
	b := newBench(t, docker.TransportAuto)
	box := b.box(t, "")
	const secret = "s3cr3t-of-the-run"
	var out bytes.Buffer
	exit, err := sandbox.Run(t.Context(), box, sandbox.Command{Argv: []string{"sh", "-c", `echo "$TOKEN"`}, Env: []string{"TOKEN=" + secret}, Stdout: &out}, sandbox.After(0))
	require.NoError(t, err)
	require.Zero(t, exit.Code)
	require.Equal(t, secret+"\n", out.String(), "the control: the command has it")
	_, raw, err := b.api.ContainerInspectWithRaw(t.Context(), "sandboxd-"+b.cfg.OwnerID+"-run1", false)
	require.NoError(t, err)
	require.NotContains(t, string(raw), secret)
	token, err := os.ReadFile(filepath.Join(b.cfg.DataDir, "boxes", "run1", "agent", "token"))
	require.NoError(t, err)
	require.NotContains(t, string(raw), strings.TrimSpace(string(token)))
}
