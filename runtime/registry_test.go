package runtime_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/runtime"
)

func TestAToolThatStatesTooLittleIsNotRegistered(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*runtime.Definition)
		says string
	}{
		{"control", func(*runtime.Definition) {}, ""},
		{"no namespace", func(d *runtime.Definition) { d.Name = "read" }, "namespace"},
		{"no version", func(d *runtime.Definition) { d.Version = "" }, "version"},
		{"no need", func(d *runtime.Definition) { d.Needs = runtime.Needs{} }, "permission requirement"},
		{"no timeout", func(d *runtime.Definition) { d.DefaultTimeout = 0 }, "timeout"},
		{"maximum below default", func(d *runtime.Definition) { d.MaxTimeout = time.Millisecond }, "timeout"},
		{"mutates without need", func(d *runtime.Definition) { d.Mutating = true }, "writeWorkspace"},
		{"input schema", func(d *runtime.Definition) { d.Input = json.RawMessage(`{"type":`) }, "input schema"},
		{"dangling reference", func(d *runtime.Definition) {
			d.Input = json.RawMessage(`{"type":"object","properties":{"a":{"$ref":"#/$defs/none"}}}`)
		}, "input schema"},
		{"remote reference", func(d *runtime.Definition) {
			d.Output = json.RawMessage(`{"$ref":"http://127.0.0.1:1/schema.json"}`)
		}, "output schema"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := runtime.New(runtime.Config{Tools: []*runtime.Tool{probe("file.read", echo, c.edit)}})
			if c.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.says)
		})
	}
	t.Run("a name taken twice", func(t *testing.T) {
		_, err := runtime.New(runtime.Config{Tools: []*runtime.Tool{probe("file.read", echo), probe("file.read", echo)}})
		require.ErrorContains(t, err, "taken")
	})
}

func TestTheTableOfCodesIsClosedAndSound(t *testing.T) {
	seen := map[runtime.Code]bool{}
	for _, row := range runtime.Codes() {
		require.False(t, seen[row.Code], row.Code)
		seen[row.Code] = true
		require.Equal(t, row, row.Code.Info())
		require.NotEmpty(t, row.Meaning)
		require.Contains(t, []runtime.Status{
			runtime.Failed, runtime.Denied, runtime.InvalidArguments, runtime.TimedOut, runtime.Cancelled, runtime.Partial,
		}, row.Status)
		if row.Status == runtime.Denied {
			require.Equal(t, runtime.ClassDenied, row.Class, row.Code)
		}
		if row.Status == runtime.InvalidArguments {
			require.Equal(t, runtime.ClassInvalidArgs, row.Class, row.Code)
		}
		require.True(t, row.HTTP >= 200 && row.HTTP < 600)
	}
	require.Equal(t, runtime.CodeInternal, runtime.Code("NO_SUCH").Info().Code)
}
