package agent_test

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/sandbox/agentproto"
	"github.com/stretchr/testify/require"
)

// pipes is the other end of an agent's standard input and output.
type pipes struct {
	io.Reader
	io.WriteCloser
}

func (pipes) LocalAddr() net.Addr              { return &net.UnixAddr{} }
func (pipes) RemoteAddr() net.Addr             { return &net.UnixAddr{} }
func (pipes) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (pipes) SetReadDeadline(time.Time) error  { return os.ErrNoDeadline }
func (pipes) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

func TestStandardInputCarriesTheSessionAndItsEndEndsTheAgent(t *testing.T) {
	need(t, os.Geteuid() == 0, "root")
	ws := t.TempDir()
	for _, dir := range []string{ws, ws + "/.."} {
		require.NoError(t, os.Chmod(dir, 0o755))
	}
	require.NoError(t, os.Chown(ws, testUser, testUser))
	cmd := exec.Command(binary, "--stdio", "--token-file", ws+"/none")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	s, err := agentproto.Open(ctx, pipes{out, in}, agentproto.Config{Token: token, Workspace: ws, UID: testUser, GID: testUser})
	require.NoError(t, err)
	// What a command prints is data and never a frame: it has its own pipes.
	text, exit := run(t, &testBox{Session: s}, sh(`printf '\001\000\000\000\000'; echo forged > /proc/`+itoa(cmd.Process.Pid)+`/fd/1`))
	require.Equal(t, "\x01\x00\x00\x00\x00", text)
	require.NotZero(t, exit.Code, "the agent's descriptors are out of reach")
	require.NoError(t, s.Close())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(5 * time.Second):
		_ = cmd.Process.Kill()
		t.Fatal("the agent outlives its session")
	}
}
