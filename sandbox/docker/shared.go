package docker

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandboxd/sandboxd/sandbox/agentproto"
)

// A connector waits for the agent and connects to it.
type connector func(context.Context) (net.Conn, error)

// connector prepares the connection before the container is started.
func (m *making) connector(ctx context.Context) (connector, error) {
	if m.transport == TransportStdio {
		return m.attach(ctx)
	}
	return func(ctx context.Context) (net.Conn, error) { return dialAgent(ctx, m.dirs.agent) }, nil
}

// dialAgent waits for the agent's socket in dir. The path of a socket has at
// most 107 bytes, which a data directory may take up alone, so it is reached
// through a handle.
func dialAgent(ctx context.Context, dir string) (net.Conn, error) {
	handle, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = handle.Close() }() // it was only read
	return agentproto.WaitSocket(ctx, fmt.Sprintf("/proc/self/fd/%d/%s", handle.Fd(), agentproto.SocketName))
}

// writeToken puts a new token where the agent looks for it, and makes the mount
// points that the launch contract names.
func (b boxDirs) writeToken() (string, error) {
	if err := os.MkdirAll(filepath.Join(b.agent, "cgroup"), 0o700); err != nil {
		return "", err
	}
	for _, target := range append(cgroupTargets(), agentproto.FillMount) {
		if err := os.Mkdir(filepath.Join(b.agent, strings.TrimPrefix(target, agentproto.Dir)), 0o700); err != nil {
			return "", err
		}
	}
	mountPoint := filepath.Join(b.agent, filepath.Base(agentproto.AgentPath))
	if err := os.WriteFile(mountPoint, nil, 0o600); err != nil {
		return "", err
	}
	token := rand.Text()
	return token, os.WriteFile(filepath.Join(b.agent, agentproto.TokenName), []byte(token), 0o600)
}

// proveShared asks the engine to read the token's file in the box back. Equal
// paths prove nothing: a service in a container has paths of its own.
func (d *Driver) proveShared(ctx context.Context, id, token string) error {
	body, _, err := d.engine.CopyFromContainer(ctx, id, agentproto.TokenPath)
	if err != nil {
		return errors.Join(errNotShared, err)
	}
	defer func() { _ = body.Close() }() // what was read is checked below
	archive := tar.NewReader(body)
	if _, err := archive.Next(); err != nil {
		return errors.Join(errNotShared, err)
	}
	seen, err := io.ReadAll(io.LimitReader(archive, 1024))
	if err != nil || subtle.ConstantTimeCompare(seen, []byte(token)) != 1 {
		return errors.Join(errNotShared, err)
	}
	return nil
}

// isMissingSource tells whether the engine refused a bind because it has no
// such path. Engines have no code of their own for it.
func isMissingSource(err error) bool {
	return strings.Contains(err.Error(), "bind source path does not exist")
}
