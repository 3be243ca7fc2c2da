package fs

import (
	"strings"

	"github.com/sandboxd/sandboxd/runtime"
)

// RipgrepOnly and WalkOnly are repo.search with one of its two engines.
func RipgrepOnly() *runtime.Tool { return searchTool(ripgrep) }

// WalkOnly is the engine for boxes without rg.
func WalkOnly() *runtime.Tool { return searchTool(walkSearch) }

// Complaints reads rg's standard error.
func Complaints(stderr string) []Skipped {
	c := &collector{wanted: func(path string) bool { return path != "secret" }}
	for line := range strings.SplitSeq(stderr, "\n") {
		c.complaint(line)
	}
	return c.skipped
}
