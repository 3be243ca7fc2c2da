package runtime

import (
	"strings"

	"github.com/sandboxd/sandboxd/runtime/policy"
)

// scope is what a run may touch of its workspace.
type scope struct {
	readOnly bool
	profiles policy.Profiles
	// aliases are paths of the call that lead through symlinks.
	aliases []alias
}

// alias is a path as it was given and where it is.
type alias struct{ given, at string }

// readable judges a path by its name, and what is below an alias also by where
// it is.
func (s scope) readable(path string) bool {
	for _, a := range s.aliases {
		below, ok := strings.CutPrefix(path, a.given)
		if ok && (below == "" || below[0] == '/') && !s.profiles.Path(strings.TrimPrefix(a.at+below, "/"), false).Allowed {
			return false
		}
	}
	return s.profiles.Path(path, false).Allowed
}
