package spawn_test

import (
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/sandbox/agent/spawn"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// BenchmarkStart compares a start and a wait with os/exec's, in turns.
func BenchmarkStart(b *testing.B) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	require.NoError(b, err)
	defer null.Close()
	root, err := os.Open("/")
	require.NoError(b, err)
	defer root.Close()
	spec := &spawn.Spec{
		Paths: []string{"/bin/true"}, Argv: []string{"true"}, Files: [3]int{int(null.Fd()), int(null.Fd()), int(null.Fd())},
		Dir: int(root.Fd()), Cgroup: -1, OOMScore: "500", Umask: 0o022,
	}
	if os.Geteuid() == 0 {
		spec.Credential = &spawn.Credential{UID: 1000, GID: 1000}
	}
	var host, ours []time.Duration
	for b.Loop() {
		begin := time.Now()
		require.NoError(b, exec.Command("/bin/true").Run())
		host = append(host, time.Since(begin))
		begin = time.Now()
		pid, err := spawn.Start(spec)
		require.NoError(b, err)
		_, err = unix.Wait4(pid, nil, 0, nil)
		require.NoError(b, err)
		ours = append(ours, time.Since(begin))
	}
	slices.Sort(host)
	slices.Sort(ours)
	h, o := host[len(host)/2], ours[len(ours)/2]
	b.ReportMetric(float64(h.Microseconds()), "host-p50-µs")
	b.ReportMetric(float64(o.Microseconds()), "spawn-p50-µs")
	b.ReportMetric(float64(o)/float64(h), "ratio")
}
