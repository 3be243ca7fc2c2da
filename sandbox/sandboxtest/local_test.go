package sandboxtest_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/sandboxtest"
	"github.com/stretchr/testify/require"
)

func TestALocalBoxRunsCommandsAndKeepsFiles(t *testing.T) {
	box := sandboxtest.NewLocal(t)
	ctx := context.Background()
	_, err := box.Files().Apply(ctx, []sandbox.Change{{Op: sandbox.OpWrite, Path: "d/f.txt", Data: []byte("hello\n")}})
	require.NoError(t, err)
	var out bytes.Buffer
	exit, err := sandbox.Run(ctx, box, sandbox.Command{
		Argv: []string{"sh", "-c", "cat f.txt -; exit 7"}, Dir: "d", Stdin: strings.NewReader("input"), Stdout: &out,
	}, sandbox.After(0))
	require.NoError(t, err)
	require.Equal(t, 7, exit.Code)
	require.Equal(t, "hello\ninput", out.String())
	res, err := box.Files().Read(ctx, sandbox.ReadRequest{Path: "d/f.txt", Limit: 100})
	require.NoError(t, err)
	require.Equal(t, "hello\n", string(res.Data))
	require.Equal(t, "local", box.Facts().Driver)
}
