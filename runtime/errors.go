package runtime

import (
	"errors"
	"fmt"
	"slices"
)

// Code is a failure's name on the wire and in the ledger. Closed, append only.
type Code string

// The codes; Codes tells what each means.
const (
	CodeSchemaViolation      Code = "SCHEMA_VIOLATION"
	CodeMalformedArguments   Code = "MALFORMED_ARGUMENTS"
	CodePathTraversal        Code = "PATH_TRAVERSAL"
	CodePathInvalid          Code = "PATH_INVALID"
	CodeCwdInvalid           Code = "CWD_INVALID"
	CodePatternInvalid       Code = "PATTERN_INVALID"
	CodeCommandInvalid       Code = "COMMAND_INVALID"
	CodePatchInvalid         Code = "PATCH_INVALID"
	CodeBaseHashRequired     Code = "BASE_HASH_REQUIRED"
	CodeToolUnknown          Code = "TOOL_UNKNOWN"
	CodeToolVersionMismatch  Code = "TOOL_VERSION_MISMATCH"
	CodeBaseHashMismatch     Code = "BASE_HASH_MISMATCH"
	CodePatchMismatch        Code = "PATCH_MISMATCH"
	CodeFileExists           Code = "FILE_EXISTS"
	CodeFileNotFound         Code = "FILE_NOT_FOUND"
	CodeNotRegularFile       Code = "NOT_REGULAR_FILE"
	CodeIsDirectory          Code = "IS_DIRECTORY"
	CodeNotDirectory         Code = "NOT_DIRECTORY"
	CodeFileTooLarge         Code = "FILE_TOO_LARGE"
	CodeBinaryFile           Code = "BINARY_FILE"
	CodePermissionDenied     Code = "PERMISSION_DENIED"
	CodeReadOnlyWorkspace    Code = "READ_ONLY_WORKSPACE"
	CodeNotARepository       Code = "NOT_A_REPOSITORY"
	CodeGitFailed            Code = "GIT_FAILED"
	CodeCommandNotFound      Code = "COMMAND_NOT_FOUND"
	CodeCommandNotExecutable Code = "COMMAND_NOT_EXECUTABLE"
	CodeProcessNotFound      Code = "PROCESS_NOT_FOUND"
	CodeProcessExitNonzero   Code = "PROCESS_EXIT_NONZERO"
	CodeProcessSignalled     Code = "PROCESS_SIGNALLED"
	CodeOOMKilled            Code = "OOM_KILLED"
	CodePidsLimit            Code = "PIDS_LIMIT"
	CodeDiskQuota            Code = "DISK_QUOTA"
	CodeOutputLimit          Code = "OUTPUT_LIMIT"
	CodeTimeout              Code = "TIMEOUT"
	CodeCancelled            Code = "CANCELLED"
	CodeToolNotExposed       Code = "TOOL_NOT_EXPOSED"
	CodeToolDenied           Code = "TOOL_DENIED"
	CodePermissionNotGranted Code = "PERMISSION_NOT_GRANTED"
	CodeReadScopeDenied      Code = "READ_SCOPE_DENIED"
	CodeWriteScopeDenied     Code = "WRITE_SCOPE_DENIED"
	CodeProtectedPath        Code = "PROTECTED_PATH"
	CodeNetworkNotAllowed    Code = "NETWORK_NOT_ALLOWED"
	CodeApprovalRequired     Code = "APPROVAL_REQUIRED"
	CodeApprovalDenied       Code = "APPROVAL_DENIED"
	CodeApprovalExpired      Code = "APPROVAL_EXPIRED"
	CodeBudgetExhausted      Code = "BUDGET_EXHAUSTED"
	CodeCircuitOpen          Code = "CIRCUIT_OPEN"
	CodeRateLimited          Code = "RATE_LIMITED"
	CodeRunNotActive         Code = "RUN_NOT_ACTIVE"
	CodeSandboxUnavailable   Code = "SANDBOX_UNAVAILABLE"
	CodeServiceRestarted     Code = "SERVICE_RESTARTED"
	CodeLedgerUnavailable    Code = "LEDGER_UNAVAILABLE"
	CodeResultContract       Code = "RESULT_CONTRACT"
	CodeUnsupported          Code = "UNSUPPORTED"
	CodeInternal             Code = "INTERNAL"
	CodeArtifactNotFound     Code = "ARTIFACT_NOT_FOUND"
	CodeOutcomePartial       Code = "PARTIAL_RESULT"
)

