package oci_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/oci"
)

// BenchmarkCreate makes a box until its agent answers, removes it, and lets
// plain runc run true to its end in the bundle of "runc spec", in turns, so that
// what else the machine does weighs on all three alike. The ratio of the medians
// is what to look at.
func BenchmarkCreate(b *testing.B) {
	cfg := newConfig(b, "runc")
	d, err := oci.New(b.Context(), cfg)
	require.NoError(b, err)
	bundle := plainBundle(b)
	// The first box also makes /etc.
	box, err := d.Create(context.Background(), sandbox.Spec{RunID: "warm"})
	require.NoError(b, err)
	require.NoError(b, box.Remove(context.Background()))

	var create, remove, plain []time.Duration
	for b.Loop() {
		create = append(create, took(func() {
			box, err = d.Create(context.Background(), sandbox.Spec{RunID: "bench"})
			require.NoError(b, err)
		}))
		remove = append(remove, took(func() { require.NoError(b, box.Remove(context.Background())) }))
		plain = append(plain, took(func() {
			out, err := runtimeDo(cfg, "run", "--bundle", bundle, "plain").CombinedOutput()
			require.NoError(b, err, "%s", out)
		}))
	}
	report := func(name string, all []time.Duration) float64 {
		slices.Sort(all)
		p50 := float64(all[len(all)/2].Microseconds()) / 1000
		b.ReportMetric(p50, name)
		return p50
	}
	ours := report("create-p50-ms", create)
	report("remove-p50-ms", remove)
	b.ReportMetric(ours/report("plain-p50-ms", plain), "ratio")
	b.ReportMetric(0, "ns/op")
}

func took(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
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
	require.NoError(b, os.MkdirAll(filepath.Join(dir, "rootfs", "usr"), 0o755))
	for _, link := range []string{"bin", "lib", "lib64"} {
		require.NoError(b, os.Symlink("usr/"+link, filepath.Join(dir, "rootfs", link)))
	}
	raw, err = json.Marshal(c)
	require.NoError(b, err)
	require.NoError(b, os.WriteFile(file, raw, 0o600))
	return dir
}
