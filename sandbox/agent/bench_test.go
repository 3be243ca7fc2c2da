package agent_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/agentproto"
	"github.com/sandboxd/sandboxd/seccomp"
	"github.com/stretchr/testify/require"
)

// benchBox is the strongest agent with the filter that real boxes have.
func benchBox(b *testing.B) *testBox {
	filter, err := seccomp.CommandFilter("strict")
	require.NoError(b, err)
	return start(b, strongest(), func(cfg *agentproto.Config) { cfg.Filter = filter })
}

// p50 returns the median.
func p50(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}

// BenchmarkExecTrue runs true on the host and through the agent in turns, and
// reports the medians and their ratio.
func BenchmarkExecTrue(b *testing.B) {
	box := benchBox(b)
	var host, agent []time.Duration
	for b.Loop() {
		begin := time.Now()
		require.NoError(b, exec.Command("/bin/true").Run())
		host = append(host, time.Since(begin))
		begin = time.Now()
		p, err := box.Start(context.Background(), sandbox.Command{Argv: []string{"/bin/true"}, Stdout: discard{}, Stderr: discard{}})
		require.NoError(b, err)
		_, err = p.Wait()
		require.NoError(b, err)
		agent = append(agent, time.Since(begin))
	}
	h, a := p50(host), p50(agent)
	b.ReportMetric(float64(h.Microseconds()), "host-p50-µs")
	b.ReportMetric(float64(a.Microseconds()), "agent-p50-µs")
	b.ReportMetric(float64(a)/float64(h), "ratio")
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func BenchmarkPing(b *testing.B) {
	box := benchBox(b)
	var all []time.Duration
	for b.Loop() {
		d, err := box.Ping(context.Background())
		require.NoError(b, err)
		all = append(all, d)
	}
	b.ReportMetric(float64(p50(all).Nanoseconds())/1e3, "p50-µs")
}

func BenchmarkRead4KiB(b *testing.B) {
	box := benchBox(b)
	require.NoError(b, os.WriteFile(box.dir+"/f", make([]byte, 4096), 0o644))
	var all []time.Duration
	for b.Loop() {
		begin := time.Now()
		res, err := box.Files().Read(context.Background(), sandbox.ReadRequest{Path: "f", Limit: 1 << 20})
		require.NoError(b, err)
		require.Len(b, res.Data, 4096)
		all = append(all, time.Since(begin))
	}
	b.ReportMetric(float64(p50(all).Nanoseconds())/1e3, "p50-µs")
}

// BenchmarkOutput100MB compares the output of a command through the agent with
// the same through a host pipe, and reports the agent's memory after it.
func BenchmarkOutput100MB(b *testing.B) {
	box := benchBox(b)
	const size = 100_000_000
	args := []string{"head", "-c", fmt.Sprint(size), "/dev/zero"}
	var host, agent []time.Duration
	for b.Loop() {
		begin := time.Now()
		n := new(count)
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Stdout = n
		require.NoError(b, cmd.Run())
		host = append(host, time.Since(begin))
		require.EqualValues(b, size, *n)

		begin = time.Now()
		n = new(count)
		p, err := box.Start(context.Background(), sandbox.Command{Argv: args, Stdout: n})
		require.NoError(b, err)
		_, err = p.Wait()
		require.NoError(b, err)
		require.EqualValues(b, size, *n)
		agent = append(agent, time.Since(begin))
	}
	b.ReportMetric(float64(p50(agent))/float64(p50(host)), "ratio")
	b.ReportMetric(float64(size)/1e6/p50(agent).Seconds(), "MB/s")
	b.ReportMetric(float64(rss(b, box.pid))/1e6, "agent-MB")
}

type count int

func (c *count) Write(p []byte) (int, error) { *c += count(len(p)); return len(p), nil }

func BenchmarkWalk10000(b *testing.B) {
	box := benchBox(b)
	for d := range 100 {
		dir := fmt.Sprintf("%s/dir%03d", box.dir, d)
		require.NoError(b, os.Mkdir(dir, 0o755))
		for f := range 99 {
			require.NoError(b, os.WriteFile(fmt.Sprintf("%s/file%03d.go", dir, f), []byte("package x\n"), 0o644))
		}
	}
	var all []time.Duration
	for b.Loop() {
		begin := time.Now()
		n := 0
		err := box.Files().Walk(context.Background(), sandbox.WalkRequest{}, func(sandbox.Entry, io.Reader) error { n++; return nil })
		require.NoError(b, err)
		require.Equal(b, 10000, n)
		all = append(all, time.Since(begin))
	}
	b.ReportMetric(float64(p50(all).Microseconds())/1e3, "p50-ms")
}

// rss is a process's resident memory in bytes.
func rss(t testing.TB, pid int) int64 {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		var kib int64
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	t.Fatal("no VmRSS")
	return 0
}
