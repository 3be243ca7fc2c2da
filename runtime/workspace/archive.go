package workspace

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/sandboxd/sandboxd/runtime"
)

// maxWindow bounds the memory of a zstd decoder (bytes); every level of the
// usual tool but --ultra and --long stays below it.
const maxWindow = 32 << 20

// archive reads a spooled archive from its start.
type archive struct {
	tar   *tar.Reader
	plain *meter // what came out of decompression
	close func()
}

// The first bytes of the formats that people send.
var formats = []struct {
	magic []byte
	name  string
	known bool
}{
	{[]byte{0x1f, 0x8b}, "gzip", true},
	{[]byte{0x28, 0xb5, 0x2f, 0xfd}, "zstd", true},
	{[]byte("BZh"), "bzip2", false},
	{[]byte{0xfd, '7', 'z', 'X', 'Z', 0}, "xz", false},
	{[]byte("PK\x03\x04"), "zip", false},
	{[]byte{'7', 'z', 0xbc, 0xaf}, "7z", false},
	{[]byte("Rar!"), "rar", false},
}

// formatOf tells the compression of a file by its first bytes.
func formatOf(head []byte) (string, error) {
	for _, f := range formats {
		if !bytes.HasPrefix(head, f.magic) {
			continue
		}
		if !f.known {
			return "", runtime.Problemf(runtime.ProblemMediaType,
				"The body is %s. Send a tar archive, plain or compressed by gzip or zstd.", f.name)
		}
		return f.name, nil
	}
	return "tar", nil
}

func openArchive(spool *os.File, limits Limits) (*archive, error) {
	head := make([]byte, 16)
	n, err := spool.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	format, err := formatOf(head[:n])
	if err != nil {
		return nil, err
	}
	if _, err := spool.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	info, err := spool.Stat()
	if err != nil {
		return nil, err
	}
	a := &archive{close: func() {}, plain: &meter{r: spool, most: -1}}
	switch format {
	case "gzip":
		z, err := gzip.NewReader(spool)
		if err != nil {
			return nil, corrupt(err)
		}
		a.plain.r = z
	case "zstd":
		z, err := zstd.NewReader(spool, zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, corrupt(err)
		}
		a.plain.r, a.close = z, z.Close
	}
	if format != "tar" {
		a.plain.most = max(limits.RatioFloor, info.Size()*limits.Ratio)
	}
	a.tar = tar.NewReader(a.plain)
	return a, nil
}

// Close releases the decoder.
func (a *archive) Close() { a.close() }

// next returns the next entry, or io.EOF. An entry's content that nobody read
// is passed over, but it is read, so that a bomb is found.
func (a *archive) next() (planned, error) {
	h, err := a.tar.Next()
	switch {
	case errors.Is(err, io.EOF):
		return planned{}, io.EOF
	case err != nil:
		return planned{}, corrupt(err)
	}
	return planOf(h)
}

// content is that of the entry at hand.
func (a *archive) content() io.Reader { return a.tar }

// end demands that nothing but zeros follows the archive: what one program
// takes as its end another may read on from. It also makes the decoder check
// its sums.
func (a *archive) end() error {
	buf := make([]byte, 32<<10)
	for {
		n, err := a.plain.Read(buf)
		if len(bytes.Trim(buf[:n], "\x00")) > 0 {
			return corrupt(errors.New("something follows the end of the archive"))
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return corrupt(err)
		}
	}
}

// corrupt is the problem of an archive that cannot be read; a problem that was
// met while reading passes as it is.
func corrupt(err error) error {
	if p, ok := errors.AsType[*runtime.Problem](err); ok {
		return p
	}
	return &runtime.Problem{
		Code: runtime.ProblemBadRequest, Cause: err,
		Detail: "The archive cannot be read: it is damaged, cut short, or no tar. Nothing was unpacked.",
	}
}

// meter counts what is read and ends it with a problem above most bytes; a
// negative most is no bound.
type meter struct {
	r    io.Reader
	n    int64
	most int64
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	if m.n += int64(n); m.most >= 0 && m.n > m.most {
		return 0, tooLarge("The archive grows beyond what its compressed size explains.")
	}
	return n, err
}
