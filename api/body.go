package api

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/runtime/schema"
)

//go:embed run.json runpatch.json call.json batch.json cancel.json
var schemaFiles embed.FS

// bodies are the compiled schemas of what clients send.
type bodies struct {
	run, patch, call, batch, cancel bodySchema
}

// bodySchema is a schema with the one member that may be anything: it can be
// large, and is not held against what does not bind it.
type bodySchema struct {
	schema *schema.Schema
	free   string
}

func mustCompileBodies() bodies {
	b := bodies{call: bodySchema{free: "arguments"}}
	for name, into := range map[string]*bodySchema{
		"run.json": &b.run, "runpatch.json": &b.patch, "call.json": &b.call, "batch.json": &b.batch, "cancel.json": &b.cancel,
	} {
		raw, err := schemaFiles.ReadFile(name)
		if err == nil {
			into.schema, err = schema.Compile(raw)
		}
		if err != nil {
			panic(fmt.Sprintf("api: %s: %v", name, err))
		}
	}
	return b
}

// invalidBody is a problem with everything that a body breaks; the problem
// itself tells the first.
type invalidBody struct {
	*runtime.Problem
	violations []schema.Violation
}

func (e *invalidBody) Unwrap() error { return e.Problem }

// maxViolations is how many violations a problem lists.
const maxViolations = 20

// readJSON reads a body of at most limit bytes and decodes it into out. A body
// that may be left out counts as {}.
func (s *service) readJSON(w http.ResponseWriter, r *http.Request, limit int64, sch bodySchema, out any) error {
	raw, err := s.readBody(w, r, limit)
	if err != nil {
		return err
	}
	return decode(raw, sch, "", out)
}

// readBody reads a JSON body whole, within its limits of size and time.
func (s *service) readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	// The call that follows may take long: the deadline was the body's alone.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	if err != nil {
		return nil, bodyProblem(err)
	}
	if len(raw) == 0 {
		return []byte("{}"), nil
	}
	return raw, jsonType(r.Header)
}

func tooLarge(limit int64) error {
	return runtime.Problemf(runtime.ProblemTooLarge, "The body may have %d bytes.", limit)
}

// bodyProblem says why a body could not be read.
func bodyProblem(err error) error {
	if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge(e.Limit)
	}
	return &runtime.Problem{Code: runtime.ProblemBadRequest, Detail: "The body did not arrive whole, or too slowly. Send it again.", Cause: err}
}

// jsonType refuses a body that does not call itself JSON. One without a type
// is taken at its word.
func jsonType(h http.Header) error {
	if err := plainEncoding(h); err != nil {
		return err
	}
	given := h.Get("Content-Type")
	if given == "" {
		return nil
	}
	media, params, err := mime.ParseMediaType(given)
	charset := strings.ToLower(params["charset"])
	if err != nil || !slices.Contains([]string{"application/json", "application/merge-patch+json"}, media) || charset != "" && charset != "utf-8" {
		return runtime.Problemf(runtime.ProblemMediaType, "The body must be JSON in UTF-8, with Content-Type: application/json.")
	}
	return nil
}

func plainEncoding(h http.Header) error {
	if enc := h.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return runtime.Problemf(runtime.ProblemMediaType, "Content-Encoding is not taken. Send the body as it is, without that header.")
	}
	return nil
}

// decode holds a body against its schema and decodes it. Names were compared
// exactly by the schema, and none is there twice, so that encoding/json cannot
// read anything else into it. prefix is put before each pointer.
func decode(raw []byte, sch bodySchema, prefix string, out any) error {
	doc, err := schema.Decode(bytes.NewReader(raw), bodyLimits(raw))
	if err != nil {
		return notStrict(err, prefix)
	}
	if object, ok := doc.(map[string]any); ok {
		delete(object, sch.free)
	}
	if violations := sch.schema.Validate(doc); len(violations) > 0 {
		return invalid(violations, prefix)
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return unfit(err, prefix)
	}
	return nil
}

// bodyLimits leaves the size to who read the body. Integers beyond 2^53 are
// read exactly: in arguments they are the kernel's to refuse.
func bodyLimits(raw []byte) schema.Limits {
	return schema.Limits{MaxBytes: int64(len(raw)) + 1, AnyInteger: true}
}

func notStrict(err error, prefix string) error {
	p := &runtime.Problem{Code: runtime.ProblemBadRequest, Pointer: prefix, Detail: "The body is not strict JSON: " + err.Error() + ".", Cause: err}
	if e, ok := errors.AsType[*schema.DecodeError](err); ok {
		p.Pointer = prefix + e.Pointer
	}
	return p
}

func invalid(violations []schema.Violation, prefix string) error {
	violations = slices.Clone(violations[:min(len(violations), maxViolations)])
	for i := range violations {
		violations[i].Pointer = prefix + violations[i].Pointer
	}
	first := violations[0]
	detail := place(first.Pointer) + " " + first.Message + "."
	if first.Rule == "required" { // the message has its own subject
		detail = place(first.Pointer) + " is not whole: " + first.Message + "."
	}
	if first.Suggestion != "" {
		detail += " Did you mean " + first.Suggestion + "?"
	}
	return &invalidBody{
		Problem:    &runtime.Problem{Code: runtime.ProblemBadRequest, Pointer: first.Pointer, Detail: detail},
		violations: violations,
	}
}

// fieldProblem is a problem with one field of a body.
func fieldProblem(pointer, what string) *runtime.Problem {
	return &runtime.Problem{Code: runtime.ProblemBadRequest, Pointer: pointer, Detail: place(pointer) + " " + what + "."}
}

// place names a pointer in a sentence; the empty one is the whole body.
func place(pointer string) string {
	if pointer == "" {
		return "The body"
	}
	return clip(pointer)
}

// unfit tells of a value that fits the schema and not our types, such as an
// integer beyond 64 bits.
func unfit(err error, prefix string) error {
	p := &runtime.Problem{Code: runtime.ProblemBadRequest, Pointer: prefix, Detail: "A value of the body is not of the type that its field takes.", Cause: err}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && e.Field != "" {
		p.Pointer = prefix + "/" + strings.ReplaceAll(e.Field, ".", "/")
		p.Detail = place(p.Pointer) + " is out of range, or an integer written as a fraction."
	}
	if _, ok := errors.AsType[*time.ParseError](err); ok {
		p.Pointer = prefix + "/expiresAt" // the one time that a client sends
		p.Detail = p.Pointer + " must be a time by RFC 3339, such as 2030-01-31T12:00:00Z."
	}
	return p
}