// CodeInfo is one row of the table of codes.
type CodeInfo struct {
	Code      Code   `json:"code"`
	Status    Status `json:"status"`
	Class     Class  `json:"class"`
	Retryable bool   `json:"retryable"`
	// HTTP is the equivalent for those who map results themselves.
	HTTP    int    `json:"http"`
	Meaning string `json:"meaning"`
}

// codeTable is the closed table code → status → class → retryable. retryable
// means that the very same call may succeed later.
var codeTable = []CodeInfo{
	{CodeSchemaViolation, InvalidArguments, ClassInvalidArgs, false, 400, "The arguments do not fit the tool's schema."},
	{CodeMalformedArguments, InvalidArguments, ClassInvalidArgs, false, 400, "The arguments are not one JSON object that can be read strictly."},
	{CodePathTraversal, InvalidArguments, ClassInvalidArgs, false, 400, "The path is absolute or leads out of the workspace."},
	{CodePathInvalid, InvalidArguments, ClassInvalidArgs, false, 400, "The path is empty, too long, or holds a NUL."},
	{CodeCwdInvalid, InvalidArguments, ClassInvalidArgs, false, 400, "The working directory is missing or outside the workspace."},
	{CodePatternInvalid, InvalidArguments, ClassInvalidArgs, false, 400, "The regular expression or glob does not compile."},
	{CodeCommandInvalid, InvalidArguments, ClassInvalidArgs, false, 400, "The command is empty or cannot be parsed."},
	{CodePatchInvalid, InvalidArguments, ClassInvalidArgs, false, 400, "The patch cannot be read."},
	{CodeBaseHashRequired, InvalidArguments, ClassInvalidArgs, false, 400, "An existing file is changed only with the baseHash of what was read."},
	{CodeToolUnknown, InvalidArguments, ClassInvalidArgs, false, 404, "No tool has this name."},
	{CodeToolVersionMismatch, InvalidArguments, ClassInvalidArgs, false, 409, "The tool exists in another version."},
	{CodeBaseHashMismatch, Failed, ClassInvalidArgs, false, 409, "The file changed since it was read."},
	{CodePatchMismatch, Failed, ClassInvalidArgs, false, 409, "The patch's context or old text is not in the file, or is there more than once."},
	{CodeFileExists, Failed, ClassInvalidArgs, false, 409, "Something is there already."},
	{CodeFileNotFound, Failed, ClassNotFound, false, 404, "The path does not exist."},
	{CodeNotRegularFile, Failed, ClassNotFound, false, 400, "The path is a FIFO, socket, device or link, not a regular file."},
	{CodeIsDirectory, Failed, ClassInvalidArgs, false, 400, "The path is a directory."},
	{CodeNotDirectory, Failed, ClassInvalidArgs, false, 400, "The path, or a parent of it, is not a directory."},
	{CodeFileTooLarge, Failed, ClassInvalidArgs, false, 413, "The file is larger than this tool handles."},
	{CodeBinaryFile, Failed, ClassInvalidArgs, false, 400, "The file is binary and the tool works on text."},
	{CodePermissionDenied, Failed, ClassNotFound, false, 403, "The box's user may not do this to the file."},
	{CodeReadOnlyWorkspace, Denied, ClassDenied, false, 403, "The workspace is mounted read-only."},
	{CodeNotARepository, Failed, ClassNotFound, false, 404, "There is no git repository there."},
	{CodeGitFailed, Failed, ClassPermanent, false, 500, "git itself failed."},
	{CodeCommandNotFound, Failed, ClassNotFound, false, 404, "The program is not in the box."},
	{CodeCommandNotExecutable, Failed, ClassNotFound, false, 400, "The program cannot be executed."},
	{CodeProcessNotFound, Failed, ClassNotFound, false, 404, "No such background process in this run."},
	{CodeProcessExitNonzero, Failed, ClassOutcome, false, 200, "The command ended with a non-zero exit code."},
	{CodeProcessSignalled, Failed, ClassOutcome, false, 200, "A signal ended the command."},
	{CodeOOMKilled, Failed, ClassOutcome, false, 200, "The kernel killed the command for memory."},
	{CodePidsLimit, Failed, ClassOutcome, true, 429, "The box has no room for another process."},
	{CodeDiskQuota, Failed, ClassPermanent, false, 507, "The workspace or scratch space is full."},
	{CodeOutputLimit, Failed, ClassOutcome, false, 413, "The output exceeded what may be kept."},
	{CodeTimeout, TimedOut, ClassOutcome, false, 504, "The time limit passed; the process tree was killed."},
	{CodeCancelled, Cancelled, ClassOutcome, false, 499, "The call was cancelled."},
	{CodeToolNotExposed, Denied, ClassDenied, false, 403, "The tool is not shown in the run's present state."},
	{CodeToolDenied, Denied, ClassDenied, false, 403, "The run's permissions name this tool as not allowed."},
	{CodePermissionNotGranted, Denied, ClassDenied, false, 403, "The run's permission profile does not grant what the tool needs."},
	{CodeReadScopeDenied, Denied, ClassDenied, false, 403, "The path is outside what this run may read."},
	{CodeWriteScopeDenied, Denied, ClassDenied, false, 403, "The path is outside what this run may change."},
	{CodeProtectedPath, Denied, ClassDenied, false, 403, "The path is protected: repository internals are not written by file tools."},
	{CodeNetworkNotAllowed, Denied, ClassDenied, false, 403, "The run has no network to that target."},
	{CodeApprovalRequired, Denied, ClassDenied, false, 403, "A person must approve this call first."},
	{CodeApprovalDenied, Denied, ClassDenied, false, 403, "A person denied this call."},
	{CodeApprovalExpired, Denied, ClassDenied, false, 403, "Nobody decided in time."},
	{CodeBudgetExhausted, Denied, ClassDenied, false, 429, "The run's budget is spent."},
	{CodeCircuitOpen, Denied, ClassDenied, false, 429, "This call failed too often; stop repeating it."},
	{CodeRateLimited, Denied, ClassDenied, true, 429, "Too many calls in this time."},
	{CodeRunNotActive, Denied, ClassDenied, false, 409, "The run has ended or is stopped."},
	{CodeSandboxUnavailable, Failed, ClassTransient, true, 503, "The box is gone or cannot be reached."},
	{CodeServiceRestarted, Failed, ClassTransient, true, 503, "The service restarted while the call ran."},
	{CodeLedgerUnavailable, Failed, ClassTransient, true, 503, "The ledger cannot record; nothing runs unrecorded."},
	{CodeResultContract, Failed, ClassPermanent, false, 500, "The tool's output broke its own contract."},
	{CodeUnsupported, Failed, ClassPermanent, false, 501, "This is not supported here."},
	{CodeInternal, Failed, ClassPermanent, false, 500, "The service failed; details are in its log."},
	{CodeArtifactNotFound, Failed, ClassNotFound, false, 404, "No such artifact in this run."},
	{CodeOutcomePartial, Partial, ClassOutcome, false, 200, "Some of several effects or answers exist; the result lists them."},
}

