package e2e_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/client"
)

func TestAnAgentReadsPatchesAndRunsInABoxOfItsOwn(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *service) {
		run := s.run(map[string]any{})
		wrote := s.call(run.RunID, "file.write", map[string]any{"path": "src/a.txt", "content": "one\ntwo\n", "mustNotExist": true})
		require.Equal(t, "SUCCEEDED", wrote.Status, wrote.SafeMessage)
		read := output[struct{ Content, Hash string }](t, s.call(run.RunID, "file.read", map[string]any{"path": "src/a.txt"}))
		require.Equal(t, "one\ntwo\n", read.Content)
		patch := "--- a/src/a.txt\n+++ b/src/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+TWO\n"
		stale := s.call(run.RunID, "file.patch", map[string]any{"path": "src/a.txt", "baseHash": "sha256:" + strings.Repeat("0", 64), "patch": patch})
		require.Equal(t, "BASE_HASH_MISMATCH", stale.ErrorCode)
		require.Equal(t, "one\ntwo\n", s.shell(run.RunID, "cat src/a.txt"), "a stale patch leaves the file")
		good := s.call(run.RunID, "file.patch", map[string]any{"path": "src/a.txt", "baseHash": read.Hash, "patch": patch})
		require.Equal(t, "SUCCEEDED", good.Status, good.SafeMessage)
		require.Equal(t, "one\nTWO\n", s.shell(run.RunID, "cat src/a.txt"))
		found := output[struct {
			TotalMatches int `json:"totalMatches"`
		}](t, s.call(run.RunID, "repo.search", map[string]any{"query": "TWO"}))
		require.Equal(t, 1, found.TotalMatches)
		require.Equal(t, "1000 1000", strings.TrimSpace(s.shell(run.RunID, "stat -c '%u %g' src/a.txt")), "files belong to the box's user")
	})
}

func TestAReadOnlyWorkspaceIsReadOnlyForToolsAndCommands(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *service) {
		dir := filepath.Join(s.data, "fixture")
		require.NoError(t, os.MkdirAll(dir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), []byte("kept"), 0o644))
		source := map[string]any{"type": "host", "path": dir, "mode": "copy"}
		rw := s.run(map[string]any{"source": source})
		require.Equal(t, "SUCCEEDED", s.call(rw.RunID, "shell.run", map[string]any{"script": "echo x > f && echo y > g"}).Status, "control: a writable workspace")
		ro := s.run(map[string]any{"source": source, "workspace": map[string]any{"access": "ro"}})
		require.Equal(t, "kept", s.shell(ro.RunID, "cat f"))
		for _, script := range []string{"echo x > f", "touch g", "rm f", "chmod 777 f", "ln f g", "mv f g"} {
			res := s.call(ro.RunID, "shell.run", map[string]any{"script": script})
			require.Equal(t, "PROCESS_EXIT_NONZERO", res.ErrorCode, script)
			require.Contains(t, output[shellOutput](t, res).Stderr, "Read-only file system", script)
		}
		require.Equal(t, "READ_ONLY_WORKSPACE", s.call(ro.RunID, "file.write", map[string]any{"path": "g", "content": "x"}).ErrorCode)
		require.Equal(t, "kept", s.shell(ro.RunID, "cat f"))
		original, err := os.ReadFile(filepath.Join(dir, "f"))
		require.NoError(t, err)
		require.Equal(t, "kept", string(original), "a copy never changes the original")
	})
}

// runaway leaves its session, forks twice, ignores TERM, and one of its
// processes is stopped.
const runaway = `
for i in 1 2 3; do
  setsid bash -c 'trap "" TERM HUP INT; (sleep MARK & sleep MARK) & wait' >/dev/null 2>&1 &
done
(setsid bash -c 'kill -STOP $$; sleep MARK' >/dev/null 2>&1 &)
trap "" TERM
sleep MARK & sleep MARK`

func countOf(mark string) string {
	return `n=0; for f in /proc/[0-9]*/cmdline; do if tr '\0' ' ' <$f 2>/dev/null | grep -q "^sleep ` + mark + ` "; then n=$((n+1)); fi; done; echo $n`
}

