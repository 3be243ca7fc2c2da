// Package workspace does the agent's file work: everything through a handle
// of the workspace directory, so that no symlink, no "..", and no race leads
// out of it.
//
// A path is resolved by openat2 with RESOLVE_BENEATH in one system call, or,
// where the kernel has none (gVisor), step by step by os.Root. Work on a name
// (replace, delete, move) is done relative to a handle of its parent. Files
// are opened with O_NONBLOCK and must then prove to be regular, so that a FIFO
// or device answers at once.
//
// Changes are made with [Root.Apply]. New content is written to a temporary
// name beside the target (hidden from walks), then exchanged with the target
// in one step (RENAME_EXCHANGE), and only then is the displaced file compared
// with what the caller expected: whoever replaced the file in between is found
// out, and the exchange is taken back. Until all changes of a list are made,
// the displaced files are kept, so that a failure can undo them.
//
// The package knows no user: the caller runs it on a thread that has the
// rights of the box's user.
package workspace
