package policy_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/runtime/policy"
)

func TestDenyWinsAndAMissingAllowListAllowsAll(t *testing.T) {
	for _, c := range []struct {
		name        string
		allow, deny []string
		path        string
		allowed     bool
		rule        string
	}{
		{"no lists", nil, nil, "a/b.go", true, "default"},
		{"empty allow list allows nothing", []string{}, nil, "a/b.go", false, "allow:none"},
		{"allowed below a directory glob", []string{"service-a/**"}, nil, "service-a/x/y.go", true, "allow:service-a/**"},
		{"a directory name covers what is below it", []string{"service-a"}, nil, "service-a/x/y.go", true, "allow:service-a"},
		{"a name with the same beginning is another", []string{"service-a"}, nil, "service-ab/x", false, "allow:none"},
		{"deny wins over allow", []string{"**"}, []string{"**/.env"}, "x/.env", false, "deny:**/.env"},
		{"deny at the top too", nil, []string{"**/.env"}, ".env", false, "deny:**/.env"},
		{"one star stays in its directory", []string{"src/*.go"}, nil, "src/a/b.go", false, "allow:none"},
		{"dot slash is folded", []string{"./src/**"}, nil, "src/a.go", true, "allow:src/**"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := policy.Compile(c.allow, c.deny, "/")
			require.NoError(t, err)
			require.Equal(t, policy.Verdict{Allowed: c.allowed, Rule: c.rule}, g.Judge(c.path, "/"))
		})
	}
}

func TestToolGlobsCrossNoDot(t *testing.T) {
	g, err := policy.Compile([]string{"file.*", "shell.run"}, []string{"file.delete"}, ".")
	require.NoError(t, err)
	ps := policy.Profiles{{Tools: g}}
	require.True(t, ps.Tool("file.read").Allowed)
	require.True(t, ps.Tool("shell.run").Allowed)
	require.False(t, ps.Tool("file.delete").Allowed)
	require.False(t, ps.Tool("shell.start").Allowed)
	require.False(t, ps.Tool("filex.read").Allowed)
}

func TestALaterLayerCanOnlyNarrow(t *testing.T) {
	wide, err := policy.Compile([]string{"*"}, nil, ".")
	require.NoError(t, err)
	narrow, err := policy.Compile([]string{"file.read"}, nil, ".")
	require.NoError(t, err)
	for _, ps := range []policy.Profiles{
		{{Read: true, Tools: wide}, {Tools: narrow}},
		{{Tools: narrow}, {Read: true, Tools: wide}},
	} {
		require.True(t, ps.Tool("file.read").Allowed)
		require.False(t, ps.Tool("file.write").Allowed)
		require.False(t, ps.Grants(func(p policy.Profile) bool { return p.Read }))
	}
	require.True(t, policy.Profiles{{Read: true}, {Read: true}}.Grants(func(p policy.Profile) bool { return p.Read }))
}

func TestNoProfileAllowsNothing(t *testing.T) {
	var ps policy.Profiles
	require.False(t, ps.Tool("file.read").Allowed)
	require.False(t, ps.Path("a", false).Allowed)
	require.False(t, ps.Grants(func(policy.Profile) bool { return true }))
}

func TestAGlobThatTakesForEverToMatchIsRefused(t *testing.T) {
	_, err := policy.Compile(nil, []string{strings.Repeat("{a,a}", 5)}, "/")
	require.ErrorContains(t, err, "too many alternatives")
	_, err = policy.Compile(nil, []string{strings.Repeat("a", 2000)}, "/")
	require.ErrorContains(t, err, "too long")
	_, err = policy.Compile(nil, []string{"{src,test}/**/*.{go,c,h}"}, "/")
	require.NoError(t, err, "control")
}

func TestABadGlobIsRefusedByName(t *testing.T) {
	_, err := policy.Compile([]string{"a[b"}, nil, "/")
	require.ErrorContains(t, err, `"a[b"`)
	_, err = policy.Compile([]string{"a[b]"}, nil, "/")
	require.NoError(t, err)
}