func TestCancelAndTimeoutKillTheWholeTreeAndNothingElse(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *service) {
		run := s.run(map[string]any{"limits": map[string]any{"pids": 160, "cpus": 1}})
		neighbour, err := s.Submit(t.Context(), run.RunID, "shell.run", map[string]any{"script": "sleep 86301 & wait", "timeoutMs": 120000})
		require.NoError(t, err)
		for _, end := range []string{"cancel", "timeout"} {
			mark := map[string]string{"cancel": "86302", "timeout": "86303"}[end]
			args := map[string]any{"script": strings.ReplaceAll(runaway, "MARK", mark), "timeoutMs": 120000}
			if end == "timeout" {
				args["timeoutMs"] = 1500
			}
			call, err := s.Submit(t.Context(), run.RunID, "shell.run", args)
			require.NoError(t, err)
			require.Eventually(t, func() bool { return strings.TrimSpace(s.shell(run.RunID, countOf(mark))) >= "8" }, 10*time.Second, 50*time.Millisecond, "the runaway runs")
			if end == "cancel" {
				require.NoError(t, s.Cancel(t.Context(), run.RunID, call.ToolCallID, 200*time.Millisecond))
			}
			res := s.await(run.RunID, call.ToolCallID)
			require.Equal(t, map[string]string{"cancel": "CANCELLED", "timeout": "TIMED_OUT"}[end], res.Status)
			require.Equal(t, map[string]string{"cancel": "user", "timeout": "timeout"}[end], res.Reason)
			require.GreaterOrEqual(t, res.Usage.ProcessesKilled, 8)
			require.Equal(t, "0", strings.TrimSpace(s.shell(run.RunID, countOf(mark))), "no survivor")
			require.Equal(t, "1", strings.TrimSpace(s.shell(run.RunID, countOf("86301"))), "the neighbour lives on")
		}
		require.NoError(t, s.Cancel(t.Context(), run.RunID, neighbour.ToolCallID, 0))
		require.Equal(t, "CANCELLED", s.await(run.RunID, neighbour.ToolCallID).Status)
	})
}

func TestAForkBombIsEndedAndTheNextCallWorks(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *service) {
		run := s.run(map[string]any{"limits": map[string]any{"pids": 128, "cpus": 0.5}})
		neighbour, err := s.Submit(t.Context(), run.RunID, "shell.run", map[string]any{"argv": []string{"sleep", "86304"}, "timeoutMs": 120000})
		require.NoError(t, err)
		res := s.call(run.RunID, "shell.run", map[string]any{"script": "b() { b | b & }; b; sleep 60", "timeoutMs": 2000})
		require.Equal(t, "TIMED_OUT", res.Status, res.SafeMessage)
		require.Greater(t, res.Usage.ProcessesKilled, 5)
		require.Equal(t, "alive", strings.TrimSpace(s.shell(run.RunID, "echo alive")))
		require.Equal(t, "1", strings.TrimSpace(s.shell(run.RunID, countOf("86304"))), "the neighbour lives on")
		require.NoError(t, s.Cancel(t.Context(), run.RunID, neighbour.ToolCallID, 0))
	})
}

func TestTheBoxIsWhatItIsSaidToBe(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *service) {
		run := s.run(map[string]any{"env": map[string]string{"CI": "1"}, "secrets": map[string]string{"TOKEN": "a-secret-of-this-run"}})
		status := s.shell(run.RunID, "cat /proc/self/status")
		for _, line := range []string{"CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2", "Uid:\t1000\t1000\t1000\t1000"} {
			require.Contains(t, status, line)
		}
		require.Equal(t, "lo", strings.TrimSpace(s.shell(run.RunID, `ls /sys/class/net 2>/dev/null || sed -n 's/^ *\([a-z0-9]*\):.*/\1/p' /proc/net/dev`)))
		require.Equal(t, "1 20", strings.TrimSpace(s.shell(run.RunID, `echo "$CI ${#TOKEN}"`)), "commands have environment and secrets")
		require.Equal(t, "denied", strings.TrimSpace(s.shell(run.RunID, `cat /proc/1/environ >/dev/null 2>&1 || echo denied`)))
		require.Equal(t, "ok", strings.TrimSpace(s.shell(run.RunID, `echo x > /tmp/t && echo x > $HOME/t && echo x > t && echo ok`)), "control: what must be writable is")
		require.Equal(t, "refused", strings.TrimSpace(s.shell(run.RunID, `(echo x > /usr/t) 2>/dev/null || (echo x > /etc/t) 2>/dev/null || echo refused`)))
		echoed := s.call(run.RunID, "shell.run", map[string]any{"script": `echo "it is $TOKEN"; printf %s "$TOKEN" | base64`})
		require.NotContains(t, string(echoed.StructuredOutput), "a-secret-of-this-run")
		require.NotEmpty(t, echoed.Redactions)
		_, events, _ := s.request("GET", "/v1/runs/"+run.RunID+"/events?limit=1000", "")
		require.NotContains(t, events, "a-secret-of-this-run")
		require.NotContains(t, s.logged(), "a-secret-of-this-run")
	})
}

