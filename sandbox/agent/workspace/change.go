package workspace

import (
	"crypto/sha256"
	"errors"
	"io"
	"strings"

	"github.com/sandboxd/sandboxd/sandbox"
	"golang.org/x/sys/unix"
)

// newFileMode is the mode of a new file for which none was asked.
const newFileMode = 0o644

// write replaces the file at path, or makes it.
func (tx *transaction) write(c sandbox.Change, path string, content io.Reader) (sandbox.Applied, error) {
	p, err := tx.at(path, c.Base.Hash == "")
	if err != nil {
		if c.Base.Hash != "" && errors.Is(err, unix.ENOENT) {
			return sandbox.Applied{}, &sandbox.Error{Kind: sandbox.KindHashMismatch, Path: c.Path, Message: "The file does not exist any more."}
		}
		return sandbox.Applied{}, err
	}
	old, err := p.inspect(c.Base)
	if err != nil {
		return sandbox.Applied{}, err
	}
	mode := uint32(c.Mode.Perm())
	switch {
	case mode != 0:
	case old != nil:
		mode = old.stat.Mode & 0o777
	default:
		mode = newFileMode
	}
	if content == nil {
		content = strings.NewReader("")
	}
	temp, hash, size, err := p.stage(content, mode)
	if err != nil {
		return sandbox.Applied{}, err
	}
	a := sandbox.Applied{Path: c.Path, Created: old == nil, Hash: hash, Bytes: size}
	if old == nil {
		return a, tx.create(p, temp)
	}
	a.OldHash, err = tx.replace(p, temp, c.Base.Hash)
	return a, err
}

// create gives the staged file its name, which must be free.
func (tx *transaction) create(p place, temp string) error {
	if err := renameNoReplace(p.dir, temp, p.dir, p.base); err != nil {
		return errors.Join(err, unix.Unlinkat(p.dir, temp, 0))
	}
	tx.onRollback(func() error { return ignoreGone(unix.Unlinkat(p.dir, p.base, 0)) })
	return nil
}

// replace exchanges the staged file with the one at p, and then judges the one
// that was displaced: it, and no other, must have the base hash. It returns
// the displaced file's hash.
func (tx *transaction) replace(p place, temp, baseHash string) (string, error) {
	staged, err := identity(p.dir, temp)
	if err != nil {
		return "", errors.Join(err, ignoreGone(unix.Unlinkat(p.dir, temp, 0)))
	}
	if err := exchange(p, temp); err != nil {
		return "", errors.Join(err, unix.Unlinkat(p.dir, temp, 0))
	}
	displaced, err := p.read(temp)
	if err == nil && baseHash != "" && displaced.hash != baseHash {
		err = mismatch(p.path, displaced.hash)
	}
	if err != nil {
		return "", errors.Join(err, takeBack(p, temp, staged))
	}
	tx.onCommit(func() error { return ignoreGone(unix.Unlinkat(p.dir, temp, 0)) })
	tx.onRollback(func() error { return takeBack(p, temp, staged) })
	return displaced.hash, nil
}

// exchange swaps the staged file with the one at p.
func exchange(p place, temp string) error {
	err := unix.Renameat2(p.dir, temp, p.dir, p.base, unix.RENAME_EXCHANGE)
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	// A file system without exchange: readers may find nothing for a moment,
	// but nobody's file is lost.
	aside := tempName()
	if err := unix.Renameat(p.dir, p.base, p.dir, aside); err != nil {
		return err
	}
	if err := renameNoReplace(p.dir, temp, p.dir, p.base); err != nil {
		return errors.Join(err, renameNoReplace(p.dir, aside, p.dir, p.base))
	}
	return unix.Renameat(p.dir, aside, p.dir, temp)
}

// inode identifies a file.
type inode struct{ dev, ino uint64 }

func identity(dir int, name string) (inode, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return inode{}, err
	}
	return inode{st.Dev, st.Ino}, nil
}

// takeBackTries bounds the search for a stable state against a writer that
// replaces the file all the time.
const takeBackTries = 16

// takeBack undoes an exchange: the displaced file, at temp, returns to p. If
// somebody else has replaced ours at p meanwhile, theirs is the newest and
// stays.
func takeBack(p place, temp string, ours inode) error {
	for range takeBackTries {
		err := unix.Renameat2(p.dir, temp, p.dir, p.base, unix.RENAME_EXCHANGE)
		if errors.Is(err, unix.ENOENT) {
			// p has been deleted meanwhile; so be it.
			break
		}
		if err != nil {
			return errors.Join(err, unix.Renameat(p.dir, temp, p.dir, p.base))
		}
		out, err := identity(p.dir, temp)
		if err != nil {
			return err
		}
		if out == ours {
			break
		}
		// What came out was not ours but a newer file: put it back in.
		back, err := identity(p.dir, p.base)
		if err != nil {
			return err
		}
		ours = back
	}
	return ignoreGone(unix.Unlinkat(p.dir, temp, 0))
}

