package runtime_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/runtime/runtimetest"
)

func TestAWrongRunIsRefusedByFieldAndLeavesNothing(t *testing.T) {
	b := runtimetest.NewKernel(t, probe("file.read", echo))
	dir, err := filepath.EvalSymlinks(b.Dir)
	require.NoError(t, err)
	outside := t.TempDir()
	link := filepath.Join(b.Dir, "link")
	require.NoError(t, os.Symlink(outside, link))
	require.NoError(t, os.Mkdir(filepath.Join(b.Dir, "src"), 0o755))
	for _, c := range []struct {
		name    string
		spec    runtime.RunSpec
		code    runtime.ProblemCode
		pointer string
	}{
		{"source type", runtime.RunSpec{Source: runtime.Source{Type: "ftp"}}, runtime.ProblemBadRequest, "/source/type"},
		{"path without host source", runtime.RunSpec{Source: runtime.Source{Path: "/x"}}, runtime.ProblemBadRequest, "/source"},
		{"host outside the roots", runtime.RunSpec{Source: runtime.Source{Type: "host", Path: outside}}, runtime.ProblemMountForbidden, "/source/path"},
		{"host through a link", runtime.RunSpec{Source: runtime.Source{Type: "host", Path: link}}, runtime.ProblemMountForbidden, "/source/path"},
		{"host that is missing", runtime.RunSpec{Source: runtime.Source{Type: "host", Path: dir + "/none"}}, runtime.ProblemMountForbidden, "/source/path"},
		{"mode without a source", runtime.RunSpec{Source: runtime.Source{Mode: "overlay"}}, runtime.ProblemBadRequest, "/source/mode"},
		{"label with a colon", runtime.RunSpec{Labels: map[string]string{"a:b": "x"}}, runtime.ProblemBadRequest, "/labels"},
		{"git source", runtime.RunSpec{Source: runtime.Source{Type: "git", URL: "https://example.org/x.git"}}, runtime.ProblemUnsupported, "/source/type"},
		{"access", runtime.RunSpec{Workspace: runtime.WorkspaceSpec{Access: "rx"}}, runtime.ProblemBadRequest, "/workspace/access"},
		{"workspace over the system", runtime.RunSpec{Workspace: runtime.WorkspaceSpec{Path: "/usr/share"}}, runtime.ProblemBadRequest, "/workspace/path"},
		{"workspace not clean", runtime.RunSpec{Workspace: runtime.WorkspaceSpec{Path: "/a/../proc"}}, runtime.ProblemBadRequest, "/workspace/path"},
		{"network", runtime.RunSpec{Network: runtime.NetworkSpec{Policy: "host"}}, runtime.ProblemBadRequest, "/network/policy"},
		{"seccomp", runtime.RunSpec{Seccomp: "unconfined"}, runtime.ProblemBadRequest, "/seccomp"},
		{"state", runtime.RunSpec{State: "CODING"}, runtime.ProblemBadRequest, "/state"},
		{"mount of the root", runtime.RunSpec{Mounts: []runtime.MountSpec{{Source: "/", Target: "/cache"}}}, runtime.ProblemMountForbidden, "/mounts/0/source"},
		{"mount of the engine's socket", runtime.RunSpec{Mounts: []runtime.MountSpec{{Source: "/var/run/docker.sock", Target: "/cache"}}}, runtime.ProblemMountForbidden, "/mounts/0/source"},
		{"mount over proc", runtime.RunSpec{Mounts: []runtime.MountSpec{{Source: dir, Target: "/proc/x"}}}, runtime.ProblemBadRequest, "/mounts/0/target"},
		{"cpus", runtime.RunSpec{Limits: runtime.LimitsSpec{CPUs: -1}}, runtime.ProblemBadRequest, "/limits/cpus"},
		{"memory", runtime.RunSpec{Limits: runtime.LimitsSpec{MemoryBytes: 1}}, runtime.ProblemBadRequest, "/limits/memoryBytes"},
		{"wall", runtime.RunSpec{Limits: runtime.LimitsSpec{WallMs: 1 << 50}}, runtime.ProblemBadRequest, "/limits/wallMs"},
		{"env name", runtime.RunSpec{Env: map[string]string{"A=B": "x"}}, runtime.ProblemBadRequest, "/env"},
		{"env value", runtime.RunSpec{Env: map[string]string{"A": "x\x00y"}}, runtime.ProblemBadRequest, "/env/A"},
		{"secret value", runtime.RunSpec{Secrets: map[string]string{"A": strings.Repeat("x", 70000)}}, runtime.ProblemBadRequest, "/secrets/A"},
		{"glob", runtime.RunSpec{Permissions: runtime.Permissions{Paths: runtime.AllowDeny{Deny: []string{"a[b"}}}}, runtime.ProblemBadRequest, "/permissions/paths"},
		{"check", runtime.RunSpec{Verify: []runtime.Check{{Name: "unit"}}}, runtime.ProblemBadRequest, "/verify/0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := b.Kernel.CreateRun(context.Background(), c.spec, runtime.CreateOptions{Wait: true})
			var problem *runtime.Problem
			require.ErrorAs(t, err, &problem)
			require.Equal(t, c.code, problem.Code, problem.Detail)
			require.Equal(t, c.pointer, problem.Pointer)
			require.NotEmpty(t, problem.Detail)
		})
	}
	runs, _, err := b.Kernel.Runs(context.Background(), runtime.RunFilter{}, runtime.Page{Limit: 10})
	require.NoError(t, err)
	require.Empty(t, runs, "a refused run leaves a row")

	run, err := b.Kernel.CreateRun(context.Background(), runtime.RunSpec{
		Source: runtime.Source{Type: "host", Path: dir + "/src", Mode: "copy"},
	}, runtime.CreateOptions{Wait: true})
	require.NoError(t, err, "control: a directory below an allowed root")
	require.Equal(t, runtime.RunReady, run.Status)
}

func TestARunSaysItsDefaults(t *testing.T) {
	b := runtimetest.New(t, probe("file.read", echo))
	s := b.Run.Spec
	require.Equal(t, runtime.Editing, b.Run.State)
	require.Equal(t, "empty", s.Source.Type)
	require.Equal(t, "none", s.Network.Policy)
	require.Equal(t, "strict", s.Seccomp)
	require.Equal(t, "rw", s.Workspace.Access)
	require.Equal(t, "/workspace", s.Workspace.Path)
	require.EqualValues(t, 512<<20, s.Limits.MemoryBytes)
	require.Equal(t, 4, s.Limits.Commands)
}