func TestAKilledServiceLosesNothingAndLeavesNothing(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *service) {
		run := s.run(map[string]any{})
		require.Equal(t, "x", strings.TrimSpace(s.shell(run.RunID, "echo x")))
		call, err := s.Submit(t.Context(), run.RunID, "shell.run", map[string]any{"argv": []string{"sleep", "86305"}, "timeoutMs": 120000})
		require.NoError(t, err)
		before, err := s.Events(t.Context(), run.RunID, 0)
		require.NoError(t, err)
		s.kill()
		s.launch()
		after, err := s.Events(t.Context(), run.RunID, 0)
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(after), len(before))
		for i, e := range before {
			require.Equal(t, e.Hash, after[i].Hash, "what was shown once is the same for ever")
		}
		res := s.await(run.RunID, call.ToolCallID)
		require.Equal(t, "SERVICE_RESTARTED", res.ErrorCode)
		require.Empty(t, hostProcesses(t, "sleep\x0086305"), "the box of the dead run is gone")
		out, err := exec.Command(binary(t), "ledger", "verify", "--data", s.data).CombinedOutput()
		require.NoError(t, err, string(out))
		next := s.run(map[string]any{})
		require.Equal(t, "y", strings.TrimSpace(s.shell(next.RunID, "echo y")))
	})
}

// hostProcesses lists the processes of this machine with such a command line.
func hostProcesses(t *testing.T, cmdline string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	var found []string
	for _, f := range files {
		if raw, err := os.ReadFile(f); err == nil && strings.HasPrefix(string(raw), cmdline) {
			found = append(found, f)
		}
	}
	return found
}

func TestAWorkspaceGoesUpComesDownAndIsDiffed(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *service) {
		run := s.run(map[string]any{"source": map[string]any{"type": "upload"}})
		require.NoError(t, s.Upload(t.Context(), run.RunID, tarOf(t, map[string]string{"a.txt": "one\n", "dir/b.txt": "two\n"})))
		require.Equal(t, "one\ntwo\n", s.shell(run.RunID, "cat a.txt dir/b.txt"))
		s.shell(run.RunID, "echo ONE > a.txt; rm dir/b.txt; echo new > c.txt")
		diff, err := s.Diff(t.Context(), run.RunID)
		require.NoError(t, err)
		for _, line := range []string{"-one", "+ONE", "-two", "+new", "b/c.txt"} {
			require.Contains(t, diff, line)
		}
		code, body, _ := s.request("GET", "/v1/runs/"+run.RunID+"/workspace", "")
		require.Equal(t, http.StatusOK, code)
		files := map[string]string{}
		r := tar.NewReader(strings.NewReader(body))
		for {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			content, err := io.ReadAll(r)
			require.NoError(t, err)
			files[strings.TrimPrefix(h.Name, "./")] = string(content)
		}
		require.Equal(t, "ONE\n", files["a.txt"])
		require.Equal(t, "new\n", files["c.txt"])
		evil := &bytes.Buffer{}
		w := tar.NewWriter(evil)
		require.NoError(t, w.WriteHeader(&tar.Header{Name: "../evil", Size: 1, Mode: 0o644}))
		_, err = w.Write([]byte("x"))
		require.NoError(t, err)
		require.NoError(t, w.Close())
		var problem *client.Problem
		require.ErrorAs(t, s.Upload(t.Context(), run.RunID, evil), &problem)
		require.Less(t, problem.Status, 500)
	})
}

func tarOf(t *testing.T, files map[string]string) io.Reader {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, content := range files {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Size: int64(len(content)), Mode: 0o644}))
		_, err := io.WriteString(w, content)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return &b
}

