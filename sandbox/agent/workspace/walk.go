package workspace

import (
	"crypto/sha256"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/sandbox"
	"golang.org/x/sys/unix"
)

// Visitor receives a walk. Its errors end the walk.
type Visitor interface {
	// Entry is called for every entry; content says that Content calls and
	// one ContentEnd follow.
	Entry(e sandbox.Entry, content bool) error
	Content(p []byte) error
	// ContentEnd ends the content; err says that it could not be read whole.
	ContentEnd(err error) error
}

// Walk visits what is below a directory, in lexical order, parents first.
func (r *Root) Walk(req sandbox.WalkRequest, v Visitor) error {
	c, err := clean(req.Path)
	if err != nil {
		return err
	}
	fd, err := r.open(c, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return translate(req.Path, err)
	}
	w := &walk{req: req, visitor: v}
	if c != "." {
		w.prefix = c + "/"
	}
	return w.directory(fd, w.prefix, 1)
}

type walk struct {
	req     sandbox.WalkRequest
	visitor Visitor
	prefix  string
	buf     []byte
}

// maxOpenDirs bounds the depth of a walk: a handle stays open a level.
const maxOpenDirs = 512

// directory visits the entries of the directory that fd is of, and closes fd.
func (w *walk) directory(fd int, prefix string, depth int) error {
	dir := os.NewFile(uintptr(fd), "dir")
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil && len(names) == 0 {
		return translate(strings.TrimSuffix(prefix, "/"), err)
	}
	slices.Sort(names)
	for _, name := range names {
		if strings.HasPrefix(name, tempPrefix) {
			continue
		}
		if err := w.entry(fd, prefix, name, depth); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) entry(dirfd int, prefix, name string, depth int) error {
	e := sandbox.Entry{Path: prefix + name}
	var st unix.Stat_t
	if err := unix.Fstatat(dirfd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil // gone since the listing
		}
		e.Err = asRefusal(e.Path, err)
		return w.visitor.Entry(e, false)
	}
	e.Info = describe(&st)
	switch e.Info.Type {
	case sandbox.TypeSymlink:
		target, err := readlink(dirfd, name)
		e.Info.Target, e.Err = target, asRefusal(e.Path, err)
	case sandbox.TypeFile:
		if w.opens(e) {
			return w.file(dirfd, name, e)
		}
	case sandbox.TypeDir:
		return w.enter(dirfd, name, e, depth)
	}
	return w.visitor.Entry(e, false)
}

// opens says whether a file's content is wanted.
func (w *walk) opens(e sandbox.Entry) bool {
	if w.req.Names != nil && !w.req.Names[e.Path] {
		return false
	}
	return w.req.Hash || w.wantsContent(e)
}

func (w *walk) wantsContent(e sandbox.Entry) bool {
	return w.req.ContentMax < 0 || (w.req.ContentMax > 0 && e.Info.Bytes <= w.req.ContentMax)
}

func (w *walk) enter(dirfd int, name string, e sandbox.Entry, depth int) error {
	if slices.Contains(w.req.Prune, name) || (w.req.Depth > 0 && depth >= w.req.Depth) {
		return w.visitor.Entry(e, false)
	}
	if depth >= maxOpenDirs {
		e.Err = asRefusal(e.Path, refuse(sandbox.KindTooLarge, e.Path, "The directory is nested too deep to be walked."))
		return w.visitor.Entry(e, false)
	}
	fd, err := unix.Openat(dirfd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		e.Err = asRefusal(e.Path, err)
		return w.visitor.Entry(e, false)
	}
	if err := w.visitor.Entry(e, false); err != nil {
		_ = unix.Close(fd)
		return err
	}
	return w.directory(fd, e.Path+"/", depth+1)
}

// file visits a regular file whose hash or content is wanted. Where both are,
// the file is read twice from one handle: the entry, with the hash, goes
// first.
func (w *walk) file(dirfd int, name string, e sandbox.Entry) error {
	fd, err := unix.Openat(dirfd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		e.Err = asRefusal(e.Path, err)
		return w.visitor.Entry(e, false)
	}
	f, st, err := regular(fd)
	if err != nil {
		e.Err = asRefusal(e.Path, err)
		return w.visitor.Entry(e, false)
	}
	defer f.Close()
	e.Info = describe(st)
	if w.buf == nil {
		w.buf = make([]byte, 64<<10)
	}
	if w.req.Hash {
		sum := sha256.New()
		err := w.read(f, e, func(p []byte) error { sum.Write(p); return nil })
		if err != nil {
			e.Err = asRefusal(e.Path, err)
			return w.visitor.Entry(e, false)
		}
		e.Hash = hexHash(sum)
	}
	if !w.wantsContent(e) {
		return w.visitor.Entry(e, false)
	}
	if err := w.visitor.Entry(e, true); err != nil {
		return err
	}
	err = w.read(f, e, w.visitor.Content)
	var failed *sandbox.Error
	if err != nil && !errors.As(err, &failed) {
		return err // the visitor's
	}
	return w.visitor.ContentEnd(err)
}

// read gives the first e.Info.Bytes bytes of f to sink.
func (w *walk) read(f *os.File, e sandbox.Entry, sink func([]byte) error) error {
	reading := &Reading{Info: e.Info, file: f, req: sandbox.ReadRequest{Path: e.Path, Limit: e.Info.Bytes, NoHash: true}}
	_, err := reading.Copy(w.buf, sink)
	return err
}

// asRefusal is translate for the error of an entry.
func asRefusal(path string, err error) *sandbox.Error {
	var refused *sandbox.Error
	if errors.As(translate(path, err), &refused) {
		return refused
	}
	return nil
}
