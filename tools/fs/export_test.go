package fs

import (
	"context"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/runtime"
)

// RipgrepOnly and WalkOnly are repo.search with one of its two engines.
func RipgrepOnly() *runtime.Tool { return searchTool(searchTime, ripgrep) }

// WalkOnly is the engine for boxes without rg.
func WalkOnly() *runtime.Tool { return searchTool(searchTime, walkSearch) }

// Complaints reads rg's standard error.
func Complaints(stderr string) []Skipped {
	c := &collector{wanted: func(path string) bool { return path != "secret" }}
	for line := range strings.SplitSeq(stderr, "\n") {
		c.complaint(line)
	}
	return c.skipped
}

// StuckAfterOneMatch is repo.search with an engine that finds one line and
// then hangs until the time is over.
func StuckAfterOneMatch(limit time.Duration) *runtime.Tool {
	return searchTool(limit, func(ctx context.Context, _ *runtime.Grant, _ *query, c *collector) (bool, error) {
		c.begin("f")
		c.match(1, []byte("needle"), 0)
		<-ctx.Done()
		return false, ctx.Err()
	}, walkSearch)
}
