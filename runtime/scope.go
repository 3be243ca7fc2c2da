package runtime

import "github.com/sandboxd/sandboxd/runtime/policy"

// scope is what a run may touch of its workspace.
type scope struct {
	readOnly bool
	profiles policy.Profiles
}

func (s scope) readable(path string) bool { return s.profiles.Path(path, false).Allowed }
