package workspace

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"os"

	"github.com/sandboxd/sandboxd/sandbox"
)

const hashPrefix = "sha256:"

// A Reading is an open file that is about to be read.
type Reading struct {
	Info sandbox.FileInfo
	file *os.File
	req  sandbox.ReadRequest
}

// Read opens the file that req names.
func (r *Root) Read(req sandbox.ReadRequest) (*Reading, error) {
	c, err := clean(req.Path)
	if err != nil {
		return nil, err
	}
	if req.Offset < 0 || req.Limit < 0 || req.Limit > sandbox.MaxReadBytes {
		return nil, refuse(sandbox.KindInvalid, req.Path, "The part of the file that was asked for is not possible.")
	}
	f, st, err := r.openRegular(c)
	if err != nil {
		return nil, translate(req.Path, err)
	}
	return &Reading{Info: describe(st), file: f, req: req}, nil
}

// Close gives the file back.
func (r *Reading) Close() error { return r.file.Close() }

// Copy gives the part that was asked for to sink, through buf, and returns the
// hash of the whole file ("" if it was not wanted). The part and the hash come
// from one pass over one handle.
func (r *Reading) Copy(buf []byte, sink func([]byte) error) (string, error) {
	// The file's size when it was opened bounds the work: a file that grows
	// for ever does not hold the reader.
	from, end := r.req.Offset, r.Info.Bytes
	to := min(end, from+r.req.Limit)
	var sum hash.Hash
	at, stop := from, to
	if !r.req.NoHash {
		sum, at, stop = sha256.New(), 0, end
	}
	for at < stop {
		chunk := buf[:min(int64(len(buf)), stop-at)]
		n, err := r.file.ReadAt(chunk, at)
		if sum != nil {
			sum.Write(chunk[:n])
		}
		lo, hi := max(from, at), min(to, at+int64(n))
		if lo < hi {
			if err := sink(chunk[lo-at : hi-at]); err != nil {
				return "", err
			}
		}
		at += int64(n)
		if err == io.EOF {
			break
		}
		if err != nil {
			return "", translate(r.req.Path, err)
		}
	}
	if sum == nil {
		return "", nil
	}
	return hexHash(sum), nil
}

func hexHash(sum hash.Hash) string { return hashPrefix + hex.EncodeToString(sum.Sum(nil)) }

// hashFile hashes a whole file from its start.
func hashFile(f *os.File) (string, error) {
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(f, 0, 1<<62)); err != nil {
		return "", err
	}
	return hexHash(sum), nil
}
