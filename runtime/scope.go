package runtime

// scope is what a run may touch of its workspace.
type scope struct {
	readOnly bool
	paths    pathRules
}

type pathRules interface {
	// Allowed tells whether a path relative to the workspace is inside.
	Allowed(path string) bool
}

func (s scope) readable(path string) bool {
	return s.paths == nil || s.paths.Allowed(path)
}
