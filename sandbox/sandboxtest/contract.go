package sandboxtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/sandbox"
)

// Options tell the contract suite what it cannot know of a driver: how things
// look from the host, beside the driver's own words.
type Options struct {
	// Image is what boxes are made from; "" is the driver's default. It has sh,
	// bash, coreutils, util-linux and perl.
	Image string
	// Missing is an image that is not there; "" if the driver has no images.
	Missing string
	// Remains lists what the host holds of a run, a sentence each: containers,
	// directories, mounts, cgroups, volumes.
	Remains func(t *testing.T, runID string) []string
	// Destroy ends a box by hand, as an operator would, not through the driver.
	Destroy func(t *testing.T, runID string)
	// Stranger makes a container that is not the driver's, and returns how to
	// ask whether it is still there. nil if the technology has no such thing.
	Stranger func(t *testing.T) func() bool
	// Apart says that the boxes are where the host's directories are not: asking
	// for one must be refused.
	Apart bool
	// Pids is how many pids a fork bomb may have; at most 160, and 0 is 128.
	Pids int64
}

// RunContract runs the promises of package sandbox against a driver. newDriver
// makes one; it is called several times, and each must find the boxes of the
// others with Reconcile. Tests that only look share a box.
func RunContract(t *testing.T, newDriver func(t *testing.T) sandbox.Driver, opt Options) {
	if opt.Pids == 0 {
		opt.Pids = 128
	}
	s := &suite{newDriver: newDriver, opt: opt}
	t.Run("exec", s.exec)
	t.Run("confine", s.confine)
	t.Run("limits", s.limits)
	t.Run("files", s.files)
	t.Run("walk", s.walk)
	t.Run("readonly", s.readOnly)
	t.Run("kill", s.kill)
	t.Run("agent", s.agent)
	t.Run("end", s.end)
}

type suite struct {
	newDriver func(t *testing.T) sandbox.Driver
	opt       Options
}

// patience bounds every single step; a box that hangs must not hang the suite.
const patience = 60 * time.Second

func newRunID() string { return "contract-" + strings.ToLower(rand.Text()[:12]) }