// remove deletes a file: it is moved to a hidden name first, so that it can be
// judged and put back.
func (tx *transaction) remove(c sandbox.Change, path string) (sandbox.Applied, error) {
	p, err := tx.at(path, false)
	if err != nil {
		return sandbox.Applied{}, err
	}
	hash, err := tx.takeAway(p, c.Base)
	return sandbox.Applied{Path: c.Path, OldHash: hash}, err
}

// takeAway moves the file at p to a hidden name until the transaction ends.
func (tx *transaction) takeAway(p place, base sandbox.Precondition) (string, error) {
	old, err := p.inspect(base)
	if err != nil {
		return "", err
	}
	if old == nil {
		return "", unix.ENOENT
	}
	temp := tempName()
	if err := renameNoReplace(p.dir, p.base, p.dir, temp); err != nil {
		return "", err
	}
	putBack := func() error {
		err := renameNoReplace(p.dir, temp, p.dir, p.base)
		if errors.Is(err, unix.EEXIST) {
			return unix.Unlinkat(p.dir, temp, 0) // a newer file stays
		}
		return err
	}
	taken, err := p.read(temp)
	if err == nil && base.Hash != "" && taken.hash != base.Hash {
		err = mismatch(p.path, taken.hash)
	}
	if err != nil {
		return "", errors.Join(err, putBack())
	}
	tx.onRollback(putBack)
	tx.onCommit(func() error { return ignoreGone(unix.Unlinkat(p.dir, temp, 0)) })
	return taken.hash, nil
}

// move gives a file another name, and new content if there is any.
func (tx *transaction) move(c sandbox.Change, path string, content io.Reader) (sandbox.Applied, error) {
	to, err := cleanName(c.To)
	if err != nil {
		return sandbox.Applied{}, err
	}
	from, err := tx.at(path, false)
	if err != nil {
		return sandbox.Applied{}, err
	}
	old, err := from.inspect(c.Base)
	if err == nil && old == nil {
		err = unix.ENOENT
	}
	if err != nil {
		return sandbox.Applied{}, err
	}
	target, err := tx.at(to, true)
	if err != nil {
		return sandbox.Applied{}, translate(c.To, err)
	}
	a := sandbox.Applied{Path: c.To, Created: true, OldHash: old.hash, Hash: old.hash, Bytes: old.stat.Size}
	if content == nil && c.Mode == 0 {
		return a, translate(c.To, tx.rename(from, target, c.Base.Hash))
	}
	return tx.moveChanged(a, c, from, target, content, old)
}

// rename moves the file itself, and judges it where it has arrived.
func (tx *transaction) rename(from, to place, baseHash string) error {
	if err := renameNoReplace(from.dir, from.base, to.dir, to.base); err != nil {
		return err
	}
	back := func() error { return renameNoReplace(to.dir, to.base, from.dir, from.base) }
	moved, err := to.read(to.base)
	if err == nil && baseHash != "" && moved.hash != baseHash {
		err = mismatch(from.path, moved.hash)
	}
	if err != nil {
		return errors.Join(err, back())
	}
	tx.onRollback(back)
	return nil
}

// moveChanged makes the new file beside its new name and takes the old one
// away.
func (tx *transaction) moveChanged(a sandbox.Applied, c sandbox.Change, from, to place, content io.Reader, old *existing) (sandbox.Applied, error) {
	mode := uint32(c.Mode.Perm())
	if mode == 0 {
		mode = old.stat.Mode & 0o777
	}
	if content == nil {
		f, err := openAt(from)
		if err != nil {
			return a, err
		}
		defer f.Close()
		content = f
	}
	temp, hash, size, err := to.stage(content, mode)
	if err != nil {
		return a, translate(c.To, err)
	}
	if err := tx.create(to, temp); err != nil {
		return a, translate(c.To, err)
	}
	a.Hash, a.Bytes = hash, size
	a.OldHash, err = tx.takeAway(from, c.Base)
	return a, err
}

func openAt(p place) (io.ReadCloser, error) {
	fd, err := unix.Openat(p.dir, p.base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f, _, err := regular(fd)
	return f, err
}

func renameNoReplace(fromDir int, from string, toDir int, to string) error {
	err := unix.Renameat2(fromDir, from, toDir, to, unix.RENAME_NOREPLACE)
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	// A file system without the flag: a hard link refuses a name that is taken.
	if err := unix.Linkat(fromDir, from, toDir, to, 0); err != nil {
		return err
	}
	return unix.Unlinkat(fromDir, from, 0)
}

func ignoreGone(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

func copyHashed(w io.Writer, content io.Reader) (string, int64, error) {
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, sum), content)
	return hexHash(sum), n, err
}
