package workspace

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"os"

	"github.com/sandboxd/sandboxd/sandbox"
	"golang.org/x/sys/unix"
)

// Data gives the new content of the change with the given index. It is asked
// in order, once for each change that has any, and read to its end.
type Data func(index int) io.Reader

// Apply makes all changes or none (see sandbox.Files). A change's Data is
// ignored; data gives the content, hasData says which changes have any.
func (r *Root) Apply(changes []sandbox.Change, hasData []bool, data Data) ([]sandbox.Applied, error) {
	if r.readOnly {
		return nil, refuse(sandbox.KindReadOnly, "", "The workspace is read-only.")
	}
	if err := validate(changes); err != nil {
		return nil, err
	}
	r.changes.Lock()
	defer r.changes.Unlock()
	tx := &transaction{root: r}
	applied := make([]sandbox.Applied, 0, len(changes))
	for i, c := range changes {
		var content io.Reader
		if hasData[i] {
			content = data(i)
		}
		a, err := tx.apply(c, content)
		if err != nil {
			return nil, errors.Join(translate(c.Path, err), tx.rollback())
		}
		applied = append(applied, a)
	}
	return applied, tx.commit()
}

// validate judges the changes' form before anything is touched.
func validate(changes []sandbox.Change) error {
	for _, c := range changes {
		if _, err := cleanName(c.Path); err != nil {
			return err
		}
		switch c.Op {
		case sandbox.OpWrite, sandbox.OpDelete:
		case sandbox.OpMove:
			if _, err := cleanName(c.To); err != nil {
				return err
			}
		default:
			return refuse(sandbox.KindInvalid, c.Path, "A change is a write, a delete or a move.")
		}
		if c.Base.Hash != "" && c.Base.Absent {
			return refuse(sandbox.KindInvalid, c.Path, "A file cannot both have a hash and be absent.")
		}
	}
	return nil
}

// transaction keeps, for each step done, how to undo it and what to clean up
// when all is done. Both run in reverse order.
type transaction struct {
	root   *Root
	undo   []func() error
	finish []func() error
}

func (tx *transaction) onRollback(f func() error) { tx.undo = append(tx.undo, f) }
func (tx *transaction) onCommit(f func() error)   { tx.finish = append(tx.finish, f) }

// rollback undoes what was done. Its error means that the workspace is left
// changed.
func (tx *transaction) rollback() error { return runReverse(tx.undo) }

// commit removes what was kept for a rollback.
func (tx *transaction) commit() error { return runReverse(tx.finish) }

func runReverse(steps []func() error) error {
	var first error
	for i := len(steps) - 1; i >= 0; i-- {
		if err := steps[i](); err != nil && first == nil {
			first = err
		}
	}
	return first
}

func (tx *transaction) apply(c sandbox.Change, content io.Reader) (sandbox.Applied, error) {
	path, err := cleanName(c.Path)
	if err != nil {
		return sandbox.Applied{}, err
	}
	switch c.Op {
	case sandbox.OpDelete:
		return tx.remove(c, path)
	case sandbox.OpMove:
		return tx.move(c, path, content)
	}
	return tx.write(c, path, content)
}

// place is a name in a directory, with the handle of the directory, which is
// kept until the transaction ends.
type place struct {
	dir  int
	base string
	path string
}

// at opens the parent of a cleaned path, making missing ones if wanted.
func (tx *transaction) at(path string, makeParents bool) (place, error) {
	dir, base, err := tx.root.parent(path)
	if makeParents && errors.Is(err, unix.ENOENT) {
		parent, _ := split(path)
		if err := tx.mkdirs(parent); err != nil {
			return place{}, err
		}
		dir, base, err = tx.root.parent(path)
	}
	if err != nil {
		return place{}, err
	}
	closeDir := func() error { return unix.Close(dir) }
	// First in, so last out: the handle outlives the steps that use it.
	tx.onRollback(closeDir)
	tx.onCommit(closeDir)
	return place{dir: dir, base: base, path: path}, nil
}

// mkdirs makes a directory and its missing parents.
func (tx *transaction) mkdirs(path string) error {
	if path == "." {
		return unix.ENOENT // the workspace itself has gone
	}
	dir, base, err := tx.root.parent(path)
	if errors.Is(err, unix.ENOENT) {
		parent, _ := split(path)
		if err := tx.mkdirs(parent); err != nil {
			return err
		}
		dir, base, err = tx.root.parent(path)
	}
	if err != nil {
		return err
	}
	err = unix.Mkdirat(dir, base, 0o755)
	if err != nil {
		_ = unix.Close(dir)
		if errors.Is(err, unix.EEXIST) {
			return nil // made meanwhile, or a dangling link: the next step tells
		}
		return err
	}
	tx.onCommit(func() error { return unix.Close(dir) })
	tx.onRollback(func() error {
		err := unix.Unlinkat(dir, base, unix.AT_REMOVEDIR)
		if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.ENOENT) {
			err = nil // others have used it since
		}
		return errors.Join(err, unix.Close(dir))
	})
	return nil
}

// existing is the file that a change works on, open and hashed.
type existing struct {
	hash string
	stat unix.Stat_t
}

// inspect opens and hashes the file at p and checks the precondition. It
// returns nil where nothing is there and that is allowed.
func (p place) inspect(base sandbox.Precondition) (*existing, error) {
	ex, err := p.read(p.base)
	if errors.Is(err, unix.ENOENT) {
		if base.Hash != "" {
			return nil, &sandbox.Error{Kind: sandbox.KindHashMismatch, Path: p.path, Message: "The file does not exist any more."}
		}
		return nil, nil
	}
	if base.Absent && (err == nil || !errors.Is(err, unix.EACCES)) {
		refused := &sandbox.Error{Kind: sandbox.KindExists, Path: p.path, Message: "Something of that name exists."}
		if err == nil {
			refused.CurrentHash = ex.hash
		}
		return nil, refused
	}
	if err != nil {
		return nil, err
	}
	if base.Hash != "" && base.Hash != ex.hash {
		return nil, mismatch(p.path, ex.hash)
	}
	return ex, nil
}

func mismatch(path, current string) error {
	return &sandbox.Error{Kind: sandbox.KindHashMismatch, Path: path, CurrentHash: current, Message: "The file has changed since it was read."}
}

// read opens name beside p, which must be a regular file, and hashes it.
func (p place) read(name string) (*existing, error) {
	fd, err := unix.Openat(p.dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f, st, err := regular(fd)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	hash, err := hashFile(f)
	if err != nil {
		return nil, err
	}
	return &existing{hash: hash, stat: *st}, nil
}

// tempName returns a fresh hidden name.
func tempName() string {
	var b [12]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return tempPrefix + hex.EncodeToString(b[:])
}

// stage writes content to a hidden file beside p.
func (p place) stage(content io.Reader, mode uint32) (name, hash string, size int64, err error) {
	name = tempName()
	fd, err := unix.Openat(p.dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return "", "", 0, err
	}
	f := os.NewFile(uintptr(fd), name)
	hash, size, err = copyHashed(f, content)
	if err == nil {
		err = unix.Fchmod(fd, mode)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", "", 0, errors.Join(err, unix.Unlinkat(p.dir, name, 0))
	}
	return name, hash, size, nil
}
