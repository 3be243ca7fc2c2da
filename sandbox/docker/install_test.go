package docker_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/sandbox/docker"
)

func TestBoxesGetTheServicesOwnCopyOfTheAgent(t *testing.T) {
	cfg, fake := someConfig(t), newFake()
	copies := func() []os.DirEntry {
		entries, err := os.ReadDir(filepath.Join(cfg.DataDir, "agents"))
		require.NoError(t, err)
		return entries
	}
	_, err := docker.NewOn(t.Context(), cfg, fake)
	require.NoError(t, err)
	_, err = docker.NewOn(t.Context(), cfg, fake)
	require.NoError(t, err)
	require.Len(t, copies(), 1, "one build, one copy")
	info, err := copies()[0].Info()
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), info.Mode())

	require.NoError(t, os.WriteFile(cfg.AgentPath, []byte("another build"), 0o755))
	d, err := docker.NewOn(t.Context(), cfg, fake)
	require.NoError(t, err)
	require.Len(t, copies(), 2, "boxes of the old build may still run")
	_, err = d.Reconcile(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, copies(), 1)
	b, err := os.ReadFile(filepath.Join(cfg.DataDir, "agents", copies()[0].Name()))
	require.NoError(t, err)
	require.Equal(t, "another build", string(b))
}
