package docker_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/docker"
)

func TestABoxThatWasRemovedLeavesNoGoroutineAndNoDescriptor(t *testing.T) {
	for name, transport := range map[string]docker.Transport{"shared": docker.TransportAuto, "apart": docker.TransportStdio} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, transport)
			b.cycle(t)
			before := goleak.IgnoreCurrent()
			open := descriptors(t)
			for range 3 {
				b.cycle(t)
			}
			goleak.VerifyNone(t, before)
			require.LessOrEqual(t, descriptors(t), open)
		})
	}
}

// cycle makes a driver and a box, uses it, and ends both.
func (b *bench) cycle(t *testing.T) {
	t.Helper()
	d := b.driver(t)
	box, err := d.Create(t.Context(), sandbox.Spec{RunID: "run1"})
	require.NoError(t, err)
	_, out := run(t, box, "echo", "on")
	require.Equal(t, "on\n", out)
	require.NoError(t, box.Remove(t.Context()))
	require.NoError(t, d.Close())
}

func descriptors(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(fds)
}
