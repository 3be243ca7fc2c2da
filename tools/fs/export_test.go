package fs

import "github.com/sandboxd/sandboxd/runtime"

// RipgrepOnly and WalkOnly are repo.search with one of its two engines.
func RipgrepOnly() *runtime.Tool { return searchTool(ripgrep) }

// WalkOnly is the engine for boxes without rg.
func WalkOnly() *runtime.Tool { return searchTool(walkSearch) }
