package workspace

import (
	"errors"
	"io"
	"strings"

	"github.com/sandboxd/sandboxd/sandbox"
	"golang.org/x/sys/unix"
)

// Fill makes one entry: a directory, a regular file with the given content, or
// a symlink. Missing parents are made; an existing file is replaced.
func (r *Root) Fill(e sandbox.Entry, content io.Reader) error {
	if r.readOnly {
		return refuse(sandbox.KindReadOnly, e.Path, "The workspace is read-only.")
	}
	path, err := clean(e.Path)
	if err != nil {
		return err
	}
	if path == "." {
		if e.Info.Type != sandbox.TypeDir {
			return refuse(sandbox.KindIsDirectory, e.Path, "The workspace itself is a directory.")
		}
		return nil
	}
	tx := &transaction{root: r}
	p, err := tx.at(path, true)
	if err == nil {
		err = r.fill(p, e, content)
	}
	// Parents that were made stay, also on error: only handles are given back.
	return errors.Join(translate(e.Path, err), tx.commit())
}

func (r *Root) fill(p place, e sandbox.Entry, content io.Reader) error {
	switch e.Info.Type {
	case sandbox.TypeDir:
		return p.fillDir(uint32(e.Info.Mode.Perm()))
	case sandbox.TypeFile:
		return r.fillFile(p, uint32(e.Info.Mode.Perm()), content)
	case sandbox.TypeSymlink:
		temp := tempName()
		if err := unix.Symlinkat(e.Info.Target, p.dir, temp); err != nil {
			return err
		}
		return r.settle(p, temp)
	}
	return refuse(sandbox.KindNotRegular, e.Path, "Only directories, regular files and symbolic links can be made.")
}

func (p place) fillDir(mode uint32) error {
	if mode == 0 {
		mode = 0o755
	}
	err := unix.Mkdirat(p.dir, p.base, mode)
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	fd, err := unix.Openat(p.dir, p.base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return errors.Join(unix.Fchmod(fd, mode), unix.Close(fd))
}

func (r *Root) fillFile(p place, mode uint32, content io.Reader) error {
	if mode == 0 {
		mode = newFileMode
	}
	if content == nil {
		content = strings.NewReader("")
	}
	temp, _, _, err := p.stage(content, mode)
	if err != nil {
		return err
	}
	return r.settle(p, temp)
}

// settle gives a staged entry its name, in place of a file or link that has it.
// Only this waits for other changes: the content may come slowly.
func (r *Root) settle(p place, temp string) error {
	r.changes.Lock()
	defer r.changes.Unlock()
	if err := unix.Renameat(p.dir, temp, p.dir, p.base); err != nil {
		return errors.Join(err, ignoreGone(unix.Unlinkat(p.dir, temp, 0)))
	}
	return nil
}
