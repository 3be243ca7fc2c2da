package e2e_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The bounds that the product promises, in bytes.
const (
	idleService  = 60 << 20
	idleAgent    = 8 << 20
	outputGrowth = 64 << 20
)

func TestHugeOutputLeavesTheServiceSmallAndTheArtifactWhole(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *service) {
		run := s.run(map[string]any{})
		s.shell(run.RunID, "true")
		idle := resident(t, s.cmd.Process.Pid)
		require.Less(t, idle, int64(idleService), "the idle service")
		var peak atomic.Int64
		stop := make(chan struct{})
		go func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(5 * time.Millisecond):
					peak.Store(max(peak.Load(), residentNow(s.cmd.Process.Pid)))
				}
			}
		}()
		// One line without an end, then ordinary ones.
		res := s.call(run.RunID, "shell.run", map[string]any{
			"script":    `head -c 50000000 /dev/zero | tr '\0' x; yes 'a line of ordinary output' | head -c 54857600`,
			"timeoutMs": 300000,
		})
		close(stop)
		require.Equal(t, "SUCCEEDED", res.Status, res.SafeMessage)
		require.Less(t, peak.Load()-idle, int64(outputGrowth), "what the service grew by")
		require.True(t, res.Truncated)
		require.Less(t, len(res.StructuredOutput), 64<<10, "the model gets head and tail")
		require.Len(t, res.Artifacts, 1)
		require.EqualValues(t, 104857600, res.Artifacts[0].Bytes)
		code, part, _ := s.request("GET", "/v1/artifacts/"+res.Artifacts[0].ID, "", "Range", "bytes=104857590-")
		require.Equal(t, 206, code)
		require.Len(t, part, 10)
		require.Contains(t, "a line of ordinary output\na line of ordinary output\n", part)
	})
}

func TestAnIdleBoxCostsLittleMemory(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *service) {
		run := s.run(map[string]any{})
		for range 20 {
			s.shell(run.RunID, "true")
		}
		time.Sleep(500 * time.Millisecond)
		agents := agentsOf(t, s)
		require.NotEmpty(t, agents)
		for _, pid := range agents {
			require.Less(t, resident(t, pid), int64(idleAgent))
		}
	})
}

func residentNow(pid int) int64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, after, _ := bytes.Cut(raw, []byte("VmRSS:"))
	fields := bytes.Fields(after)
	if len(fields) == 0 {
		return 0
	}
	kib, err := strconv.ParseInt(string(fields[0]), 10, 64)
	if err != nil {
		return 0
	}
	return kib << 10
}

func resident(t *testing.T, pid int) int64 {
	t.Helper()
	n := residentNow(pid)
	require.Positive(t, n)
	return n
}

// agentsOf finds the agents of this service's boxes: their run directory lies
// in its data directory.
func agentsOf(t *testing.T, s *service) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	var pids []int
	for _, f := range files {
		cmdline, err := os.ReadFile(f)
		if err != nil || !strings.HasPrefix(string(cmdline), "/run/sandboxd/agent\x00") {
			continue
		}
		dir := filepath.Dir(f)
		mounts, err := os.ReadFile(filepath.Join(dir, "mountinfo"))
		if err == nil && strings.Contains(string(mounts), filepath.Base(filepath.Dir(s.data))) {
			pid, err := strconv.Atoi(filepath.Base(dir))
			require.NoError(t, err)
			pids = append(pids, pid)
		}
	}
	return pids
}
