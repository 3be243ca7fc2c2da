package fs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tools/fs/text"
)

// The bounds of a file that is changed as text: it is held whole, as bytes and
// as lines.
const (
	maxEditBytes = 8 << 20
	maxEditLines = 500_000
)

// hashOf is the hash by which files are named everywhere.
func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// load reads a whole file that is to be changed, and its hash.
func load(ctx context.Context, g *runtime.Grant, path string) (data []byte, hash string, err error) {
	r, err := g.Box().Files().Read(ctx, sandbox.ReadRequest{Path: path, Limit: maxEditBytes + 1, NoHash: true})
	if err != nil {
		return nil, "", runtime.BoxFault(err)
	}
	if len(r.Data) > maxEditBytes {
		return nil, "", runtime.Faultf(runtime.CodeFileTooLarge, "%q has %d bytes; this tool changes files of up to %d. Use a command in the box.", path, r.Info.Bytes, maxEditBytes)
	}
	return r.Data, hashOf(r.Data), nil
}

// loadText is load for a change of text: binary files are refused.
func loadText(ctx context.Context, g *runtime.Grant, path string) (data []byte, hash string, err error) {
	if data, hash, err = load(ctx, g, path); err != nil {
		return nil, "", err
	}
	s := text.NewScanner()
	s.Write(data)
	if s.Encoding() == text.Binary {
		return nil, "", runtime.Faultf(runtime.CodeBinaryFile, "%q is binary. Write it whole with file.write and encoding base64, or use a command in the box.", path)
	}
	if s.Lines() > maxEditLines {
		return nil, "", runtime.Faultf(runtime.CodeFileTooLarge, "%q has %d lines; this tool changes files of up to %d. Use a command in the box.", path, s.Lines(), maxEditLines)
	}
	return data, hash, nil
}

// stale is the fault of a base hash that is not the file's.
func stale(path, current string) *runtime.Fault {
	return runtime.BoxFault(&sandbox.Error{Kind: sandbox.KindHashMismatch, Path: path, CurrentHash: current})
}

// baseRequired is the fault of a change to an existing file without a base.
func baseRequired(path string) *runtime.Fault {
	return &runtime.Fault{
		Code:       runtime.CodeBaseHashRequired,
		Message:    nameOf(path).Path + " exists, and an existing file is changed only with its baseHash. Read it with file.read, look at what it holds, and call again with the hash from that result.",
		Structured: nameOf(path),
	}
}

// asBoxError finds what a box refused with.
func asBoxError(err error) (*sandbox.Error, bool) { return errors.AsType[*sandbox.Error](err) }
