package oci_test

import (
	"archive/tar"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/oci"
)

func TestUnpackedImageIsTheRootAndStaysUntouched(t *testing.T) {
	cfg := newConfig(t, "runc")
	image := filepath.Join(cfg.DataDir, "images", "test", "tiny", "rootfs")
	for _, dir := range []string{"usr/bin", "etc", "var/lib/app", "home/owner", "proc", "run", "workspace/of-the-image"} {
		require.NoError(t, os.MkdirAll(filepath.Join(image, dir), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(image, "etc", "hosts"), nil, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(image, "var/lib/app/file"), []byte("of the image"), 0o644))
	copyProgram(t, image, "/bin/busybox", "/bin/sh")
	before := listing(t, image)

	box := newBox(t, cfg, func(spec *sandbox.Spec) {
		spec.Image, spec.Workspace.Path = "test/tiny", "/home/sandbox/project"
	})
	require.Equal(t, "test/tiny", box.Facts().Image)
	require.Equal(t, "of the image", sh(t, box, "read -r x </var/lib/app/file; echo $x"))
	require.Equal(t, "127.0.0.1", sh(t, box, "read -r x rest </etc/hosts; echo $x"))
	require.Equal(t, "none", sh(t, box, "test -e /home/owner || test -e /usr/share/doc || echo none"))
	require.Equal(t, "of-the-image", sh(t, box, "cd /workspace; echo *"))
	covered := newBox(t, cfg, func(spec *sandbox.Spec) { spec.Image = "test/tiny" })
	require.Equal(t, "*", sh(t, covered, "cd /workspace; echo *"), "what is mounted takes the image's place")
	require.Equal(t, before, listing(t, image))

	d, err := oci.New(t.Context(), cfg)
	require.NoError(t, err)
	_, err = d.Create(t.Context(), sandbox.Spec{RunID: "run-1", Image: "test/tiny", Workspace: sandbox.Workspace{Path: "/var/none"}})
	require.Equal(t, sandbox.KindInvalid, sandbox.KindOf(err), "%v", err)
	for _, missing := range []string{"test/none", "../../etc", "/etc", "test/tiny/", "Test"} {
		_, err = d.Create(t.Context(), sandbox.Spec{RunID: "run-1", Image: missing})
		require.Equal(t, sandbox.KindImageMissing, sandbox.KindOf(err), "%s: %v", missing, err)
	}
}

// copyProgram puts a program with its libraries into an image as /usr/bin/sh,
// from the first of the paths that exists.
func copyProgram(t *testing.T, image string, paths ...string) {
	t.Helper()
	for _, program := range paths {
		if _, err := os.Stat(program); err != nil {
			continue
		}
		out, err := exec.Command("ldd", program).Output()
		files := []string{program}
		if err == nil {
			for _, word := range strings.Fields(string(out)) {
				if strings.HasPrefix(word, "/") {
					files = append(files, word)
				}
			}
		}
		for _, f := range files {
			to := filepath.Join(image, f)
			if f == program {
				to = filepath.Join(image, "usr/bin/sh")
			}
			content, err := os.ReadFile(f)
			require.NoError(t, err)
			require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
			require.NoError(t, os.WriteFile(to, content, 0o755))
		}
		return
	}
	require.FailNow(t, "no program to put into an image")
}

// listing describes a directory so that any change shows.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	w := tar.NewWriter(&b)
	require.NoError(t, w.AddFS(os.DirFS(dir)))
	require.NoError(t, w.Close())
	return b.String()
}