// Codes returns a copy of the closed table of codes.
func Codes() []CodeInfo { return slices.Clone(codeTable) }

// Info returns the code's row; an unknown code is CodeInternal's.
func (c Code) Info() CodeInfo {
	for _, row := range codeTable {
		if row.Code == c {
			return row
		}
	}
	return CodeInternal.Info()
}

// A Fault is a refusal or failure with a code. Tools and stages return it
// where the model is to know the reason; any other error becomes CodeInternal
// with a template, and its text goes to the log alone.
type Fault struct {
	Code Code
	// Message is for the model: one or two sentences that say what to do next,
	// without host paths, secrets, or policy detail.
	Message string
	// Structured is put into structuredOutput, where a model can act on it (the
	// current hash, the nearest match).
	Structured any
	// Cause is for the log and the audit record.
	Cause error
}

func (f *Fault) Error() string { return string(f.Code) + ": " + f.Message }

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Cause }

// Faultf makes a fault with a formatted message.
func Faultf(code Code, format string, args ...any) *Fault {
	return &Fault{Code: code, Message: fmt.Sprintf(format, args...)}
}

// A Problem is a protocol failure: the request never became a call, or names
// what does not exist. The API answers it as RFC 9457 problem+json.
type Problem struct {
	Code   ProblemCode
	Detail string
	// RetryAfterSeconds, when positive, is told to the client.
	RetryAfterSeconds int
	// Pointer is the JSON pointer (RFC 6901) of what is wrong, or "".
	Pointer string
	Cause   error
}

