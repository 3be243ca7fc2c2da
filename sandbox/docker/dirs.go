package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sandboxd/sandboxd/sandbox"
)

// errExists says that a box of this run is there.
var errExists = errors.New("the run's directory exists")

// boxDirs are a box's directories on the host, all below boxes/<run>, which
// only root may enter.
type boxDirs struct {
	root      string
	workspace string
	// agent is the agent's directory of the launch contract.
	agent string
}

func (d *Driver) dirsOf(run string) boxDirs {
	root := filepath.Join(d.boxes, run)
	return boxDirs{root: root, workspace: filepath.Join(root, "workspace"), agent: filepath.Join(root, "agent")}
}

// make creates the directories. One that is there already belongs to another
// box of the same name.
func (b boxDirs) make(u *undo) error {
	if err := os.Mkdir(b.root, 0o700); errors.Is(err, fs.ErrExist) {
		return errExists
	} else if err != nil {
		return err
	}
	u.push(func(context.Context) error { return os.RemoveAll(b.root) })
	if err := os.Mkdir(b.workspace, 0o700); err != nil {
		return err
	}
	//nolint:gosec // Programs expect to be able to look at their own directory's parents; the directory above admits root only.
	if err := os.Chmod(b.workspace, 0o755); err != nil {
		return err
	}
	if err := os.Chown(b.workspace, sandbox.CommandUser, sandbox.CommandUser); err != nil {
		return fmt.Errorf("the workspace cannot be given to uid %d: %w", sandbox.CommandUser, err)
	}
	return nil
}
