package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/runtime/schema"
)

// problemInfo is one row of the table of problems.
type problemInfo struct {
	Code   runtime.ProblemCode `json:"code"`
	Status int                 `json:"status"`
	Title  string              `json:"title"`
	// Advice says what to do, whatever the detail.
	Advice string `json:"advice"`
}

// problemTable gives every problem code its title and its advice; the status
// is the code's own.
func problemTable() []problemInfo {
	rows := []problemInfo{
		{runtime.ProblemBadRequest, 0, "The request is not well formed", "Correct what the detail names and send it again."},
		{runtime.ProblemUnauthorized, 0, "A valid API key is needed", "Send the header Authorization: Bearer KEY with a key of this service."},
		{runtime.ProblemForbidden, 0, "This is not allowed", "Use a key or an address that may do this, or ask the operator."},
		{runtime.ProblemMountForbidden, 0, "The host directory is not allowed", "Name a directory below one that the operator has allowed, or use another source."},
		{runtime.ProblemImageForbidden, 0, "The image is not allowed", "Leave image out, or name one that the operator has allowed."},
		{runtime.ProblemImageMissing, 0, "The image is not there", "Have the image built or pulled, or leave image out."},
		{runtime.ProblemNotFound, 0, "There is no such thing", "Check the path and the id; lists show what exists."},
		{runtime.ProblemMethod, 0, "The method is not offered here", "Use one of the methods in the Allow header."},
		{runtime.ProblemNotAcceptable, 0, "No representation fits the Accept header", "Leave Accept out or name one of the types in the detail."},
		{runtime.ProblemConflict, 0, "The request conflicts with the present state", "Read the present state and decide again."},
		{runtime.ProblemIdempotency, 0, "The idempotency key is bound to another call", "Use a new key for a new call, or repeat the first call unchanged."},
		{runtime.ProblemRunNotActive, 0, "The run takes no calls", "Create a new run; what the ended one did stays readable."},
		{runtime.ProblemPrecondition, 0, "A precondition does not hold", "Fetch the resource again and repeat the request with its present ETag."},
		{runtime.ProblemTooLarge, 0, "The body is too large", "Send less at a time; large files go through the workspace upload."},
		{runtime.ProblemMediaType, 0, "The body's media type is not taken", "Set Content-Type to one that the detail names."},
		{runtime.ProblemRange, 0, "The range lies outside the content", "Ask for a range within the size that Content-Range names."},
		{runtime.ProblemUnsupported, 0, "This is not supported", "Leave the named part out, or choose another value."},
		{runtime.ProblemRateLimited, 0, "Too much at a time", "Wait as long as Retry-After says, then try again."},
		{runtime.ProblemInternal, 0, "The service failed", "Report it with the requestId; the service's log has the rest."},
		{runtime.ProblemUnavailable, 0, "The service cannot take this now", "Try again in a moment."},
		{runtime.ProblemSandbox, 0, "The box cannot be made or reached", "Try once more; if it fails again, create a new run or ask the operator."},
		{runtime.ProblemStorageFull, 0, "There is no room left", "Delete what is not needed, or send less."},
	}
	for i := range rows {
		rows[i].Status = rows[i].Code.HTTP()
	}
	return rows
}

// problemBody is a problem on the wire (RFC 9457) with our extensions.
type problemBody struct {
	Type       string              `json:"type"`
	Title      string              `json:"title"`
	Status     int                 `json:"status"`
	Detail     string              `json:"detail"`
	Code       runtime.ProblemCode `json:"code"`
	RequestID  string              `json:"requestId"`
	Advice     string              `json:"advice"`
	Pointer    string              `json:"pointer,omitempty"`
	Violations []schema.Violation  `json:"violations,omitempty"`
}

// errPanicked stands for a panic, whose text is in the log already.
var errPanicked = errors.New("a handler panicked")

// internalDetail is all that a client learns of a failure of ours.
const internalDetail = "The service failed while handling this request. It is up and takes further requests."

