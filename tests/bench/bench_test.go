// Package bench_test measures the whole program from outside, over REST on a
// real box, each figure beside its yardstick in the same run: this machine's
// clock means little, the ratio means much. The figures are in
// docs/performance.md.
//
//	scripts/test.sh bench
package bench_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	dockerclient "github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/client"
)

func drivers() []string { return []string{"docker", "oci"} }

type service struct {
	*client.Client
	url, key string
	pid      int
}

// start starts the real service with a driver.
func start(b *testing.B, driver string) *service {
	b.Helper()
	bin := os.Getenv("SANDBOXD_BIN")
	if bin == "" {
		bin = filepath.Join("..", "..", "bin")
	}
	bin, err := filepath.Abs(bin)
	require.NoError(b, err)
	key := rand.Text() + rand.Text()
	cmd := exec.Command(filepath.Join(bin, "sandboxd"), "serve", "--listen", "127.0.0.1:0", "--data", b.TempDir(), "--driver", driver)
	cmd.Env = append(os.Environ(), "SANDBOXD_API_KEY="+key)
	// The log goes to a file: a reader of ours would be part of what is timed.
	logs, err := os.Create(filepath.Join(b.TempDir(), "log"))
	require.NoError(b, err)
	cmd.Stderr = logs
	require.NoError(b, cmd.Start())
	b.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		_ = logs.Close()
	})
	for range 600 {
		raw, err := os.ReadFile(logs.Name())
		require.NoError(b, err)
		for line := range bytes.Lines(raw) {
			var entry struct{ Msg, Address string }
			if json.Unmarshal(line, &entry) == nil && entry.Msg == "serving" {
				return &service{client.New(entry.Address, key), entry.Address, key, cmd.Process.Pid}
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	b.Fatal("the service does not serve")
	return nil
}

func (s *service) run(b *testing.B, body map[string]any) client.Run {
	b.Helper()
	run, err := s.CreateRun(b.Context(), body)
	require.NoError(b, err)
	return run
}

func (s *service) call(b *testing.B, runID, tool string, args map[string]any) client.Result {
	b.Helper()
	res, err := s.Do(b.Context(), runID, tool, args)
	require.NoError(b, err)
	return res
}

// pair times two things in turn and reports both medians and their ratio.
func pair(b *testing.B, yardstick string, theirs, ours func()) {
	b.Helper()
	for range 20 {
		theirs()
		ours()
	}
	var a, o []time.Duration
	for b.Loop() {
		t := time.Now()
		theirs()
		a = append(a, time.Since(t))
		t = time.Now()
		ours()
		o = append(o, time.Since(t))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(us(a), yardstick+"-p50-µs")
	b.ReportMetric(us(o), "ours-p50-µs")
	b.ReportMetric(us(o)/us(a), "ratio")
}

// blocks is pair in blocks of ten with a rest between them, for a yardstick that
// goes on working after it has answered.
func blocks(b *testing.B, yardstick string, theirs, ours func()) {
	b.Helper()
	const size = 10
	times := func(f func()) (d []time.Duration) {
		for range size {
			t := time.Now()
			f()
			d = append(d, time.Since(t))
		}
		time.Sleep(200 * time.Millisecond)
		return d
	}
	times(theirs)
	times(ours)
	var a, o []time.Duration
	for b.Loop() {
		a = append(a, times(theirs)...)
		o = append(o, times(ours)...)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(us(a), yardstick+"-p50-µs")
	b.ReportMetric(us(o), "ours-p50-µs")
	b.ReportMetric(us(o)/us(a), "ratio")
}

func us(d []time.Duration) float64 {
	slices.Sort(d)
	return float64(d[len(d)/2].Nanoseconds()) / 1000
}

func each(b *testing.B, bench func(b *testing.B, s *service, driver string)) {
	for _, driver := range drivers() {
		b.Run(driver, func(b *testing.B) { bench(b, start(b, driver), driver) })
	}
}

// BenchmarkShellRunTrue: at most 3 times a fork and exec on the host. The client
// is one connection that is written to and read from: what is timed is the
// service, not the goroutines of a client library.
func BenchmarkShellRunTrue(b *testing.B) {
	each(b, func(b *testing.B, s *service, _ string) {
		run := s.run(b, map[string]any{})
		conn := dial(b, s)
		request := conn.request("/v1/runs/"+run.RunID+"/calls", `{"toolName":"shell.run","arguments":{"argv":["true"]}}`)
		pair(b, "forkexec",
			func() { require.NoError(b, exec.Command("/bin/true").Run()) },
			func() {
				if body := conn.do(b, request); !bytes.Contains(body, []byte(`"status":"SUCCEEDED"`)) {
					b.Fatalf("%s", body)
				}
			})
	})
}

// leanConn is an HTTP/1.1 client of one connection (RFC 9112).
type leanConn struct {
	net.Conn
	r    *bufio.Reader
	host string
	key  string
}

func dial(b *testing.B, s *service) *leanConn {
	b.Helper()
	host := strings.TrimPrefix(s.url, "http://")
	conn, err := net.Dial("tcp", host)
	require.NoError(b, err)
	b.Cleanup(func() { _ = conn.Close() })
	return &leanConn{conn, bufio.NewReader(conn), host, s.key}
}

func (c *leanConn) request(path, body string) []byte {
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		path, c.host, c.key, len(body), body)
}

func (c *leanConn) do(b *testing.B, request []byte) []byte {
	b.Helper()
	_, err := c.Write(request)
	require.NoError(b, err)
	resp, err := http.ReadResponse(c.r, nil)
	require.NoError(b, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(b, err)
	require.NoError(b, resp.Body.Close())
	require.Equal(b, http.StatusOK, resp.StatusCode)
	return body
}

// BenchmarkFileRead4K: at most the cost of a shell.run of true.
func BenchmarkFileRead4K(b *testing.B) {
	each(b, func(b *testing.B, s *service, _ string) {
		run := s.run(b, map[string]any{})
		s.call(b, run.RunID, "file.write", map[string]any{"path": "f", "content": strings.Repeat("0123456 890123\n", 273)})
		pair(b, "shell.run",
			func() { s.call(b, run.RunID, "shell.run", map[string]any{"argv": []string{"true"}}) },
			func() {
				if r := s.call(b, run.RunID, "file.read", map[string]any{"path": "f"}); r.Status != "SUCCEEDED" {
					b.Fatal(r.SafeMessage)
				}
			})
	})
}

// BenchmarkDockerExec: a shell.run is at least 10 times faster than an exec
// through the Engine API.
func BenchmarkDockerExec(b *testing.B) {
	engine, err := dockerclient.NewClientWithOpts(dockerclient.FromEnv, dockerclient.WithAPIVersionNegotiation())
	require.NoError(b, err)
	b.Cleanup(func() { _ = engine.Close() })
	made, err := engine.ContainerCreate(b.Context(), &container.Config{Image: "sandboxd/base", Entrypoint: []string{"sleep", "600"}}, &container.HostConfig{NetworkMode: "none"}, nil, nil, "")
	require.NoError(b, err)
	defer func() { _ = engine.ContainerRemove(b.Context(), made.ID, container.RemoveOptions{Force: true}) }()
	require.NoError(b, engine.ContainerStart(b.Context(), made.ID, container.StartOptions{}))
	s := start(b, "docker")
	run := s.run(b, map[string]any{})
	// In blocks: an exec keeps the engine busy for a while after its answer.
	blocks(b, "docker-exec",
		func() {
			e, err := engine.ContainerExecCreate(b.Context(), made.ID, container.ExecOptions{Cmd: []string{"true"}, AttachStdout: true})
			require.NoError(b, err)
			at, err := engine.ContainerExecAttach(b.Context(), e.ID, container.ExecAttachOptions{})
			require.NoError(b, err)
			_, _ = io.Copy(io.Discard, at.Reader)
			at.Close()
		},
		func() { s.call(b, run.RunID, "shell.run", map[string]any{"argv": []string{"true"}}) })
}

// BenchmarkSearch: repo.search over 10,000 files, at most 1.3 times rg run by
// hand in the box.
func BenchmarkSearch(b *testing.B) {
	s := start(b, "docker")
	run := s.run(b, map[string]any{})
	make10k := `for d in $(seq 100); do mkdir -p d$d; for f in $(seq 100); do { seq 1 60 | sed "s/^/line $d $f /"; [ $f = 50 ] && echo needle-$d; } > d$d/f$f.txt; done; done; echo done`
	require.Equal(b, "SUCCEEDED", s.call(b, run.RunID, "shell.run", map[string]any{"script": make10k, "timeoutMs": 120000}).Status)
	// The box itself times rg: what REST and the ledger cost is ours, not rg's.
	// (To a file, since rg looks for one match only when it writes to /dev/null.)
	byHand := `a=$EPOCHREALTIME; rg -n needle-5 >/tmp/found; b=$EPOCHREALTIME; echo $((${b/./} - ${a/./}))`
	var theirs, ours []time.Duration
	for b.Loop() {
		r := s.call(b, run.RunID, "shell.run", map[string]any{"script": byHand})
		var out struct{ Stdout string }
		require.NoError(b, json.Unmarshal(r.StructuredOutput, &out))
		micros, err := strconv.Atoi(strings.TrimSpace(out.Stdout))
		require.NoError(b, err)
		theirs = append(theirs, time.Duration(micros)*time.Microsecond)
		t := time.Now()
		r = s.call(b, run.RunID, "repo.search", map[string]any{"query": "needle-5"})
		ours = append(ours, time.Since(t))
		require.Equal(b, "SUCCEEDED", r.Status, r.SafeMessage)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(us(theirs), "rg-p50-µs")
	b.ReportMetric(us(ours), "ours-p50-µs")
	b.ReportMetric(us(ours)/us(theirs), "ratio")
}

// BenchmarkOutput100MB: at least a tenth of the speed of a host pipe, in less
// than 64 MB of the service's memory, the artifact complete.
func BenchmarkOutput100MB(b *testing.B) {
	each(b, func(b *testing.B, s *service, _ string) {
		run := s.run(b, map[string]any{})
		s.call(b, run.RunID, "shell.run", map[string]any{"argv": []string{"true"}})
		const bytes100 = 100 << 20
		script := `yes "a line of ordinary output, as a build prints it" | head -c 104857600`
		idle := rss(b, s.pid)
		var peak int64
		stop := make(chan struct{})
		go func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(5 * time.Millisecond):
					peak = max(peak, rssQuiet(s.pid))
				}
			}
		}()
		var ours, theirs []time.Duration
		for b.Loop() {
			theirs = append(theirs, hostPipe(b, script))
			t := time.Now()
			r := s.call(b, run.RunID, "shell.run", map[string]any{"script": script, "timeoutMs": 120000})
			ours = append(ours, time.Since(t))
			require.Equal(b, "SUCCEEDED", r.Status, r.SafeMessage)
			require.Len(b, r.Artifacts, 1)
			require.EqualValues(b, bytes100, r.Artifacts[0].Bytes)
		}
		close(stop)
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(us(theirs)/1000, "hostpipe-ms")
		b.ReportMetric(us(ours)/1000, "ours-ms")
		b.ReportMetric(us(ours)/us(theirs), "ratio")
		b.ReportMetric(float64(peak-idle)/(1<<20), "service-MB-above-idle")
	})
}

// hostPipe times the same output through a pipe of the host.
func hostPipe(b *testing.B, script string) time.Duration {
	b.Helper()
	t := time.Now()
	cmd := exec.Command("bash", "-c", script)
	out, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	n, err := io.Copy(io.Discard, struct{ io.Reader }{out})
	require.NoError(b, err)
	require.NoError(b, cmd.Wait())
	require.EqualValues(b, 100<<20, n)
	return time.Since(t)
}

// BenchmarkMemory: agent at most 8 MB, service at most 60 MB, both idle.
func BenchmarkMemory(b *testing.B) {
	each(b, func(b *testing.B, s *service, _ string) {
		run := s.run(b, map[string]any{})
		for range 50 {
			s.call(b, run.RunID, "shell.run", map[string]any{"argv": []string{"true"}})
		}
		time.Sleep(time.Second)
		for b.Loop() {
			time.Sleep(time.Millisecond)
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(rss(b, s.pid))/(1<<20), "service-MB")
		b.ReportMetric(float64(agentRSS(b))/(1<<20), "agent-MB")
	})
}

func rss(b *testing.B, pid int) int64 {
	b.Helper()
	n := rssQuiet(pid)
	require.Positive(b, n)
	return n
}

func rssQuiet(pid int) int64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, after, _ := bytes.Cut(raw, []byte("VmRSS:"))
	fields := bytes.Fields(after)
	if len(fields) == 0 {
		return 0
	}
	n, err := strconv.ParseInt(string(fields[0]), 10, 64)
	if err != nil {
		return 0
	}
	return n << 10
}

// agentRSS is the largest agent's resident memory.
func agentRSS(b *testing.B) int64 {
	b.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(b, err)
	var most int64
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err == nil && strings.HasPrefix(string(raw), "/run/sandboxd/agent\x00") {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			require.NoError(b, err)
			most = max(most, rssQuiet(pid))
		}
	}
	require.Positive(b, most)
	return most
}

// BenchmarkRESTOverhead: what HTTP adds to a call, beside the health route.
func BenchmarkRESTOverhead(b *testing.B) {
	s := start(b, "oci")
	run := s.run(b, map[string]any{})
	pair(b, "healthz",
		func() {
			resp, err := http.Get(s.url + "/healthz")
			require.NoError(b, err)
			_, _ = io.Copy(io.Discard, resp.Body)
			require.NoError(b, resp.Body.Close())
		},
		func() { s.call(b, run.RunID, "file.list", map[string]any{}) })
}
