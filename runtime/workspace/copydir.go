package workspace

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox"
)

// CopyDir copies a directory of the host into the workspace: regular files,
// directories, and symlinks that stay inside. The caller has resolved and
// allowed hostDir. It is read through a directory handle, so that no link and
// no race leads out of it; FIFOs, devices, sockets, links that lead out and
// what cannot be read are left out and named in Stats.Skipped. Above the
// limits, or where something else is in the way, nothing is written.
func CopyDir(ctx context.Context, files sandbox.Files, hostDir string, limits Limits) (Stats, error) {
	root, err := os.OpenRoot(hostDir)
	if err != nil {
		return Stats{}, err
	}
	defer func() { _ = root.Close() }() // opened for reading
	var stats Stats
	entries, err := planDir(ctx, root, limits, &stats)
	if err != nil {
		return Stats{}, err
	}
	if err := checkPlace(ctx, files, entries); err != nil {
		return Stats{}, err
	}
	c := &dirCopy{root: root, entries: entries, stats: &stats, left: limits.TotalBytes}
	defer c.closeFile()
	_, err = files.Fill(ctx, c.next)
	return stats, err
}

func planDir(ctx context.Context, root *os.Root, limits Limits, stats *Stats) ([]planned, error) {
	p := newPlan(limits)
	var entries []planned
	err := fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if path == "." {
			return err
		}
		if err != nil {
			stats.skip(path, "cannot be read")
			return nil //nolint:nilerr // what cannot be read is left out and told, not an end of the copy
		}
		e, why := planHost(root, path, d)
		if why != "" {
			stats.skip(path, why)
			return nil
		}
		if err := p.add(e); err != nil {
			return err
		}
		entries = append(entries, e)
		return nil
	})
	return entries, err
}

// planHost describes one path of the host, or says why it is left out.
func planHost(root *os.Root, path string, d fs.DirEntry) (planned, string) {
	info, err := d.Info()
	if err != nil {
		return planned{}, "cannot be read"
	}
	e := planned{path: path, mode: info.Mode().Perm(), modTime: info.ModTime()}
	switch info.Mode().Type() {
	case 0:
		e.size = info.Size()
	case fs.ModeDir:
		e.kind, e.mode = kindDir, e.mode|ownDir
	case fs.ModeSymlink:
		e.kind = kindSymlink
		if e.target, err = root.Readlink(path); err != nil {
			return planned{}, "cannot be read"
		}
		return e, checkTarget(path, e.target)
	default:
		return planned{}, "is no file, directory or link"
	}
	return e, ""
}

func (s *Stats) skip(path, why string) {
	s.Skipped = append(s.Skipped, quoted(path)+": "+why)
}

// dirCopy hands the planned entries to Fill, with one file open at a time.
type dirCopy struct {
	root    *os.Root
	entries []planned
	stats   *Stats
	file    *os.File
	left    int64 // files that grow while they are copied stay bounded
}

func (c *dirCopy) next() (sandbox.Entry, io.Reader, error) {
	c.closeFile()
	for len(c.entries) > 0 {
		e := c.entries[0]
		c.entries = c.entries[1:]
		if e.kind != kindFile {
			c.stats.add(e)
			return e.entry(), nil, nil
		}
		f, size, err := openRegular(c.root, e.path)
		if err != nil {
			c.stats.skip(e.path, "cannot be read")
			continue
		}
		c.file, e.size = f, size
		if c.left -= size; c.left < 0 {
			return sandbox.Entry{}, nil, tooLarge("The directory grew while it was copied.")
		}
		c.stats.add(e)
		return e.entry(), io.LimitReader(f, size), nil
	}
	return sandbox.Entry{}, nil, io.EOF
}

func (c *dirCopy) closeFile() {
	if c.file != nil {
		_ = c.file.Close() // it was read
		c.file = nil
	}
}

// openRegular opens a file without following a link or waiting for a FIFO that
// took its place.
func openRegular(root *os.Root, path string) (*os.File, int64, error) {
	f, err := root.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}
