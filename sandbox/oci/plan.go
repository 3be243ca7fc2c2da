package oci

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/seccomp"
)

// HostImage is the image of a box whose spec names none: the machine's own
// programs.
const HostImage = "host"

// containerName is what the container's own cgroup is called, below its run's.
const containerName = "box"

// complete fills in the defaults of a spec and refuses what no box can be made
// from. Policy (which images, which host directories) was the caller's.
func complete(spec sandbox.Spec, defaultRuntime string) (sandbox.Spec, error) {
	spec, err := spec.Settle(HostImage, defaultRuntime)
	if err != nil {
		return spec, err
	}
	if _, err := seccomp.Container(spec.Seccomp); err != nil {
		return spec, sandbox.Invalidf("%v", err)
	}
	return spec, nil
}

// checkSources refuses host directories that would show the service's own data,
// or that are not the ones that the caller allowed: a link could be turned
// after it was looked at.
func checkSources(spec sandbox.Spec, dataDir string) error {
	var sources []string
	if spec.Workspace.HostDir != "" {
		sources = append(sources, spec.Workspace.HostDir)
	}
	for _, m := range spec.Mounts {
		sources = append(sources, m.Source)
	}
	for _, s := range sources {
		real, err := filepath.EvalSymlinks(s)
		switch {
		case err != nil:
			return &sandbox.Error{Kind: sandbox.KindInvalid, Message: fmt.Sprintf("the directory %q cannot be put into a box: it does not exist or cannot be reached", s), Cause: err}
		case real != s:
			return sandbox.Invalidf("the directory %q cannot be put into a box: give its path without links and dots", s)
		case reaches(s, []string{dataDir}) != "":
			return sandbox.Invalidf("the directory %q cannot be put into a box: it shows the service's own data", s)
		}
	}
	return nil
}

// places are where in its root a box has the caller's mounts. Those inside one
// another are made by the runtime, in what is mounted there.
func places(spec sandbox.Spec) []string {
	all := []string{spec.Workspace.Path}
	for _, m := range spec.Mounts {
		all = append(all, m.Target)
	}
	inside := func(p string) bool {
		return slices.ContainsFunc(append([]string{sandbox.HomePath, sandbox.ScratchPath}, all...), func(o string) bool { return o != p && sandbox.Under(p, o) })
	}
	all = slices.DeleteFunc(slices.Clone(all), inside)
	slices.Sort(all)
	return all
}

func unavailable(message string, cause error) error {
	return &sandbox.Error{Kind: sandbox.KindUnavailable, Message: message, Cause: cause}
}