func (p *Problem) Error() string { return string(p.Code) + ": " + p.Detail }

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Cause }

// ProblemCode names a protocol failure. Closed, append only.
type ProblemCode string

// The problem codes; ProblemHTTP gives each its HTTP status.
const (
	ProblemBadRequest     ProblemCode = "BAD_REQUEST"
	ProblemUnauthorized   ProblemCode = "UNAUTHORIZED"
	ProblemForbidden      ProblemCode = "FORBIDDEN"
	ProblemMountForbidden ProblemCode = "MOUNT_FORBIDDEN"
	ProblemImageForbidden ProblemCode = "IMAGE_FORBIDDEN"
	ProblemImageMissing   ProblemCode = "IMAGE_MISSING"
	ProblemNotFound       ProblemCode = "NOT_FOUND"
	ProblemMethod         ProblemCode = "METHOD_NOT_ALLOWED"
	ProblemNotAcceptable  ProblemCode = "NOT_ACCEPTABLE"
	ProblemConflict       ProblemCode = "CONFLICT"
	ProblemIdempotency    ProblemCode = "IDEMPOTENCY_CONFLICT"
	ProblemRunNotActive   ProblemCode = "RUN_NOT_ACTIVE"
	ProblemPrecondition   ProblemCode = "PRECONDITION_FAILED"
	ProblemTooLarge       ProblemCode = "BODY_TOO_LARGE"
	ProblemMediaType      ProblemCode = "UNSUPPORTED_MEDIA_TYPE"
	ProblemRange          ProblemCode = "RANGE_NOT_SATISFIABLE"
	ProblemUnsupported    ProblemCode = "UNSUPPORTED"
	ProblemRateLimited    ProblemCode = "RATE_LIMITED"
	ProblemInternal       ProblemCode = "INTERNAL"
	ProblemUnavailable    ProblemCode = "UNAVAILABLE"
	ProblemSandbox        ProblemCode = "SANDBOX_UNAVAILABLE"
	ProblemStorageFull    ProblemCode = "STORAGE_FULL"
)

var problemHTTP = map[ProblemCode]int{
	ProblemBadRequest: 400, ProblemUnauthorized: 401, ProblemForbidden: 403,
	ProblemMountForbidden: 403, ProblemImageForbidden: 403, ProblemImageMissing: 422,
	ProblemNotFound: 404, ProblemMethod: 405, ProblemNotAcceptable: 406,
	ProblemConflict: 409, ProblemIdempotency: 409, ProblemRunNotActive: 409,
	ProblemPrecondition: 412, ProblemTooLarge: 413, ProblemMediaType: 415,
	ProblemRange: 416, ProblemUnsupported: 422, ProblemRateLimited: 429,
	ProblemInternal: 500, ProblemUnavailable: 503, ProblemSandbox: 503,
	ProblemStorageFull: 507,
}

// HTTP returns the problem code's HTTP status.
func (c ProblemCode) HTTP() int {
	if s, ok := problemHTTP[c]; ok {
		return s
	}
	return 500
}

// Problemf makes a problem with a formatted detail.
func Problemf(code ProblemCode, format string, args ...any) *Problem {
	return &Problem{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// AsFault returns the fault in err's chain. Any other error becomes a template
// that names nothing of it.
func AsFault(err error) *Fault {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f
	}
	return &Fault{
		Code:    CodeInternal,
		Message: "The service failed while handling this call. Do not repeat it unchanged; report it with the call's id.",
		Cause:   err,
	}
}
