package sandboxtest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/sandbox"
)

// end holds how boxes go, and that nothing of them stays.
func (s *suite) end(t *testing.T) {
	t.Run("removal leaves nothing and may be repeated", s.removal)
	t.Run("a box that is ended by hand says so at once", s.goneByHand)
	t.Run("a create that fails leaves nothing", s.failedCreate)
	t.Run("a run has one box", s.oneBox)
	t.Run("boxes that nobody wants are removed, and no others", s.reconcile)
	t.Run("a box outlives its driver", s.outlives)
}

func isDone(box sandbox.Box) bool {
	select {
	case <-box.Done():
		return true
	default:
		return false
	}
}

func (s *suite) removal(t *testing.T) {
	d := s.driver(t)
	box, id := s.create(t, d, nil)
	write(t, box, "file", "content")
	p := start(t, box, sandbox.Command{Argv: []string{"bash", "-c", "trap '' TERM; setsid sleep 1000 & sleep 1000"}})
	require.NotEmpty(t, s.opt.Remains(t, id), "the control: there is something to remove")
	require.False(t, isDone(box))
	require.NoError(t, box.Remove(t.Context()))
	require.Empty(t, s.opt.Remains(t, id))
	require.True(t, isDone(box))
	_, err := wait(t, p)
	requireKind(t, sandbox.KindUnavailable, err, "a command that ran is answered for")
	s.unavailable(t, box)
	require.NoError(t, box.Remove(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	another, id := s.create(t, d, nil)
	require.NoError(t, another.Remove(ctx), "also for a caller who has gone")
	require.Empty(t, s.opt.Remains(t, id))
}

// unavailable demands that every call on a box that is gone says so.
func (s *suite) unavailable(t *testing.T, box sandbox.Box) {
	t.Helper()
	_, err := box.Start(t.Context(), sandbox.Command{Argv: []string{"true"}})
	requireKind(t, sandbox.KindUnavailable, err)
	_, err = box.Files().Read(t.Context(), sandbox.ReadRequest{Path: "file", Limit: 1})
	requireKind(t, sandbox.KindUnavailable, err)
	_, err = apply(box, writeChange("file", "x"))
	requireKind(t, sandbox.KindUnavailable, err)
}

func (s *suite) goneByHand(t *testing.T) {
	box, id := s.create(t, s.driver(t), nil)
	p := start(t, box, sandbox.Command{Argv: []string{"sleep", "1000"}})
	require.False(t, isDone(box))
	s.opt.Destroy(t, id)
	select {
	case <-box.Done():
	case <-time.After(5 * time.Second):
		require.FailNow(t, "nobody noticed")
	}
	_, err := wait(t, p)
	requireKind(t, sandbox.KindUnavailable, err)
	s.unavailable(t, box)
	require.NoError(t, box.Remove(t.Context()))
	require.Empty(t, s.opt.Remains(t, id))
}

func (s *suite) failedCreate(t *testing.T) {
	d := s.driver(t)
	bad := map[string]func(*sandbox.Spec){
		"profile":   func(spec *sandbox.Spec) { spec.Seccomp = "none" },
		"runtime":   func(spec *sandbox.Spec) { spec.Runtime = "no-such-runtime" },
		"workspace": func(spec *sandbox.Spec) { spec.Workspace.Path = "/etc" },
		"host dir":  func(spec *sandbox.Spec) { spec.Workspace.HostDir = "/nonexistent/dir" },
		"source":    func(spec *sandbox.Spec) { spec.Mounts = []sandbox.Mount{{Source: "/nonexistent", Target: "/mnt/x"}} },
		"target":    func(spec *sandbox.Spec) { spec.Mounts = []sandbox.Mount{{Source: "/srv", Target: "/proc"}} },
		"pids":      func(spec *sandbox.Spec) { spec.Limits.Pids = 1 },
	}
	if s.opt.Missing != "" {
		bad["image"] = func(spec *sandbox.Spec) { spec.Image = s.opt.Missing }
	}
	for name, change := range bad {
		spec := sandbox.Spec{RunID: newRunID(), Image: s.opt.Image}
		change(&spec)
		_, err := d.Create(t.Context(), spec)
		require.Error(t, err, name)
		require.NotContains(t, []sandbox.Kind{"", sandbox.KindInternal}, sandbox.KindOf(err), "%s: %v", name, err)
		if name == "image" {
			requireKind(t, sandbox.KindImageMissing, err)
			require.Contains(t, err.Error(), s.opt.Missing, "and says which")
		}
		require.Empty(t, s.opt.Remains(t, spec.RunID), name)
	}
	for _, patience := range []time.Duration{0, 20 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		id := newRunID()
		box, err := d.Create(ctx, sandbox.Spec{RunID: id, Image: s.opt.Image})
		cancel()
		if err == nil {
			require.NoError(t, box.Remove(t.Context()), "it was quick")
		}
		require.Empty(t, s.opt.Remains(t, id), "a caller who gave up after %s", patience)
	}
	box, _ := s.create(t, d, nil)
	require.Equal(t, "well", ok(t, box, "echo well"), "the control: a good one is made")
}

func (s *suite) oneBox(t *testing.T) {
	d := s.driver(t)
	box, id := s.create(t, d, nil)
	write(t, box, "file", "first")
	_, err := d.Create(t.Context(), sandbox.Spec{RunID: id, Image: s.opt.Image})
	requireKind(t, sandbox.KindExists, err)
	require.Equal(t, "first", ok(t, box, "cat file"), "the first is untouched")
	require.False(t, isDone(box))
}

func (s *suite) reconcile(t *testing.T) {
	before := s.driver(t)
	kept, keptID := s.create(t, before, nil)
	lost, lostID := s.create(t, before, nil)
	var stranger func() bool
	if s.opt.Stranger != nil {
		stranger = s.opt.Stranger(t)
		require.True(t, stranger())
	}
	// As after a crash: a driver that knows none of them.
	after := s.driver(t)
	gone, err := after.Reconcile(t.Context(), map[string]bool{keptID: true})
	require.NoError(t, err, cause(err))
	require.Equal(t, []string{lostID}, gone)
	require.Empty(t, s.opt.Remains(t, lostID))
	select {
	case <-lost.Done():
	case <-time.After(5 * time.Second):
		require.FailNow(t, "nobody noticed")
	}
	require.Equal(t, "kept", ok(t, kept, "echo kept"))
	if stranger != nil {
		require.True(t, stranger(), "a stranger was touched")
	}
	gone, err = after.Reconcile(t.Context(), map[string]bool{keptID: true})
	require.NoError(t, err)
	require.Empty(t, gone, "nothing is left to remove")
}

func (s *suite) outlives(t *testing.T) {
	d := s.newDriver(t)
	box, _ := s.create(t, d, nil)
	require.NoError(t, d.Close())
	require.Equal(t, "lives", ok(t, box, "echo lives"))
}
