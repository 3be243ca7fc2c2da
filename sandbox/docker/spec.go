package docker

import (
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/seccomp"
)

// complete fills in the defaults of a spec and refuses what no box can be made
// from. Policy (which images, which host directories) was the caller's.
func complete(spec sandbox.Spec, defaultRuntime string) (sandbox.Spec, error) {
	spec, err := spec.Settle(DefaultImage, defaultRuntime)
	if err != nil {
		return spec, err
	}
	if _, err := seccomp.Profile(spec.Seccomp); err != nil {
		return spec, sandbox.Invalidf("%v", err)
	}
	return spec, nil
}

func unavailable(message string, cause error) error {
	return &sandbox.Error{Kind: sandbox.KindUnavailable, Message: message, Cause: cause}
}
