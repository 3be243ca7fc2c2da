package docker_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/sandbox/docker"
)

// frame is one of the engine's frames.
func frame(stream byte, payload string) []byte {
	h := []byte{stream, 0, 0, 0, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(h[4:], uint32(len(payload)))
	return append(h, payload...)
}

func TestOutputIsPutTogetherAndComplaintsSetAside(t *testing.T) {
	var sent []byte
	for _, f := range [][]byte{frame(1, "he"), frame(2, "a complaint"), frame(1, ""), frame(1, "llo"), frame(2, strings.Repeat("x", 100_000))} {
		sent = append(sent, f...)
	}
	for name, r := range map[string]io.Reader{"at once": bytes.NewReader(sent), "in bytes": iotest.OneByteReader(bytes.NewReader(sent))} {
		got, err := io.ReadAll(docker.NewAttached(r))
		require.ErrorIs(t, err, io.EOF, name)
		require.Equal(t, "hello", string(got), name)
		require.Contains(t, err.Error(), "a complaint", name)
		require.Less(t, len(err.Error()), 5000, name)
	}
	_, err := io.ReadAll(docker.NewAttached(bytes.NewReader(frame(1, "hello")[:10])))
	require.NoError(t, err, "an end is an end")
	_, err = io.ReadAll(docker.NewAttached(bytes.NewReader(frame(7, "x"))))
	require.ErrorContains(t, err, "stream 7")
	_, err = io.ReadAll(docker.NewAttached(bytes.NewReader([]byte{1, 0, 0})))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func FuzzAttachedStream(f *testing.F) {
	f.Add(append(frame(1, "out"), frame(2, "err")...))
	f.Add([]byte{1, 0, 0, 0, 255, 255, 255, 255})
	f.Add([]byte{9})
	f.Fuzz(func(t *testing.T, sent []byte) {
		got, _ := io.ReadAll(docker.NewAttached(bytes.NewReader(sent)))
		require.LessOrEqual(t, len(got), len(sent))
	})
}
