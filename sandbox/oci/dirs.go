package oci

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/agentproto"
)

// boxDirs are a box's directories on the host. The first, boxes/<run>, is also
// the bundle; only root may enter it.
type boxDirs struct {
	bundle    string
	workspace string
	// run is the agent's directory of the launch contract.
	run string
}

func (d *Driver) dirsOf(run string) boxDirs {
	bundle := filepath.Join(d.boxesDir(), run)
	return boxDirs{bundle: bundle, workspace: filepath.Join(bundle, "workspace"), run: filepath.Join(bundle, "run")}
}

// make makes the directories. fs.ErrExist means that the run has a box.
func (b boxDirs) make(u *undo) error {
	if err := os.Mkdir(b.bundle, 0o700); err != nil {
		return err
	}
	u.push(func(context.Context) error { return os.RemoveAll(b.bundle) })
	for _, dir := range []string{b.workspace, b.run, filepath.Join(b.run, "cgroup")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return fmt.Errorf("make the box's directories: %w", err)
		}
	}
	// Mkdir's mode passes through the service's umask.
	if err := os.Chmod(b.workspace, 0o755); err != nil { //nolint:gosec // the directory above admits root only
		return err
	}
	return os.Chown(b.workspace, sandbox.CommandUser, sandbox.CommandUser)
}

// fillRun puts a new token where the agent looks for it, and makes the mount
// points that the launch contract names.
func (b boxDirs) fillRun() (token string, err error) {
	for _, target := range []string{agentproto.Cgroup2Mount, agentproto.PidsMount, agentproto.FillMount} {
		if err := os.Mkdir(filepath.Join(b.run, strings.TrimPrefix(target, agentproto.Dir)), 0o700); err != nil {
			return "", err
		}
	}
	if err := os.WriteFile(filepath.Join(b.run, filepath.Base(agentproto.AgentPath)), nil, 0o600); err != nil {
		return "", err
	}
	token = rand.Text()
	return token, os.WriteFile(filepath.Join(b.run, agentproto.TokenName), []byte(token), 0o600)
}
