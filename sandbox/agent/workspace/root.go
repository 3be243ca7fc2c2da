package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/sandboxd/sandboxd/sandbox"
	"golang.org/x/sys/unix"
)

// Root is a workspace. It is safe for concurrent use.
type Root struct {
	dir      *os.File
	root     *os.Root // set where openat2 is missing
	readOnly bool

	// changes lets one list of changes happen at a time, so that writers
	// through the agent never meet between check and exchange, by whatever
	// path they name a file.
	changes sync.Mutex
}

// Open opens the workspace at path.
func Open(path string, readOnly bool) (*Root, error) {
	dir, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("workspace: %w", err)
	}
	r := &Root{dir: dir, readOnly: readOnly}
	fd, err := r.openat2(".", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err == nil {
		return r, unix.Close(fd)
	}
	if r.root, err = os.OpenRoot(path); err != nil {
		_ = dir.Close()
		return nil, fmt.Errorf("workspace: %w", err)
	}
	return r, nil
}

// Close gives the handle back.
func (r *Root) Close() error {
	if r.root != nil {
		return errors.Join(r.root.Close(), r.dir.Close())
	}
	return r.dir.Close()
}

// resolveTries bounds the repeats that RESOLVE_BENEATH asks for when a rename
// or mount happened meanwhile.
const resolveTries = 64

func (r *Root) openat2(path string, flags uint64, mode uint32) (int, error) {
	how := &unix.OpenHow{Flags: flags, Mode: uint64(mode), Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	for try := 0; ; try++ {
		fd, err := unix.Openat2(int(r.dir.Fd()), path, how)
		if (errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR)) && try < resolveTries {
			continue
		}
		return fd, err
	}
}

// open resolves a cleaned path and returns a close-on-exec descriptor.
func (r *Root) open(path string, flags int, mode uint32) (int, error) {
	if r.root == nil {
		return r.openat2(path, uint64(flags|unix.O_CLOEXEC), mode)
	}
	f, err := r.root.OpenFile(path, flags, fs.FileMode(mode))
	if err != nil {
		var number syscall.Errno
		if !errors.As(err, &number) {
			return -1, unix.EXDEV // os.Root's "path escapes from parent"
		}
		return -1, err
	}
	defer f.Close()
	return unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
}

// Dir returns a handle of a directory, for a command to start in. The caller
// closes it.
func (r *Root) Dir(path string) (int, error) {
	c, err := clean(path)
	if err != nil {
		return -1, err
	}
	fd, err := r.open(c, unix.O_PATH|unix.O_DIRECTORY, 0)
	return fd, translate(path, err)
}

// parent returns a handle of the directory that holds a cleaned path's last
// name.
func (r *Root) parent(path string) (fd int, base string, err error) {
	dir, base := split(path)
	fd, err = r.open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	return fd, base, err
}

// openRegular opens for reading what must be a regular file.
func (r *Root) openRegular(path string) (*os.File, *unix.Stat_t, error) {
	fd, err := r.open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	return regular(fd)
}

// regular takes fd over if it is of a regular file.
func regular(fd int) (*os.File, *unix.Stat_t, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	if err == nil {
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			// Regular files do not block; the flag would only send every
			// read through the poller.
			err = unix.SetNonblock(fd, false)
		case unix.S_IFDIR:
			err = unix.EISDIR
		default:
			err = unix.ENXIO
		}
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, nil, err
	}
	return os.NewFile(uintptr(fd), "file"), &st, nil
}

// Stat describes one path without following a final symlink.
func (r *Root) Stat(path string) (sandbox.FileInfo, error) {
	c, err := clean(path)
	if err != nil {
		return sandbox.FileInfo{}, err
	}
	fd, err := r.open(c, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return sandbox.FileInfo{}, translate(path, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return sandbox.FileInfo{}, translate(path, err)
	}
	info := describe(&st)
	if info.Type == sandbox.TypeSymlink {
		info.Target, err = readlink(fd, "")
	}
	return info, translate(path, err)
}

func describe(st *unix.Stat_t) sandbox.FileInfo {
	return sandbox.FileInfo{
		Type: fileType(st.Mode), Bytes: st.Size, Mode: fs.FileMode(st.Mode & 0o777),
		ModTime: time.Unix(st.Mtim.Unix()), Links: uint64(st.Nlink), //nolint:unconvert // 32 bits on arm64
	}
}

func fileType(mode uint32) sandbox.FileType {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return sandbox.TypeFile
	case unix.S_IFDIR:
		return sandbox.TypeDir
	case unix.S_IFLNK:
		return sandbox.TypeSymlink
	case unix.S_IFIFO:
		return sandbox.TypeFIFO
	case unix.S_IFSOCK:
		return sandbox.TypeSocket
	}
	return sandbox.TypeDevice
}

func readlink(dirfd int, name string) (string, error) {
	buf := make([]byte, maxPath+1)
	n, err := unix.Readlinkat(dirfd, name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}
