package fs

import (
	"encoding/base64"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/runtime"
)

// target is the path of a call: as text, or as base64 where the name is not
// UTF-8.
type target struct {
	Path       string `json:"path"`
	PathBase64 string `json:"pathBase64"`
}

// check refuses a call without exactly one path.
func (t target) check() *runtime.Fault {
	switch {
	case t.Path != "" && t.PathBase64 != "":
		return runtime.Faultf(runtime.CodeSchemaViolation, "Give path or pathBase64, not both.")
	case t.Path == "" && t.PathBase64 == "":
		return runtime.Faultf(runtime.CodeSchemaViolation, "/path is missing. Give the path of a file, relative to the workspace.")
	}
	if _, err := base64.StdEncoding.DecodeString(t.PathBase64); err != nil {
		return runtime.Faultf(runtime.CodeSchemaViolation, "/pathBase64 is not standard base64 (RFC 4648). Copy it from a result as it is.")
	}
	if t.raw() == "" || path.Clean(t.raw()) == "." {
		return runtime.Faultf(runtime.CodeIsDirectory, "The path names the workspace itself. Name a file below it.")
	}
	return nil
}

// checkFile is check for a tool that makes or changes a file.
func (t target) checkFile() *runtime.Fault {
	if fault := t.check(); fault != nil {
		return fault
	}
	if strings.HasSuffix(t.raw(), "/") {
		return runtime.Faultf(runtime.CodeIsDirectory, "The path ends with a slash, so it names a directory. Name a file.")
	}
	return nil
}

// raw is the path as it was given, its bytes restored.
func (t target) raw() string {
	if t.PathBase64 == "" {
		return t.Path
	}
	b, err := base64.StdEncoding.DecodeString(t.PathBase64)
	if err != nil {
		return t.PathBase64 // check has refused it
	}
	return string(b)
}

// clean is the path for the box; "" is the workspace.
func (t target) clean() string { return cleanPath(t.raw()) }

func (t target) pointer() string {
	if t.PathBase64 != "" {
		return "/pathBase64"
	}
	return "/path"
}

func (t target) reads() []runtime.PathUse {
	return []runtime.PathUse{{Path: t.raw(), Pointer: t.pointer()}}
}

func (t target) writes() []runtime.PathUse {
	return []runtime.PathUse{{Path: t.raw(), Write: true, Pointer: t.pointer()}}
}

func cleanPath(p string) string {
	if p = path.Clean(p); p == "." {
		return ""
	}
	return p
}

// name is a path in a result: valid UTF-8, and its exact bytes beside it where
// they are not.
type name struct {
	Path       string `json:"path"`
	PathBase64 string `json:"pathBase64,omitempty"`
}

func nameOf(p string) name {
	if utf8.ValidString(p) {
		return name{Path: p}
	}
	return name{strings.ToValidUTF8(p, "\uFFFD"), base64.StdEncoding.EncodeToString([]byte(p))}
}
