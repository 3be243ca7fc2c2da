package workspace

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/sandbox"
)

// ImportTar unpacks a tar archive, plain or compressed by gzip or zstd, into
// the workspace. The archive is first kept in a temporary file in tempDir (""
// is the system's) and looked through from end to end: an entry that is
// absolute, holds ".." or NUL, is a hard link, a device or a FIFO, is a symlink
// that leads out, comes twice or through a link, and an archive above the
// limits or at odds with what is in the workspace (a file where a directory
// is), is refused with a *runtime.Problem before anything is written. Only what
// the box itself refuses while it is filled (a full disk) leaves earlier
// entries behind; such an error is a *sandbox.Error. Existing files are
// replaced, others stay. Owners, setuid bits and extended attributes are not
// taken over.
func ImportTar(ctx context.Context, files sandbox.Files, r io.Reader, tempDir string, limits Limits) (Stats, error) {
	spool, err := newSpool(ctx, r, tempDir, limits)
	if err != nil {
		return Stats{}, err
	}
	defer func() { _ = spool.Close() }() // a file without a name: nothing to lose
	var stats Stats
	entries, err := readPlan(spool, limits, &stats)
	if err != nil {
		return Stats{}, err
	}
	if err := checkPlace(ctx, files, entries); err != nil {
		return Stats{}, err
	}
	return stats, fillFromTar(ctx, files, spool, limits, entries)
}

// newSpool keeps the upload in a file that has no name any more.
func newSpool(ctx context.Context, r io.Reader, dir string, limits Limits) (*os.File, error) {
	f, err := os.CreateTemp(dir, "upload-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	// Headers and padding come on top of the content: at most 4 KiB an entry,
	// more only with long names, which a compressed or small archive has.
	most := limits.TotalBytes + 4096*int64(limits.Entries)
	n, err := io.Copy(f, io.LimitReader(contextReader{ctx, r}, most+1))
	switch {
	case err != nil:
		return nil, errors.Join(err, f.Close())
	case n == 0:
		return nil, errors.Join(runtime.Problemf(runtime.ProblemBadRequest,
			"The body is empty. Send a tar archive, plain or compressed by gzip or zstd."), f.Close())
	case n > most:
		return nil, errors.Join(tooLarge("The archive has more than %d bytes.", most), f.Close())
	}
	return f, nil
}

// contextReader ends with its context.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}

// readPlan looks through the whole archive, content and trailer included.
func readPlan(spool *os.File, limits Limits, stats *Stats) ([]planned, error) {
	a, err := openArchive(spool, limits)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	p := newPlan(limits)
	var entries []planned
	for {
		e, err := a.next()
		if errors.Is(err, io.EOF) {
			return entries, a.end()
		}
		if err != nil {
			return nil, err
		}
		if e.path == "" {
			continue // the workspace itself
		}
		if err := p.add(e); err != nil {
			return nil, err
		}
		stats.add(e)
		entries = append(entries, e)
	}
}

// fillFromTar reads the archive once more and hands each entry to the box. It
// goes by the plan: what is written is what was checked.
func fillFromTar(ctx context.Context, files sandbox.Files, spool *os.File, limits Limits, entries []planned) error {
	a, err := openArchive(spool, limits)
	if err != nil {
		return err
	}
	defer a.Close()
	i := 0
	_, err = files.Fill(ctx, func() (sandbox.Entry, io.Reader, error) {
		if i == len(entries) {
			return sandbox.Entry{}, nil, io.EOF
		}
		for {
			e, err := a.next()
			if err != nil {
				return sandbox.Entry{}, nil, noEOF(err)
			}
			if e.path == "" {
				continue
			}
			if e != entries[i] {
				return sandbox.Entry{}, nil, errors.New("workspace: the spooled archive changed while it was read")
			}
			i++
			if e.kind != kindFile {
				return e.entry(), nil, nil
			}
			return e.entry(), a.content(), nil
		}
	})
	return err
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// entry is the planned entry as a box takes it.
func (e planned) entry() sandbox.Entry {
	t := sandbox.TypeFile
	switch e.kind {
	case kindDir:
		t = sandbox.TypeDir
	case kindSymlink:
		t = sandbox.TypeSymlink
	}
	return sandbox.Entry{Path: e.path, Info: sandbox.FileInfo{
		Type: t, Bytes: e.size, Mode: e.mode, ModTime: e.modTime, Target: e.target,
	}}
}

// planOf checks the form of one header. Its path is "" where there is nothing
// to make.
func planOf(h *tar.Header) (planned, error) {
	e := planned{size: h.Size, mode: h.FileInfo().Mode().Perm(), modTime: h.ModTime}
	switch h.Typeflag {
	case tar.TypeXGlobalHeader:
		return planned{}, nil
	case tar.TypeReg, tar.TypeGNUSparse:
		e.kind = kindFile
	case tar.TypeDir:
		e.kind, e.size, e.mode = kindDir, 0, e.mode|ownDir
	case tar.TypeSymlink:
		e.kind, e.size, e.target = kindSymlink, 0, h.Linkname
	case tar.TypeLink:
		return planned{}, refused(h.Name, "it is a hard link; pack it as a file.")
	default:
		return planned{}, refused(h.Name, "it is a device, a FIFO or of another special type.")
	}
	path, err := cleanPath(h.Name)
	if err != nil {
		return planned{}, err
	}
	if path == "" && e.kind != kindDir {
		return planned{}, refused(h.Name, "it would replace the workspace itself.")
	}
	e.path = path
	return e, nil
}
