package sandbox_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/sandbox"
)

func TestASpecOfNothingTakesTheDefaults(t *testing.T) {
	s, err := sandbox.Spec{RunID: "run_1"}.Settle("image", "runc")
	require.NoError(t, err)
	require.Equal(t, "image", s.Image)
	require.Equal(t, "runc", s.Runtime)
	require.Equal(t, "strict", s.Seccomp)
	require.Equal(t, sandbox.DefaultWorkspacePath, s.Workspace.Path)
	require.Equal(t, sandbox.DefaultLimits(), s.Limits)
}

func TestWhatNoBoxCanBeMadeFromIsRefused(t *testing.T) {
	for name, spec := range map[string]sandbox.Spec{
		"no id":                 {},
		"an id with a slash":    {RunID: "a/b"},
		"an id like an option":  {RunID: "-a"},
		"workspace over /etc":   {RunID: "a", Workspace: sandbox.Workspace{Path: "/etc/x"}},
		"workspace at the root": {RunID: "a", Workspace: sandbox.Workspace{Path: "/"}},
		"workspace not clean":   {RunID: "a", Workspace: sandbox.Workspace{Path: "/a/../etc"}},
		"workspace above home":  {RunID: "a", Workspace: sandbox.Workspace{Path: "/home"}},
		"a mount over /proc":    {RunID: "a", Mounts: []sandbox.Mount{{Source: "/srv", Target: "/proc/x"}}},
		"a relative source":     {RunID: "a", Mounts: []sandbox.Mount{{Source: "srv", Target: "/data"}}},
		"two mounts at a place": {RunID: "a", Mounts: []sandbox.Mount{{Source: "/srv", Target: "/data"}, {Source: "/opt", Target: "/data"}}},
		"a mount over /tmp":     {RunID: "a", Mounts: []sandbox.Mount{{Source: "/srv", Target: "/tmp"}}},
		"little memory":         {RunID: "a", Limits: sandbox.Limits{MemoryBytes: 1}},
		"few pids":              {RunID: "a", Limits: sandbox.Limits{Pids: 3}},
		"no processor":          {RunID: "a", Limits: sandbox.Limits{CPUs: -1}},
	} {
		_, err := spec.Settle("image", "runc")
		require.Equal(t, sandbox.KindInvalid, sandbox.KindOf(err), name)
	}
	_, err := sandbox.Spec{RunID: "a", Mounts: []sandbox.Mount{{Source: "/srv", Target: "/data"}}}.Settle("image", "runc")
	require.NoError(t, err, "control")
}