func TestEventsStreamLiveAndResume(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *service) {
		run := s.run(map[string]any{})
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/v1/runs/"+run.RunID+"/events", nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+s.key)
		req.Header.Set("Accept", "text/event-stream")
		req.Header.Set("Last-Event-ID", "1")
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		require.Equal(t, "text/event-stream", strings.Split(resp.Header.Get("Content-Type"), ";")[0])
		go s.shellAsync(run.RunID)
		var seen bytes.Buffer
		buf := make([]byte, 4096)
		for !strings.Contains(seen.String(), "event: TOOL_CALL_RESULT") {
			n, err := resp.Body.Read(buf)
			require.NoError(t, err, seen.String())
			seen.Write(buf[:n])
		}
		require.NotContains(t, seen.String(), "id: 1\n", "Last-Event-ID resumes after it")
		require.Contains(t, seen.String(), "id: 2\n")
	})
}

func (s *service) shellAsync(runID string) {
	_, _ = s.Submit(context.Background(), runID, "shell.run", map[string]any{"argv": []string{"true"}}) // the stream tells
}

func TestWrongInputGetsACodeAndTheServiceStaysUp(t *testing.T) {
	s := start(t, "oci", t.TempDir())
	run := s.run(map[string]any{})
	calls := "/v1/runs/" + run.RunID + "/calls"
	for _, c := range []struct {
		name, method, path, body string
		status                   int
	}{
		{"no JSON", "POST", "/v1/runs", "{", 400},
		{"duplicate key", "POST", "/v1/runs", `{"image":"a","image":"b"}`, 400},
		{"trailing data", "POST", "/v1/runs", `{} {}`, 400},
		{"unknown field", "POST", "/v1/runs", `{"imaeg":"x"}`, 400},
		{"wrong enum", "POST", "/v1/runs", `{"seccomp":"off"}`, 400},
		{"forbidden mount", "POST", "/v1/runs", `{"mounts":[{"source":"/etc","target":"/x"}]}`, 403},
		{"unknown image", "POST", "/v1/runs", `{"image":"no/such-image"}`, 422},
		{"unknown run", "GET", "/v1/runs/run_00000000-0000-7000-8000-000000000000", "", 404},
		{"odd id", "GET", "/v1/runs/..%2f..%2fetc", "", 404},
		{"unknown call", "GET", calls + "/call_00000000-0000-7000-8000-000000000000", "", 404},
		{"unknown artifact", "GET", "/v1/artifacts/art_00000000-0000-7000-8000-000000000000", "", 404},
		{"no tool name", "POST", calls, `{"arguments":{}}`, 400},
		{"deep JSON", "POST", calls, `{"toolName":"file.read","arguments":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, 400},
		{"a tool that does not exist is a result", "POST", calls, `{"toolName":"no.such","arguments":{}}`, 200},
		{"arguments that do not fit are a result", "POST", calls, `{"toolName":"file.read","arguments":{"pth":"x"}}`, 200},
		{"no such route", "GET", "/v1/nothing", "", 404},
		{"wrong method", "DELETE", "/v1/tools", "", 405},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, body, header := s.request(c.method, c.path, c.body)
			require.Equal(t, c.status, status, body)
			if status >= 400 {
				require.Equal(t, "application/problem+json", header.Get("Content-Type"))
				var problem client.Problem
				require.NoError(t, json.Unmarshal([]byte(body), &problem))
				require.NotEmpty(t, problem.Code)
				require.NotEmpty(t, problem.Detail)
				require.NotEmpty(t, problem.RequestID)
			}
		})
	}
	require.Equal(t, "up", strings.TrimSpace(s.shell(run.RunID, "echo up")))
}

func TestNoKeyNoAnswer(t *testing.T) {
	s := start(t, "oci", t.TempDir())
	for key, want := range map[string]int{s.key: 200, "": 401, s.key + "x": 401, strings.Repeat("k", 52): 401} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/v1/runs", nil)
		require.NoError(t, err)
		if key != "" {
			req.Header.Set("Authorization", "Bearer "+key)
		}
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, want, resp.StatusCode, fmt.Sprintf("key %q", key))
	}
	resp, err := http.Get(s.url + "/healthz")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 200, resp.StatusCode, "health needs no key")
}

func TestALostReaderOfTheLogDoesNotEndTheService(t *testing.T) {
	s := start(t, "oci", t.TempDir())
	run := s.run(map[string]any{})
	require.NoError(t, s.logs.Close())
	for range 3 {
		require.Equal(t, "up", strings.TrimSpace(s.shell(run.RunID, "echo up")), "each request writes a line")
	}
	require.NoError(t, s.EndRun(t.Context(), run.RunID))
}
