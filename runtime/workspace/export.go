package workspace

import (
	"archive/tar"
	"context"
	"io"
	"strings"

	"github.com/sandboxd/sandboxd/sandbox"
)

// ExportTar writes the workspace as a tar archive in PAX form, in the order of
// the walk, without owners. Names that are not UTF-8 go into it byte for byte.
// FIFOs, sockets and devices are left out, as is what the box's user may not
// read; the archive then ends with a global PAX comment that names them. A
// file that shrinks while it is read is filled up with zeros, like with other
// tools. Hard links become files of their own.
func ExportTar(ctx context.Context, files sandbox.Files, w io.Writer) (Stats, error) {
	x := &exporter{tar: tar.NewWriter(w)}
	err := files.Walk(ctx, sandbox.WalkRequest{ContentMax: -1}, x.visit)
	if err != nil {
		return x.stats, err
	}
	if len(x.stats.Skipped) > 0 {
		h := &tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: "left-out", Format: tar.FormatPAX,
			PAXRecords: map[string]string{"comment": "left out: " + strings.Join(x.stats.Skipped, ", ")}}
		if err := x.tar.WriteHeader(h); err != nil {
			return x.stats, err
		}
	}
	return x.stats, x.tar.Close()
}

type exporter struct {
	tar   *tar.Writer
	stats Stats
}

func (x *exporter) visit(e sandbox.Entry, content io.Reader) error {
	h := &tar.Header{
		Name: e.Path, Mode: int64(e.Info.Mode.Perm()), ModTime: e.Info.ModTime, Format: tar.FormatPAX,
	}
	// A box that is no longer ours must not write past the directory that
	// somebody unpacks this in.
	if path, err := cleanPath(e.Path); err != nil || path != e.Path || path == "" {
		return &sandbox.Error{Kind: sandbox.KindPathEscapes, Path: e.Path, Message: "The box named a path outside the workspace."}
	}
	switch {
	case e.Err != nil:
		x.skip(e.Path, "cannot be read")
		return nil //nolint:nilerr // what cannot be read is left out and told, not an end of the archive
	case e.Info.Type == sandbox.TypeDir:
		h.Typeflag, h.Name = tar.TypeDir, e.Path+"/"
		x.stats.Directories++
	case e.Info.Type == sandbox.TypeSymlink:
		h.Typeflag, h.Linkname = tar.TypeSymlink, e.Info.Target
		x.stats.Symlinks++
	case e.Info.Type == sandbox.TypeFile && content != nil:
		h.Typeflag, h.Size = tar.TypeReg, e.Info.Bytes
		x.stats.Files++
		x.stats.Bytes += h.Size
	default:
		x.skip(e.Path, string(e.Info.Type))
		return nil
	}
	if err := x.tar.WriteHeader(h); err != nil {
		return err
	}
	if h.Typeflag != tar.TypeReg {
		return nil
	}
	n, err := io.Copy(x.tar, io.LimitReader(content, h.Size))
	if err != nil {
		return err
	}
	_, err = io.CopyN(x.tar, zeros{}, h.Size-n)
	return err
}

func (x *exporter) skip(path, why string) {
	x.stats.Skipped = append(x.stats.Skipped, quoted(path)+" ("+why+")")
}

// zeros is an endless source of them.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
