package runtime_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/sandbox"
)

// Every kind but the internal one has a code and a sentence of its own.
func TestEveryRefusalOfABoxHasACodeAndASentence(t *testing.T) {
	for _, kind := range sandbox.Kinds() {
		fault := runtime.BoxFault(fmt.Errorf("reading: %w", &sandbox.Error{Kind: kind, Path: "a/b", Message: "host detail"}))
		require.NotNil(t, fault, kind)
		if kind == sandbox.KindInternal {
			require.Equal(t, runtime.CodeInternal, fault.Code)
		} else {
			require.NotEqual(t, runtime.CodeInternal, fault.Code, kind)
		}
		require.NotContains(t, fault.Message, "%s", kind)
		require.NotContains(t, fault.Message, "host detail", kind)
	}
}

func TestAStaleFileIsToldWithItsCurrentHash(t *testing.T) {
	fault := runtime.BoxFault(&sandbox.Error{Kind: sandbox.KindHashMismatch, Path: "a\xff", CurrentHash: "sha256:00"})
	require.Equal(t, runtime.CodeBaseHashMismatch, fault.Code)
	require.Equal(t, map[string]any{"path": "a\uFFFD", "currentHash": "sha256:00", "pathBase64": "Yf8="}, fault.Structured)
}

func TestAFaultStaysWhatItIsAndForeignErrorsBecomeTheTemplate(t *testing.T) {
	own := runtime.Faultf(runtime.CodePatchMismatch, "no")
	require.Same(t, own, runtime.BoxFault(fmt.Errorf("x: %w", own)))
	foreign := runtime.BoxFault(errors.New("/secret/host/path"))
	require.Equal(t, runtime.CodeInternal, foreign.Code)
	require.NotContains(t, foreign.Message, "secret")
	require.Nil(t, runtime.BoxFault(nil))
}
