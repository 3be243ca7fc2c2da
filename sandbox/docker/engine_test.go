package docker_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/sandbox/docker"
)

// oldEngine answers like an engine of some API version.
func oldEngine(t *testing.T, version string) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("API-Version", version)
		w.Header().Set("OSType", "linux")
		if strings.HasSuffix(r.URL.Path, "/info") {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"Architecture":"x86_64","CgroupDriver":"cgroupfs","CgroupVersion":"2","ServerVersion":"20.10.0","DefaultRuntime":"runc"}`))
		}
	}))
	t.Cleanup(srv.Close)
	return "tcp://" + strings.TrimPrefix(srv.URL, "http://")
}

func someConfig(t *testing.T) docker.Config {
	t.Helper()
	agent := filepath.Join(t.TempDir(), "agent")
	require.NoError(t, os.WriteFile(agent, []byte("agent"), 0o755))
	return docker.Config{DataDir: t.TempDir(), AgentPath: agent, OwnerID: "owner"}
}

func TestAnEngineThatIsTooOldIsRefusedInASentence(t *testing.T) {
	cfg := someConfig(t)
	cfg.Host = oldEngine(t, "1.40")
	_, err := docker.New(t.Context(), cfg)
	var refused *docker.EngineError
	require.ErrorAs(t, err, &refused)
	require.Contains(t, err.Error(), "1.40")
	require.Contains(t, err.Error(), "1.41 (Docker 20.10) or newer")
	require.Contains(t, err.Error(), "upgrade it")

	for _, version := range []string{"1.41", "1.44", "1.51", "1.60"} {
		cfg.Host = oldEngine(t, version)
		d, err := docker.New(t.Context(), cfg)
		require.NoError(t, err, "the control: %s is new enough", version)
		require.Contains(t, d.About(), "Docker 20.10.0")
		require.NoError(t, d.Close())
	}
}

func TestAnEngineThatIsAbsentIsToldInASentence(t *testing.T) {
	cfg := someConfig(t)
	cfg.Host = "unix://" + filepath.Join(t.TempDir(), "none.sock")
	_, err := docker.New(t.Context(), cfg)
	var absent *docker.EngineError
	require.ErrorAs(t, err, &absent)
	require.Contains(t, err.Error(), "no Docker engine answers at unix://")
	require.Contains(t, err.Error(), "DOCKER_HOST")
	require.NotContains(t, err.Error(), "\n")

	cfg.Host = "nonsense"
	_, err = docker.New(t.Context(), cfg)
	require.ErrorAs(t, err, &absent)
	require.Contains(t, err.Error(), "DOCKER_HOST")
}

func TestAConfigurationThatCannotServeIsRefusedBeforeAnyEngineIsAsked(t *testing.T) {
	for name, change := range map[string]func(*docker.Config){
		"no owner":           func(c *docker.Config) { c.OwnerID = "" },
		"an owner as a path": func(c *docker.Config) { c.OwnerID = "a/b" },
		"upper case":         func(c *docker.Config) { c.OwnerID = "Owner" },
		"a long owner":       func(c *docker.Config) { c.OwnerID = strings.Repeat("o", 33) },
		"relative data":      func(c *docker.Config) { c.DataDir = "data" },
		"relative agent":     func(c *docker.Config) { c.AgentPath = "agent" },
		"no agent":           func(c *docker.Config) { c.AgentPath += "-missing" },
		"a directory":        func(c *docker.Config) { c.AgentPath = filepath.Dir(c.AgentPath) },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := someConfig(t)
			cfg.Host = oldEngine(t, "1.41")
			d, err := docker.New(t.Context(), cfg)
			require.NoError(t, err, "the control")
			require.NoError(t, d.Close())
			change(&cfg)
			_, err = docker.New(t.Context(), cfg)
			require.Error(t, err)
		})
	}
}
