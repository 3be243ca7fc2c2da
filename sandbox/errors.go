package sandbox

import (
	"errors"
	"fmt"
)

// Kind says what went wrong in a box, as a closed list that also crosses the
// agent's wire: append only.
type Kind string

// The kinds of error.
const (
	KindNotFound             Kind = "not_found"
	KindExists               Kind = "exists"
	KindNotRegular           Kind = "not_regular"
	KindIsDirectory          Kind = "is_directory"
	KindNotDirectory         Kind = "not_directory"
	KindPermission           Kind = "permission"
	KindReadOnly             Kind = "read_only"
	KindPathEscapes          Kind = "path_escapes"
	KindInvalid              Kind = "invalid"
	KindHashMismatch         Kind = "hash_mismatch"
	KindTooLarge             Kind = "too_large"
	KindDiskFull             Kind = "disk_full"
	KindPidsLimit            Kind = "pids_limit"
	KindCommandNotFound      Kind = "command_not_found"
	KindCommandNotExecutable Kind = "command_not_executable"
	KindBadDir               Kind = "bad_dir"
	KindNoProcess            Kind = "no_process"
	KindCancelled            Kind = "cancelled"
	KindUnsupported          Kind = "unsupported"
	KindImageMissing         Kind = "image_missing"
	KindUnavailable          Kind = "unavailable"
	KindInternal             Kind = "internal"
)

// Kinds lists every kind, for round-trip tests.
func Kinds() []Kind {
	return []Kind{
		KindNotFound, KindExists, KindNotRegular, KindIsDirectory, KindNotDirectory,
		KindPermission, KindReadOnly, KindPathEscapes, KindInvalid, KindHashMismatch,
		KindTooLarge, KindDiskFull, KindPidsLimit, KindCommandNotFound,
		KindCommandNotExecutable, KindBadDir, KindNoProcess, KindCancelled,
		KindUnsupported, KindImageMissing, KindUnavailable, KindInternal,
	}
}

// Error is what a box or driver refuses with. Message is a sentence for a
// person and holds no host path; Cause is for the log.
type Error struct {
	Kind    Kind
	Path    string // the path concerned, as given, or ""
	Message string
	// CurrentHash is the file's hash where Kind is KindHashMismatch; "" when
	// the file does not exist.
	CurrentHash string
	Cause       error
}

func (e *Error) Error() string {
	switch {
	case e.Message != "":
		return e.Message
	case e.Path != "":
		return fmt.Sprintf("%s: %q", e.Kind, e.Path)
	}
	return string(e.Kind)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// KindOf returns the kind of the first *Error in err's chain, KindInternal for
// any other error, and "" for nil.
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return KindInternal
}
