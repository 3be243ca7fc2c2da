package workspace

import (
	"path"
	"strings"

	"github.com/sandboxd/sandboxd/sandbox"
)

// tempPrefix begins the names of temporary files: they are hidden from walks
// and cannot be addressed.
const tempPrefix = ".sandboxd-tmp-"

// The kernel's PATH_MAX and NAME_MAX.
const (
	maxPath = 4095
	maxName = 255
)

// clean returns the path in its shortest form, "." for the workspace itself.
// It judges the text only; links are the resolution's business.
func clean(p string) (string, error) {
	switch {
	case strings.IndexByte(p, 0) >= 0:
		return "", refuse(sandbox.KindInvalid, p, "A path cannot hold a NUL byte.")
	case len(p) > maxPath:
		return "", refuse(sandbox.KindInvalid, p[:64]+"…", "A path has at most 4095 bytes.")
	case strings.HasPrefix(p, "/"):
		return "", refuse(sandbox.KindPathEscapes, p, "The path is absolute; give it relative to the workspace.")
	}
	c := path.Clean(p) // "" becomes "."
	if c == ".." || strings.HasPrefix(c, "../") {
		return "", refuse(sandbox.KindPathEscapes, p, "The path leads out of the workspace.")
	}
	for name := range strings.SplitSeq(c, "/") {
		if len(name) > maxName {
			return "", refuse(sandbox.KindInvalid, p, "A name in the path has more than 255 bytes.")
		}
		if strings.HasPrefix(name, tempPrefix) {
			return "", refuse(sandbox.KindInvalid, p, "Names that begin with "+tempPrefix+" are kept for the box itself.")
		}
	}
	return c, nil
}

// cleanName is clean for a path that must not be the workspace itself.
func cleanName(p string) (string, error) {
	c, err := clean(p)
	if err == nil && c == "." {
		return "", refuse(sandbox.KindInvalid, p, "The path must name something below the workspace.")
	}
	return c, err
}

func split(p string) (dir, base string) {
	dir, base = path.Split(p)
	if dir == "" {
		return ".", base
	}
	return strings.TrimSuffix(dir, "/"), base
}

func refuse(kind sandbox.Kind, p, message string) error {
	return &sandbox.Error{Kind: kind, Path: p, Message: message}
}
