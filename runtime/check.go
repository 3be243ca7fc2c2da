package runtime

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/runtime/schema"
)

// checked is a call whose tool exists and whose arguments fit its schema and
// meaning. Only authorize takes one.
type checked struct {
	flight    *flight
	tool      *registered
	effective json.RawMessage
	input     any
	meaning   Meaning
	paths     []PathUse
	timeout   time.Duration
}

// check finds the tool and holds the arguments against its schema, fills
// defaults, and weighs what the input means.
func (k *Kernel) check(f *flight) (*checked, error) {
	tool, err := k.tools.find(f.call.ToolName, f.call.ToolVersion)
	if err != nil {
		return nil, err
	}
	effective, err := fit(tool, f.arguments)
	if err != nil {
		return nil, err
	}
	input, err := tool.decode(effective)
	if err != nil {
		return nil, &Fault{
			Code:    CodeSchemaViolation,
			Message: "The arguments could not be read as " + tool.Name + " takes them. Compare them with its schema.",
			Cause:   err,
		}
	}
	if fault := tool.check(input); fault != nil {
		return nil, fault
	}
	c := &checked{
		flight: f, tool: tool, effective: effective, input: input,
		meaning: tool.meaning(input), paths: tool.paths(input),
		timeout: tool.limit(input),
	}
	for i := range c.paths {
		if err := checkPath(&c.paths[i]); err != nil {
			return nil, err
		}
	}
	return c, k.note(f, CallValidated, &CallUpdate{
		ToolVersion: tool.Version, EffectiveArguments: f.run.redactJSON(effective),
	}, map[string]any{
		"toolVersion": tool.Version, "activity": f.run.redactText(tool.activity(input)), "timeoutMs": c.timeout.Milliseconds(),
	})
}

// fit validates and returns the arguments with the schema's defaults.
func fit(tool *registered, raw json.RawMessage) (json.RawMessage, error) {
	doc, err := schema.DecodeJSON(raw)
	if err != nil {
		return nil, &Fault{
			Code:    CodeMalformedArguments,
			Message: fmt.Sprintf("The arguments are not JSON that can be read exactly: %v. Send one JSON object.", err),
			Cause:   err,
		}
	}
	object, ok := doc.(map[string]any)
	if !ok {
		return nil, Faultf(CodeMalformedArguments, "The arguments of %s must be one JSON object.", tool.Name)
	}
	if violations := tool.input.Validate(object); len(violations) > 0 {
		return nil, violationFault(tool.Name, violations)
	}
	if !tool.input.ApplyDefaults(object) {
		return raw, nil
	}
	return json.Marshal(object)
}

func violationFault(tool string, violations []schema.Violation) *Fault {
	const most = 5
	var b strings.Builder
	fmt.Fprintf(&b, "The arguments do not fit %s:", tool)
	for i, v := range violations {
		if i == most {
			fmt.Fprintf(&b, " and %d more.", len(violations)-most)
			break
		}
		at := v.Pointer
		if at == "" {
			at = "the object"
		}
		fmt.Fprintf(&b, " %s: %s", at, strings.TrimSuffix(v.Message, "."))
		if v.Suggestion != "" {
			fmt.Fprintf(&b, " (did you mean %q?)", v.Suggestion)
		}
		b.WriteByte('.')
	}
	b.WriteString(" Mend them and call again.")
	return &Fault{
		Code: CodeSchemaViolation, Message: b.String(),
		Structured: map[string]any{"violations": violations},
	}
}

// The bounds of a path: what Linux takes (PATH_MAX, NAME_MAX).
const (
	maxPathBytes = 4096
	maxNameBytes = 255
)

// checkPath refuses what cannot be a path inside the workspace, and cleans the
// rest. It explains early; the box is what holds.
func checkPath(u *PathUse) error {
	at := u.Pointer
	if at == "" {
		at = "/path"
	}
	switch {
	case strings.ContainsRune(u.Path, 0):
		return Faultf(CodePathInvalid, "%s holds a NUL character. Give a path without it.", at)
	case len(u.Path) > maxPathBytes:
		return Faultf(CodePathInvalid, "%s is longer than %d bytes. Give a shorter path.", at, maxPathBytes)
	case strings.HasPrefix(u.Path, "/"):
		return Faultf(CodePathTraversal, "%s is absolute. Give it relative to the workspace.", at)
	}
	for part := range strings.SplitSeq(u.Path, "/") {
		if part == ".." {
			return Faultf(CodePathTraversal, "%s leads upwards. Give a path below the workspace, without \"..\".", at)
		}
		if len(part) > maxNameBytes {
			return Faultf(CodePathInvalid, "%s has a name longer than %d bytes. Give a shorter one.", at, maxNameBytes)
		}
	}
	if u.Path = path.Clean(u.Path); u.Path == "." {
		u.Path = ""
	}
	return nil
}
