package oci

import (
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/cgroup"
)

// BoxConfig is the configuration of a box with the machine's own programs on an
// imagined hybrid machine with merged /usr.
func BoxConfig(spec sandbox.Spec) (*specs.Spec, error) {
	spec, err := complete(spec, "runc")
	if err != nil {
		return nil, err
	}
	const boxes = "/var/lib/sandboxd/boxes/run-1/"
	p := plan{
		spec: spec, root: boxes + "bundle/rootfs", agent: "/opt/sandboxd/sandboxd-agent", runDir: boxes + "run",
		workspace: boxes + "workspace", cgroup: "/sandboxd-owner/run-1",
		system: []specs.Mount{systemBind("/usr", "/usr"), systemBind("/var/lib/sandboxd/oci/etc/0123", "/etc")},
		dirs: cgroup.Dirs{
			Unified: "/sys/fs/cgroup/unified/sandboxd-owner/run-1", Pids: "/sys/fs/cgroup/pids/sandboxd-owner/run-1",
		},
	}
	return p.config()
}

// Warning is the warning about a runc of this version.
func Warning(version string) string { return runtime{name: "runc", version: version}.warning() }

// ParseVersion finds the version in what --version prints.
func ParseVersion(out string) string { return parseVersion(out) }
