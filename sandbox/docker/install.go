package docker

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// installAgent copies the agent into dir under the hash of its content, and
// returns the copy's path. Boxes are given the copy: a service in a container
// shares its data directory with the engine and nothing else, and a program
// that is replaced by an upgrade must not change under boxes that run it.
func installAgent(dir, program string) (string, error) {
	content, err := os.ReadFile(program)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, fmt.Sprintf("agent-%.12x", sha256.Sum256(content)))
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	// Another driver may do the same; the rename makes either copy the one.
	temp, err := os.CreateTemp(dir, ".agent-*")
	if err != nil {
		return "", err
	}
	_, err = temp.Write(content)
	err = errors.Join(err, temp.Chmod(0o755), temp.Sync(), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return "", errors.Join(err, os.Remove(temp.Name()))
	}
	return path, nil
}
