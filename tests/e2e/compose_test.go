package e2e_test

import (
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/client"
)

// compose is docker compose, be it a plugin of the client or a program.
func compose(t *testing.T) []string {
	t.Helper()
	if exec.Command("docker", "compose", "version").Run() == nil {
		return []string{"docker", "compose"}
	}
	path, err := exec.LookPath("docker-compose")
	require.NoError(t, err, "there is no docker compose; scripts/provision.sh compose installs it")
	return []string{path}
}

func TestComposeStartsAServiceThatMakesBoxes(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())
	key, data := rand.Text()+rand.Text(), t.TempDir()
	socket := strings.TrimPrefix(os.Getenv("DOCKER_HOST"), "unix://")
	if socket == "" {
		socket = "/var/run/docker.sock"
	}
	run := func(args ...string) (string, error) {
		full := append(append(compose(t), "-p", fmt.Sprintf("sbx%d", os.Getpid()), "-f", filepath.Join(root, "compose.yaml")), args...)
		cmd := exec.Command(full[0], full[1:]...)
		cmd.Env = append(os.Environ(), "SANDBOXD_API_KEY="+key, "SANDBOXD_ENGINE_SOCKET="+socket, "SANDBOXD_LISTEN="+address, "SANDBOXD_DATA="+data)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := run("logs", "--no-color")
			t.Log(tail(out, 4000))
		}
		out, err := run("down", "-t", "40")
		require.NoError(t, err, out)
	})
	out, err := run("up", "-d")
	require.NoError(t, err, out)
	c := client.New("http://"+address, key)
	require.Eventually(t, func() bool { return c.Ready(t.Context()) == nil }, 60*time.Second, 100*time.Millisecond)
	made, err := c.CreateRun(t.Context(), map[string]any{})
	require.NoError(t, err)
	require.Equal(t, "cgroup.kill", made.Sandbox.KillStep, "the service in a container enforces what one on the host does")
	res, err := c.Do(t.Context(), made.RunID, "shell.run", map[string]any{"script": "id -u; echo hello > f; cat f"})
	require.NoError(t, err)
	require.Equal(t, "1000\nhello\n", output[shellOutput](t, res).Stdout)
	require.NoError(t, c.EndRun(t.Context(), made.RunID))
}
