package fs_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/runtime/runtimetest"
	"github.com/sandboxd/sandboxd/tools/fs"
)

type args = map[string]any

func hashOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func bench(t testing.TB) *runtimetest.Bench { return runtimetest.New(t, fs.Tools()...) }

// good makes a call that must succeed and decodes its output.
func good[Out any](t testing.TB, b *runtimetest.Bench, tool string, a args) Out {
	t.Helper()
	r := b.Call(tool, a)
	require.Equal(t, runtime.Succeeded, r.Status, "%s: %s %s", tool, r.ErrorCode, r.SafeMessage)
	return runtimetest.Output[Out](t, r)
}

// bad makes a call that must be refused with this code, and proves that the
// workspace is as it was.
func bad(t testing.TB, b *runtimetest.Bench, code runtime.Code, tool string, a args) runtime.Result {
	t.Helper()
	before := snapshot(t, b.Dir)
	r := b.Call(tool, a)
	require.Equal(t, code, r.ErrorCode, "%s: %s %s", tool, r.Status, r.SafeMessage)
	require.NotEmpty(t, r.SafeMessage)
	require.NotContains(t, r.SafeMessage, b.Dir, "no host path")
	require.Equal(t, before, snapshot(t, b.Dir), "a refusal changes nothing and leaves nothing behind")
	return r
}

// snapshot lists everything in a directory with mode and content.
func snapshot(t testing.TB, dir string) []string {
	t.Helper()
	var all []string
	require.NoError(t, filepath.Walk(dir, func(p string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		line := p + " " + info.Mode().String()
		if info.Size() > 1<<26 {
			line += " " + info.ModTime().String() // too large to read for this
		} else if info.Mode().IsRegular() {
			content, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			line += " " + hashOf(string(content))
		}
		all = append(all, line)
		return nil
	}))
	sort.Strings(all)
	return all
}

// Every schema closes its objects and bounds what it takes.
func TestEverySchemaIsClosedAndBounded(t *testing.T) {
	var walk func(at string, s map[string]any)
	walk = func(at string, s map[string]any) {
		types, _ := s["type"].(string)
		need := map[string][]string{
			"object": {"additionalProperties"}, "string": {"maxLength"}, "array": {"maxItems", "items"}, "integer": {"minimum", "maximum"},
		}[types]
		for _, key := range need {
			if _, isEnum := s["enum"]; isEnum && types == "string" {
				continue
			}
			require.Contains(t, s, key, at)
		}
		if types == "object" && s["additionalProperties"] != false {
			require.Contains(t, s, "maxProperties", at)
			walk(at+"/*", s["additionalProperties"].(map[string]any))
		}
		properties, _ := s["properties"].(map[string]any)
		for name, p := range properties {
			walk(at+"/"+name, p.(map[string]any))
		}
		if types == "object" && s["additionalProperties"] == false {
			require.Contains(t, s, "required", at)
			for _, r := range s["required"].([]any) {
				require.Contains(t, properties, r, at)
			}
		}
		if items, ok := s["items"].(map[string]any); ok {
			walk(at+"[]", items)
		}
	}
	names := map[string]bool{}
	for _, tool := range fs.Tools() {
		names[tool.Name] = true
		for kind, raw := range map[string]json.RawMessage{"input": tool.Input, "output": tool.Output} {
			var s map[string]any
			require.NoError(t, json.Unmarshal(raw, &s))
			require.Equal(t, "object", s["type"])
			walk(tool.Name+" "+kind, s)
		}
		require.Equal(t, tool.Mutating, tool.Needs.WriteWorkspace, tool.Name)
		require.NotEmpty(t, tool.Description)
	}
	require.Len(t, names, 10)
}