// asProblem finds the problem in an error; anything else is a template.
func asProblem(err error) *runtime.Problem {
	if p, ok := errors.AsType[*runtime.Problem](err); ok {
		return p
	}
	return &runtime.Problem{Code: runtime.ProblemInternal, Detail: internalDetail, Cause: err}
}

// fail answers an error as a problem. Where the answer has begun, the
// connection is cut, so that half an answer is never taken for a whole one.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	x, p := exchangeOf(r), asProblem(err)
	x.code, x.cause = p.Code, p.Cause
	x.gone = x.out.failed != nil || r.Context().Err() != nil
	if x.out.status != 0 {
		panic(http.ErrAbortHandler)
	}
	drain(w, r)
	body := newProblemBody(r, p)
	if e, ok := errors.AsType[*invalidBody](err); ok {
		body.Violations = e.violations
	}
	writeProblem(w, p, body)
}

func newProblemBody(r *http.Request, p *runtime.Problem) problemBody {
	body := problemBody{
		Type: problemType(p.Code), Status: p.Code.HTTP(), Detail: p.Detail, Code: p.Code,
		RequestID: exchangeOf(r).id, Pointer: p.Pointer,
	}
	table := problemTable()
	if i := slices.IndexFunc(table, func(row problemInfo) bool { return row.Code == p.Code }); i >= 0 {
		body.Title, body.Advice = table[i].Title, table[i].Advice
	}
	return body
}

func writeProblem(w http.ResponseWriter, p *runtime.Problem, body problemBody) {
	head := w.Header()
	for _, name := range []string{"Etag", "Content-Disposition", "Content-Length", "Last-Modified"} {
		head.Del(name)
	}
	head.Set("Content-Type", "application/problem+json")
	head.Set("Cache-Control", "no-store")
	if p.RetryAfterSeconds > 0 {
		head.Set("Retry-After", strconv.Itoa(p.RetryAfterSeconds))
	}
	if p.Code == runtime.ProblemUnauthorized {
		head.Set("WWW-Authenticate", `Bearer realm="sandboxd"`)
	}
	raw, err := json.Marshal(body)
	if err != nil { // strings and numbers only: cannot be
		panic(err)
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(problemTime))
	w.WriteHeader(body.Status)
	_, _ = w.Write(raw) // a client that is gone needs no answer
}

// problemTime is how long a client has to take a problem.
const problemTime = 30 * time.Second

// problemType is the problem's type URI.
func problemType(code runtime.ProblemCode) string {
	return "urn:sandboxd:problem:" + strings.ReplaceAll(strings.ToLower(string(code)), "_", "-")
}

func badRequest(format string, args ...any) error {
	return runtime.Problemf(runtime.ProblemBadRequest, format, args...)
}

// noRoute answers a path that nothing is behind.
func noRoute(_ http.ResponseWriter, r *http.Request) error {
	if trimmed := strings.TrimRight(r.URL.Path, "/"); trimmed != "" && trimmed != r.URL.Path && len(methodsOf(r, trimmed)) > 0 {
		return runtime.Problemf(runtime.ProblemNotFound, "There is nothing at this path. It ends in a slash; without it there is something.")
	}
	return runtime.Problemf(runtime.ProblemNotFound, "There is nothing at this path.")
}

// wrongMethod answers a path that is there for other methods.
func wrongMethod(w http.ResponseWriter, r *http.Request) error {
	allowed := methodsOf(r, r.URL.Path)
	if len(allowed) == 0 { // a method that no path has
		return noRoute(w, r)
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	return runtime.Problemf(runtime.ProblemMethod, "This path takes %s.", strings.Join(allowed, ", "))
}

// methodsOf lists the methods that a path takes.
func methodsOf(r *http.Request, path string) []string {
	var allowed []string
	routes := chi.RouteContext(r.Context()).Routes
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		if !routes.Match(chi.NewRouteContext(), method, path) {
			continue
		}
		if allowed = append(allowed, method); method == http.MethodGet {
			allowed = append(allowed, http.MethodHead)
		}
	}
	return allowed
}
