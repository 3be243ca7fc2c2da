package oci_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/oci"
)

// BenchmarkCreate makes boxes until their agent answers, and beside it lets
// plain runc run the program true to its end in the same kind of bundle. The
// removal is measured for itself.
func BenchmarkCreate(b *testing.B) {
	cfg := newConfig(b, "runc")
	d, err := oci.New(b.Context(), cfg)
	require.NoError(b, err)
	create := func(b *testing.B, n int) sandbox.Box {
		box, err := d.Create(context.Background(), sandbox.Spec{RunID: fmt.Sprintf("bench-%d", n)})
		require.NoError(b, err)
		return box
	}
	require.NoError(b, create(b, 0).Remove(b.Context()), "the first box also makes /etc")

	b.Run("box", func(b *testing.B) {
		for n := 0; b.Loop(); n++ {
			box := create(b, n)
			b.StopTimer()
			require.NoError(b, box.Remove(b.Context()))
			b.StartTimer()
		}
	})
	b.Run("removal", func(b *testing.B) {
		for n := 0; b.Loop(); n++ {
			b.StopTimer()
			box := create(b, n)
			b.StartTimer()
			require.NoError(b, box.Remove(b.Context()))
		}
	})
	b.Run("plain-runc", func(b *testing.B) {
		bundle := plainBundle(b)
		for n := 0; b.Loop(); n++ {
			out, err := runtimeDo(cfg, "run", "--bundle", bundle, fmt.Sprintf("plain-%d", n)).CombinedOutput()
			require.NoError(b, err, "%s", out)
		}
	})
}

// plainBundle is what "runc spec" gives, with the machine's /usr for a root.
func plainBundle(b *testing.B) string {
	b.Helper()
	dir := b.TempDir()
	spec := runtimeDo(oci.Config{Runtime: "runc"}, "spec")
	spec.Dir = dir
	out, err := spec.CombinedOutput()
	require.NoError(b, err, "%s", out)
	file := filepath.Join(dir, "config.json")
	raw, err := os.ReadFile(file)
	require.NoError(b, err)
	var c specs.Spec
	require.NoError(b, json.Unmarshal(raw, &c))
	c.Process.Terminal, c.Process.Args = false, []string{"/bin/true"}
	c.Mounts = append(c.Mounts, specs.Mount{Destination: "/usr", Type: "bind", Source: "/usr", Options: []string{"bind", "ro"}})
	for _, link := range []string{"bin", "lib", "lib64"} {
		require.NoError(b, os.MkdirAll(filepath.Join(dir, "rootfs", "usr"), 0o755))
		require.NoError(b, os.Symlink("usr/"+link, filepath.Join(dir, "rootfs", link)))
	}
	raw, err = json.Marshal(c)
	require.NoError(b, err)
	require.NoError(b, os.WriteFile(file, raw, 0o600))
	return dir
}
