package runtime

import (
	"encoding/base64"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/sandbox"
)

// boxFaults is the one table from what a box refuses to what a model is told.
// %s stands for the path concerned.
var boxFaults = map[sandbox.Kind]struct {
	code    Code
	message string
}{
	sandbox.KindNotFound:             {CodeFileNotFound, "%s does not exist. List its directory, or search for the name, and call again with a path that exists."},
	sandbox.KindExists:               {CodeFileExists, "%s exists already and was left as it is. Choose another path, or change that file with its baseHash."},
	sandbox.KindNotRegular:           {CodeNotRegularFile, "%s is not a regular file (a link, FIFO, socket or device). Name the regular file itself."},
	sandbox.KindIsDirectory:          {CodeIsDirectory, "%s is a directory. Name a file below it; file.list shows them."},
	sandbox.KindNotDirectory:         {CodeNotDirectory, "%s, or a parent of it, is not a directory. Check the path with file.list."},
	sandbox.KindPermission:           {CodePermissionDenied, "The box's user has no permission for %s. Work on another path; the same call will fail again."},
	sandbox.KindReadOnly:             {CodeReadOnlyWorkspace, "The workspace is read-only in this run, so %s was not changed. Report what you would change instead."},
	sandbox.KindPathEscapes:          {CodePathTraversal, "%s leads out of the workspace, directly or through a link. Give a path that stays below it."},
	sandbox.KindInvalid:              {CodePathInvalid, "The box cannot take %s as a path: it is empty, too long or holds a NUL. Give another path."},
	sandbox.KindHashMismatch:         {CodeBaseHashMismatch, "%s changed since it was read, and nothing was written. Read it again and repeat the change with the hash that the read returns."},
	sandbox.KindTooLarge:             {CodeFileTooLarge, "%s is larger than this tool handles. Ask for a part of it."},
	sandbox.KindDiskFull:             {CodeDiskQuota, "The workspace is full, and %s was not written. Delete what is not needed and call again."},
	sandbox.KindPidsLimit:            {CodePidsLimit, "The box has no room for another process. Wait for running commands to end, or end one, then call again."},
	sandbox.KindCommandNotFound:      {CodeCommandNotFound, "The program %s is not in the box. Use one that the image has."},
	sandbox.KindCommandNotExecutable: {CodeCommandNotExecutable, "%s cannot be executed: no execute permission, or not a program for this machine. Run it through its interpreter, or set its mode."},
	sandbox.KindBadDir:               {CodeCwdInvalid, "The working directory %s does not exist in the workspace or is not a directory. Give an existing one, relative to the workspace."},
	sandbox.KindNoProcess:            {CodeProcessNotFound, "There is no such process in this run; it may have ended. Start it again if it is needed."},
	sandbox.KindCancelled:            {CodeCancelled, "The call was cancelled before it was done."},
	sandbox.KindUnsupported:          {CodeUnsupported, "This box cannot do that for %s. Find another way; the same call will fail again."},
	sandbox.KindImageMissing:         {CodeSandboxUnavailable, "The image of this run is not there. An operator has to build or pull it."},
	sandbox.KindUnavailable:          {CodeSandboxUnavailable, "The box of this run cannot be reached. Try once more; if it fails again, create a new run."},
}

// BoxFault says in a code and a sentence what a box refused. A fault in err's
// chain is returned as it is; an error that is no box's, and a box's internal
// failure, become the template of CodeInternal with err as cause. nil is nil.
func BoxFault(err error) *Fault {
	if err == nil {
		return nil
	}
	box, ok := asBoxError(err)
	if !ok {
		return AsFault(err)
	}
	row, ok := boxFaults[box.Kind]
	if !ok {
		return AsFault(err)
	}
	fault := &Fault{Code: row.code, Message: strings.ReplaceAll(row.message, "%s", showPath(box.Path)), Cause: err}
	if box.Kind == sandbox.KindHashMismatch {
		fault.Structured = staleFile(box)
		if box.CurrentHash == "" {
			fault.Message = showPath(box.Path) + " is gone: it was deleted or moved since it was read. List the directory, and create the file anew without baseHash if it is still wanted."
		}
	}
	return fault
}

// asBoxError finds a box's error unless a fault comes first in the chain.
func asBoxError(err error) (*sandbox.Error, bool) {
	for ; err != nil; err = unwrap(err) {
		switch e := err.(type) { //nolint:errorlint // the chain is walked here, link by link
		case *Fault:
			return nil, false
		case *sandbox.Error:
			return e, true
		}
	}
	return nil, false
}

func unwrap(err error) error {
	if u, ok := err.(interface{ Unwrap() error }); ok {
		return u.Unwrap()
	}
	return nil
}

// staleFile is what a caller with an old hash needs to go on.
func staleFile(e *sandbox.Error) map[string]any {
	stale := map[string]any{"path": strings.ToValidUTF8(e.Path, "\uFFFD"), "currentHash": e.CurrentHash}
	if !utf8.ValidString(e.Path) {
		stale["pathBase64"] = base64.StdEncoding.EncodeToString([]byte(e.Path))
	}
	return stale
}

// showPath renders a path for a sentence, its odd bytes escaped.
func showPath(path string) string {
	if path == "" {
		return "the path"
	}
	return quote(path)
}

// quote puts a path into quotes with control and non-UTF-8 bytes escaped.
func quote(path string) string {
	const most = 300
	if len(path) > most {
		path = path[:most] + "…"
	}
	return strconv.Quote(path)
}
