package workspace

import (
	"errors"

	"github.com/sandboxd/sandboxd/sandbox"
	"golang.org/x/sys/unix"
)

// refusals says what an error number means to the caller.
var refusals = []struct {
	errno   unix.Errno
	kind    sandbox.Kind
	message string
}{
	{unix.ENOENT, sandbox.KindNotFound, "There is no such file."},
	{unix.EEXIST, sandbox.KindExists, "Something of that name exists."},
	{unix.ENOTEMPTY, sandbox.KindExists, "The directory is not empty."},
	{unix.EISDIR, sandbox.KindIsDirectory, "It is a directory."},
	{unix.ENOTDIR, sandbox.KindNotDirectory, "Part of the path is not a directory."},
	{unix.EACCES, sandbox.KindPermission, "The box's user may not do that."},
	{unix.EPERM, sandbox.KindPermission, "The box's user may not do that."},
	{unix.EROFS, sandbox.KindReadOnly, "The workspace is read-only."},
	{unix.EXDEV, sandbox.KindPathEscapes, "The path leads out of the workspace."},
	{unix.ELOOP, sandbox.KindNotRegular, "It is a symbolic link."},
	{unix.ENXIO, sandbox.KindNotRegular, "It is not a regular file."},
	{unix.ENODEV, sandbox.KindNotRegular, "It is not a regular file."},
	{unix.ENAMETOOLONG, sandbox.KindInvalid, "The path is too long."},
	{unix.EINVAL, sandbox.KindInvalid, "The file system refuses the path."},
	{unix.ENOSPC, sandbox.KindDiskFull, "There is no space left."},
	{unix.EDQUOT, sandbox.KindDiskFull, "The disk quota is used up."},
	{unix.EFBIG, sandbox.KindTooLarge, "The file is larger than the box allows."},
}

// translate turns a system call's error into what the box refuses with.
func translate(p string, err error) error {
	var known *sandbox.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	for _, r := range refusals {
		if errors.Is(err, r.errno) {
			return &sandbox.Error{Kind: r.kind, Path: p, Message: r.message, Cause: err}
		}
	}
	return &sandbox.Error{Kind: sandbox.KindInternal, Path: p, Message: "The file system failed: " + err.Error(), Cause: err}
}
