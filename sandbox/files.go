package sandbox

import (
	"context"
	"io"
	"io/fs"
	"time"
)

// Files is file work inside a box. It is done by the agent with the rights of
// the box's unprivileged user, through directory handles: no symlink, no
// "..", and no race leads out of the workspace. Only regular files are read
// and written; a FIFO, device or socket is KindNotRegular at once.
type Files interface {
	// Stat describes one path without following a final symlink.
	Stat(ctx context.Context, path string) (FileInfo, error)
	// Read reads part of a regular file and, unless told otherwise, the hash of
	// the whole of it, all from one open handle.
	Read(ctx context.Context, req ReadRequest) (ReadResult, error)
	// Walk visits what is below a directory in lexical order, the directory
	// itself excluded. An entry that cannot be read is visited with Err set;
	// it does not end the walk. content is nil unless asked for, and is valid
	// only during the call. An error of visit ends the walk and is returned.
	Walk(ctx context.Context, req WalkRequest, visit func(e Entry, content io.Reader) error) error
	// Apply makes all changes or none. Every precondition is checked against
	// the very file that is replaced: of two concurrent writers with the same
	// base, one gets KindHashMismatch. Readers see the old file or the new one,
	// never a part. If a later step fails, the earlier ones are rolled back.
	Apply(ctx context.Context, changes []Change) ([]Applied, error)
	// Fill creates directories, regular files and symlinks from a stream, for
	// uploads and copies; next returns io.EOF at the end. Missing parents are
	// made; an existing file is replaced; a path that leads out of the
	// workspace ends it with KindPathEscapes. It returns the number of entries
	// made, also on error.
	Fill(ctx context.Context, next func() (Entry, io.Reader, error)) (int, error)
}

// FileInfo describes a file.
type FileInfo struct {
	Type    FileType
	Bytes   int64
	Mode    fs.FileMode // permission bits only
	ModTime time.Time
	Links   uint64
	// Target is where a symlink points, uninterpreted.
	Target string
}

// FileType is a closed list.
type FileType string

// The types of file.
const (
	TypeFile    FileType = "file"
	TypeDir     FileType = "dir"
	TypeSymlink FileType = "symlink"
	TypeFIFO    FileType = "fifo"
	TypeSocket  FileType = "socket"
	TypeDevice  FileType = "device"
)

// ReadRequest asks for bytes [Offset, Offset+Limit) of a regular file. A final
// symlink is followed as long as it stays inside the workspace.
type ReadRequest struct {
	Path   string
	Offset int64
	// Limit is the most bytes to return; at most MaxReadBytes.
	Limit int64
	// NoHash leaves the hash out, for files larger than the caller cares for.
	NoHash bool
}

// MaxReadBytes is the most that one Read returns.
const MaxReadBytes = 64 << 20

// ReadResult is what a Read found.
type ReadResult struct {
	Info FileInfo
	Data []byte
	// Hash is "sha256:" and the lower-case hex digest of the whole file.
	Hash string
}

// WalkRequest asks for a walk below Path ("" is the workspace).
type WalkRequest struct {
	Path string
	// Depth is how deep to go: 1 is the directory's own entries, 0 no bound.
	Depth int
	// Prune holds base names of directories that are visited, not entered.
	Prune []string
	// Hash fills Entry.Hash of regular files.
	Hash bool
	// ContentMax, when not zero, delivers the content of regular files of at
	// most that many bytes; negative means of any size.
	ContentMax int64
	// Names restricts content and hash to these paths, when not nil.
	Names map[string]bool
}

// Entry is one visited or created path.
type Entry struct {
	Path string
	Info FileInfo
	Hash string
	// Err says why the entry could not be read, or is nil.
	Err *Error
}

// ChangeOp is what a Change does.
type ChangeOp string

// The kinds of change.
const (
	OpWrite  ChangeOp = "write"
	OpDelete ChangeOp = "delete"
	OpMove   ChangeOp = "move"
)

// A Change is one step of Apply. Parents that are missing are made; a symlink
// at Path itself is refused with KindNotRegular.
type Change struct {
	Op   ChangeOp
	Path string
	// To is where OpMove moves to. It must not exist. With Data non-nil the
	// moved file also gets new content.
	To   string
	Base Precondition
	Data []byte
	// Mode holds permission bits; 0 keeps those of the file, or is 0644 (less
	// nothing: there is no umask) for a new one.
	Mode fs.FileMode
}

// Precondition is what must hold of a file for it to be changed. The zero
// value demands nothing.
type Precondition struct {
	// Hash, when set, must be the file's hash; the file must exist.
	Hash string
	// Absent demands that nothing is there.
	Absent bool
}

// Applied tells what a Change did.
type Applied struct {
	Path    string
	Created bool
	// OldHash is "" for a created file, Hash is "" for a deleted one.
	OldHash, Hash string
	Bytes         int64
}
