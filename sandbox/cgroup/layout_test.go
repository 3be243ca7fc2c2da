package cgroup_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/sandbox/cgroup"
)

// TestOtherLayoutsKeepTheSamePromises runs this package's tests again in mount
// namespaces that look like machines of the other layouts. It takes a hybrid
// machine; what it mounts as v2 has no controllers, so memory is left out there.
func TestOtherLayoutsKeepTheSamePromises(t *testing.T) {
	if tree := open(t); tree.Mode() != cgroup.Hybrid {
		t.Skipf("SKIPPED: only a hybrid machine can look like the others, this one is %s", tree.Mode())
	}
	for mode, layout := range map[cgroup.Mode]struct{ mount, skip string }{
		cgroup.V1: {mount: "umount /sys/fs/cgroup/unified", skip: "None"},
		cgroup.V2: {mount: "mount -t cgroup2 none /sys/fs/cgroup", skip: "MemoryKill"},
	} {
		t.Run(string(mode), func(t *testing.T) {
			self, err := os.Executable()
			require.NoError(t, err)
			script := "mount --make-rprivate / && " + layout.mount + ` && exec "$0" -test.v -test.run '^Test[^O]' -test.skip '` + layout.skip + "'"
			out, err := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c", script, self).CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), "layout "+string(mode), "the control: the layout was the other one")
			t.Logf("%s", out)
		})
	}
}