// driver makes a driver that is closed with the test.
func (s *suite) driver(t *testing.T) sandbox.Driver {
	t.Helper()
	d := s.newDriver(t)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// create makes a box that is removed with the test.
func (s *suite) create(t *testing.T, d sandbox.Driver, change func(*sandbox.Spec)) (sandbox.Box, string) {
	t.Helper()
	spec := sandbox.Spec{RunID: newRunID(), Image: s.opt.Image}
	if change != nil {
		change(&spec)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	box, err := d.Create(ctx, spec)
	require.NoError(t, err, cause(err))
	t.Cleanup(func() { require.NoError(t, box.Remove(context.Background())) })
	return box, spec.RunID
}

// box makes a box with a driver of its own.
func (s *suite) box(t *testing.T, change func(*sandbox.Spec)) sandbox.Box {
	t.Helper()
	box, _ := s.create(t, s.driver(t), change)
	return box
}

// cause shows the log's part of an error in a test's failure.
func cause(err error) string {
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Cause == nil {
		return ""
	}
	return e.Cause.Error()
}

// A result is a command's exit with its output.
type result struct {
	sandbox.Exit
	Out, Err string
}

// run runs a command to its end; that it could not be run fails the test.
func run(t *testing.T, box sandbox.Box, cmd sandbox.Command) result {
	t.Helper()
	// Clean-ups run commands too, and the test's own context has ended then.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	var out, errs bytes.Buffer
	if cmd.Stdout == nil {
		cmd.Stdout = &out
	}
	if cmd.Stderr == nil {
		cmd.Stderr = &errs
	}
	exit, err := sandbox.Run(ctx, box, cmd, sandbox.After(time.Second))
	require.NoError(t, err, cause(err))
	require.NoError(t, ctx.Err(), "the command hangs: %q", cmd.Argv)
	return result{Exit: exit, Out: out.String(), Err: errs.String()}
}

// sh runs a script with further arguments in $1 and on.
func sh(t *testing.T, box sandbox.Box, script string, args ...string) result {
	t.Helper()
	return run(t, box, sandbox.Command{Argv: append([]string{"bash", "-c", script, "bash"}, args...)})
}

// ok runs a script that must succeed, and returns its output without the last
// newline.
func ok(t *testing.T, box sandbox.Box, script string, args ...string) string {
	t.Helper()
	r := sh(t, box, script, args...)
	require.Zero(t, r.Code, "%s\n%s%s", script, r.Out, r.Err)
	return strings.TrimSuffix(r.Out, "\n")
}

// start starts a command that is killed with the test.
func start(t *testing.T, box sandbox.Box, cmd sandbox.Command) sandbox.Process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p, err := box.Start(ctx, cmd)
	require.NoError(t, err, cause(err))
	t.Cleanup(func() {
		kctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		// It may have ended, or its box may be gone: that is the test's affair.
		_ = p.Kill(kctx, 0)
	})
	return p
}

// wait waits for a process with patience.
func wait(t *testing.T, p sandbox.Process) (sandbox.Exit, error) {
	t.Helper()
	type ended struct {
		exit sandbox.Exit
		err  error
	}
	ch := make(chan ended, 1)
	go func() {
		exit, err := p.Wait()
		ch <- ended{exit, err}
	}()
	select {
	case e := <-ch:
		return e.exit, e.err
	case <-time.After(patience):
		require.FailNow(t, "the process did not end")
	}
	return sandbox.Exit{}, nil
}

func requireKind(t *testing.T, want sandbox.Kind, err error, msg ...any) {
	t.Helper()
	require.Error(t, err, msg...)
	require.Equal(t, want, sandbox.KindOf(err), "%v (%s) %v", err, cause(err), msg)
}

// write makes one file, as file work does.
func write(t *testing.T, box sandbox.Box, path, content string) sandbox.Applied {
	t.Helper()
	done, err := box.Files().Apply(t.Context(), []sandbox.Change{{Op: sandbox.OpWrite, Path: path, Data: []byte(content)}})
	require.NoError(t, err, cause(err))
	require.Len(t, done, 1)
	return done[0]
}

// read reads a whole file.
func read(t *testing.T, box sandbox.Box, path string) sandbox.ReadResult {
	t.Helper()
	r, err := box.Files().Read(t.Context(), sandbox.ReadRequest{Path: path, Limit: 1 << 20})
	require.NoError(t, err, cause(err))
	return r
}

// lines is a writer that hands over what it gets, for talking to a command.
type lines struct{ ch chan string }

func newLines() lines { return lines{make(chan string, 1024)} }

func (l lines) Write(p []byte) (int, error) {
	l.ch <- string(p)
	return len(p), nil
}

// neighbour is a command that answers for as long as it lives.
type neighbour struct {
	in  io.WriteCloser
	out lines
	p   sandbox.Process
}

func newNeighbour(t *testing.T, box sandbox.Box) *neighbour {
	t.Helper()
	in, feed := io.Pipe()
	n := &neighbour{in: feed, out: newLines()}
	n.p = start(t, box, sandbox.Command{Argv: []string{"cat"}, Stdin: in, Stdout: n.out})
	n.answers(t)
	return n
}

// answers demands that the neighbour is alive and served.
func (n *neighbour) answers(t *testing.T) {
	t.Helper()
	want, got := rand.Text()+"\n", ""
	go func() {
		// When the neighbour is dead nobody reads, and no answer comes either.
		_, _ = io.WriteString(n.in, want)
	}()
	for deadline := time.After(patience); got != want; {
		select {
		case piece := <-n.out.ch:
			got += piece
		case <-deadline:
			require.FailNow(t, "the neighbour does not answer")
		}
	}
}
