package artifact_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/runtime/artifact"
)

func TestWhatATerminalUnderstandsIsText(t *testing.T) {
	for _, text := range []string{"bell\a", "back\bspace", "\x1b]0;title\x07text\n", "page\fbreak", "plain", "<html>"} {
		require.False(t, artifact.Describe([]byte(text)).Binary, "%q", text)
	}
	for _, binary := range []string{"a\x00b", "\x01\x02\x03\x04", "\x7fELF\x02\x01\x01\x00", "\x89PNG\r\n\x1a\n\x00\x00"} {
		require.True(t, artifact.Describe([]byte(binary)).Binary, "%q", binary)
	}
}
