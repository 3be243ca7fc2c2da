// Package e2e_test runs the real program as a user would, on both drivers, and
// looks at it from outside only: over REST, through its exit code and its log,
// and at what it leaves on the machine.
package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/client"
)

// drivers are those that every story runs on.
func drivers() []string { return []string{"docker", "oci"} }

// service is one running sandboxd.
type service struct {
	t      *testing.T
	driver string
	data   string
	key    string
	url    string
	cmd    *exec.Cmd
	ended  chan error
	*client.Client

	logs io.Closer

	mu  sync.Mutex
	log bytes.Buffer
}

// eachDriver runs a story on every driver. A driver that cannot make boxes
// here is a failure where CI demands it, and a loud line elsewhere.
func eachDriver(t *testing.T, story func(t *testing.T, s *service)) {
	for _, driver := range drivers() {
		t.Run(driver, func(t *testing.T) {
			s := start(t, driver, t.TempDir())
			story(t, s)
		})
	}
}

// binary is where make build put the program.
func binary(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("SANDBOXD_BIN")
	if dir == "" {
		dir = filepath.Join("..", "..", "bin")
	}
	path, err := filepath.Abs(filepath.Join(dir, "sandboxd"))
	require.NoError(t, err)
	_, err = os.Stat(path)
	require.NoError(t, err, "the program is not built: run make build")
	return path
}

// start starts a service and waits until it says that it serves.
func start(t *testing.T, driver, data string, args ...string) *service {
	t.Helper()
	s := &service{t: t, driver: driver, data: data, key: rand.Text() + rand.Text(), ended: make(chan error, 1)}
	s.launch(args...)
	t.Cleanup(s.stop)
	return s
}

func (s *service) launch(args ...string) {
	s.t.Helper()
	s.cmd = exec.Command(binary(s.t), append([]string{"serve", "--listen", "127.0.0.1:0", "--data", s.data, "--driver", s.driver, "--allow-host-root", s.data}, args...)...)
	s.cmd.Env = append(os.Environ(), "SANDBOXD_API_KEY="+s.key)
	logs, err := s.cmd.StderrPipe()
	require.NoError(s.t, err)
	s.logs = logs
	require.NoError(s.t, s.cmd.Start())
	serving := make(chan string, 1)
	s.ended = make(chan error, 1)
	go s.follow(logs, serving)
	select {
	case s.url = <-serving:
	case err := <-s.ended:
		s.ended <- err
		s.t.Fatalf("the service did not start with driver %s: %v\n%s", s.driver, err, s.logged())
	case <-time.After(60 * time.Second):
		s.t.Fatalf("the service does not serve:\n%s", s.logged())
	}
	s.Client = client.New(s.url, s.key)
}

func (s *service) follow(logs io.Reader, serving chan<- string) {
	lines := bufio.NewScanner(logs)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		s.mu.Lock()
		s.log.Write(append(lines.Bytes(), '\n'))
		s.mu.Unlock()
		var entry struct{ Msg, Address string }
		if json.Unmarshal(lines.Bytes(), &entry) == nil && entry.Msg == "serving" {
			serving <- entry.Address
		}
	}
	s.ended <- s.cmd.Wait()
}

func (s *service) logged() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// stop ends the service politely; a service that a test killed is gone.
func (s *service) stop() {
	if s.cmd.ProcessState != nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case err := <-s.ended:
		s.ended <- err
		if err != nil && !s.t.Failed() {
			s.t.Errorf("SIGTERM must drain and exit 0: %v\n%s", err, s.logged())
		}
	case <-time.After(90 * time.Second):
		_ = s.cmd.Process.Kill()
		s.t.Errorf("the service does not end:\n%s", s.logged())
	}
	if s.t.Failed() {
		s.t.Logf("service log:\n%s", tail(s.logged(), 4000))
	}
}

// kill ends the service without a chance to clean up.
func (s *service) kill() {
	s.t.Helper()
	require.NoError(s.t, s.cmd.Process.Kill())
	<-s.ended
}

// run creates a run that is ended with the test.
func (s *service) run(body map[string]any) client.Run {
	s.t.Helper()
	run, err := s.CreateRun(s.t.Context(), body)
	require.NoError(s.t, err)
	require.Equal(s.t, "ready", run.Status)
	require.Equal(s.t, s.driver, run.Driver)
	return run
}

// call makes a call that must become one.
func (s *service) call(runID, tool string, args map[string]any) client.Result {
	s.t.Helper()
	res, err := s.Do(s.t.Context(), runID, tool, args)
	require.NoError(s.t, err)
	return res
}

// shell runs a script that must succeed and returns its standard output.
func (s *service) shell(runID, script string) string {
	s.t.Helper()
	res := s.call(runID, "shell.run", map[string]any{"script": script})
	require.Equal(s.t, "SUCCEEDED", res.Status, "%s\n%s", res.SafeMessage, res.StructuredOutput)
	return output[shellOutput](s.t, res).Stdout
}

// await waits for the result of a call that was submitted.
func (s *service) await(runID, callID string) client.Result {
	s.t.Helper()
	var call client.Call
	require.Eventually(s.t, func() bool {
		var err error
		call, err = s.Call(s.t.Context(), runID, callID)
		return err == nil && call.Result != nil
	}, 60*time.Second, 20*time.Millisecond)
	return *call.Result
}

// request sends a raw request with the service's key.
func (s *service) request(method, path, body string, header ...string) (int, string, http.Header) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	require.NoError(s.t, err)
	req.Header.Set("Authorization", "Bearer "+s.key)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	return resp.StatusCode, string(raw), resp.Header
}

type shellOutput struct {
	ExitCode          *int    `json:"exitCode"`
	Signal            *string `json:"signal"`
	Stdout            string  `json:"stdout"`
	Stderr            string  `json:"stderr"`
	LeftoverProcesses int     `json:"leftoverProcesses"`
	OOMKilled         bool    `json:"oomKilled"`
}

func output[T any](t *testing.T, res client.Result) T {
	t.Helper()
	var out T
	require.NoError(t, json.Unmarshal(res.StructuredOutput, &out), "%s %s: %s", res.Status, res.ErrorCode, res.SafeMessage)
	return out
}

func tail(text string, n int) string { return text[max(0, len(text)-n):] }
