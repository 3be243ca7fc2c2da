// Package arch_test holds the structure of the tree: which package may import
// which, and by which one door each large dependency enters. The tables are
// the architecture; a change of them is a decision, not a repair.
package arch_test

import (
	"encoding/json"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/sandboxd/sandboxd/"

// arrows says what each package may import of our own. Arrows never run back
// up: cmd wires, api and tools sit at the edge, runtime is the kernel, sandbox
// the contract of a box, drivers below it.
func arrows() map[string][]string {
	return map[string][]string{
		"sandbox":            {},
		"sandbox/agentproto": {"sandbox"},
		"sandbox/agent/...":  {"sandbox", "sandbox/agentproto", "sandbox/agent/..."},
		"sandbox/cgroup":     {},
		"sandbox/docker":     {"sandbox", "sandbox/agentproto", "sandbox/cgroup", "seccomp", "images"},
		"sandbox/oci":        {"sandbox", "sandbox/agentproto", "sandbox/cgroup", "seccomp", "images"},
		"seccomp":            {},
		"images":             {},

		"runtime/schema":    {},
		"runtime/policy":    {},
		"runtime/redact":    {},
		"runtime/artifact":  {},
		"runtime":           {"sandbox", "runtime/schema", "runtime/policy", "runtime/redact", "runtime/artifact"},
		"runtime/ledger":    {"runtime"},
		"runtime/workspace": {"runtime", "sandbox"},

		"tools/fs/...":    {"runtime", "sandbox", "tools/fs/..."},
		"tools/shell/...": {"runtime", "sandbox", "tools/shell/..."},
		"tools/git/...":   {"runtime", "sandbox", "tools/git/..."},
		"client":          {},
		"api":             {"runtime", "runtime/schema"},

		"cmd/sandboxd-agent": {"sandbox/agent", "sandbox/agentproto"},
		"cmd/sandboxd":       {"..."},

		"sandbox/sandboxtest": {"..."},
		"runtime/runtimetest": {"..."},
	}
}

// doors says where each mandated dependency enters.
func doors() map[string][]string {
	return map[string][]string{
		"github.com/docker/docker": {"sandbox/docker"},
		// The third is not ours to choose: containerd/cgroups takes its resources
		// as types of the specification.
		"github.com/opencontainers/runtime-spec": {"seccomp", "sandbox/oci", "sandbox/cgroup"},
		"github.com/containerd/cgroups/v3":       {"sandbox/cgroup"},
		"github.com/go-chi/chi/v5":               {"api"},
		"github.com/kaptinlin/jsonschema":        {"runtime/schema"},
		"modernc.org/sqlite":                     {"runtime/ledger"},
		"github.com/hashicorp/yamux":             {"sandbox/agentproto", "sandbox/agent"}, // the two ends of one connection
	}
}

func TestImportsFollowTheArrows(t *testing.T) {
	packages := list(t)
	require.Greater(t, len(packages), 8, "the tree was not read")
	table := arrows()
	for _, p := range packages {
		rule, ok := ruleFor(table, p.name)
		if !ok {
			t.Errorf("package %s has no row in the table of arrows: decide where it belongs", p.name)
			continue
		}
		for _, imported := range p.imports {
			if own, isOurs := strings.CutPrefix(imported, module); isOurs && !matches(rule, own) {
				t.Errorf("%s imports %s: the arrow is not in the table", p.name, own)
			}
		}
	}
}

func TestDependenciesEnterByTheirDoors(t *testing.T) {
	entered := map[string]bool{}
	for _, p := range list(t) {
		for dep, allowed := range doors() {
			for _, imported := range p.imports {
				if imported != dep && !strings.HasPrefix(imported, dep+"/") {
					continue
				}
				entered[dep] = true
				if !slices.Contains(allowed, p.name) {
					t.Errorf("%s imports %s: its door is %v", p.name, imported, allowed)
				}
			}
		}
	}
	for dep := range doors() {
		if !entered[dep] {
			t.Errorf("%s enters nowhere: it is mandated", dep)
		}
	}
}

func TestTheTableItselfRefusesABackArrow(t *testing.T) {
	rule, ok := ruleFor(arrows(), "sandbox")
	require.True(t, ok)
	require.False(t, matches(rule, "runtime"))
	rule, ok = ruleFor(arrows(), "tools/fs")
	require.True(t, ok)
	require.True(t, matches(rule, "runtime"))
	require.False(t, matches(rule, "api"))
	require.False(t, matches(rule, "sandbox/docker"))
}

type pkg struct {
	name    string
	imports []string
}

// list reads the packages of the module and what their own code imports, tests
// left out: a test may reach for whatever it needs.
func list(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,GoFiles", module+"...").Output()
	require.NoError(t, err)
	var packages []pkg
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for dec.More() {
		var p struct {
			ImportPath       string
			Imports, GoFiles []string
		}
		require.NoError(t, dec.Decode(&p))
		if len(p.GoFiles) > 0 {
			packages = append(packages, pkg{strings.TrimPrefix(p.ImportPath, module), p.Imports})
		}
	}
	return packages
}

func ruleFor(table map[string][]string, name string) ([]string, bool) {
	if rule, ok := table[name]; ok {
		return rule, true
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if rule, ok := table[dir+"/..."]; ok {
			return rule, true
		}
	}
	rule, ok := table[name+"/..."]
	return rule, ok
}

func matches(rule []string, name string) bool {
	return slices.ContainsFunc(rule, func(r string) bool {
		prefix, wild := strings.CutSuffix(r, "...")
		return r == name || wild && strings.HasPrefix(name+"/", prefix)
	})
}
