package api_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/api"
)

// sendRaw sends a request of which declared bytes of body are announced and
// body is all that comes, and returns the answer.
func sendRaw(t *testing.T, w *world, method, path, headers string, declared int, body string) (status int, media string, closes bool) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	_, err = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\n%sContent-Length: %d\r\n\r\n%s", method, path, headers, declared, body)
	require.NoError(t, err, "the connection was cut under the sender")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode, resp.Header.Get("Content-Type"), resp.Close
}

const asAlice = "Authorization: Bearer " + aliceKey + "\r\n"

func TestAClientThatStallsWithinItsBodyIsAnswered(t *testing.T) {
	w := newWorld(t, api.Limits{BodyTime: 200 * time.Millisecond, IdleRead: 200 * time.Millisecond})
	run := "/v1/runs/" + w.kernel.addRun("a")
	for _, c := range []struct {
		name, method, path, headers string
		status                      int
	}{
		{"a call", "POST", run + "/calls", asAlice, 400},
		{"an upload", "PUT", run + "/workspace", asAlice, 400},
		{"no key", "POST", run + "/calls", "", 401},
		{"no such path", "POST", "/v1/none", asAlice, 404},
		{"waiting to be told to go on", "POST", "/v1/none", asAlice + "Expect: 100-continue\r\n", 404},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, media, closes := sendRaw(t, w, c.method, c.path, c.headers, 100, "{")
			require.Equal(t, c.status, status)
			require.Equal(t, "application/problem+json", media)
			require.True(t, closes, "the rest of the body would be read as a request")
		})
	}
	require.Equal(t, 200, w.do("POST", run+"/calls", `{"toolName": "echo"}`).status, "control: one that sends all of it")
}

func TestAClientThatSendsTooMuchIsToldSo(t *testing.T) {
	w := newWorld(t, api.Limits{})
	const size = 12 << 20
	status, _, _ := sendRaw(t, w, "POST", "/v1/runs", asAlice, size, strings.Repeat("x", size))
	require.Equal(t, 413, status)
}

func TestAConnectionServesOnAfterARefusedBody(t *testing.T) {
	w := newWorld(t, api.Limits{BodyTime: 200 * time.Millisecond})
	run := "/v1/runs/" + w.kernel.addRun("a")
	for range 3 {
		require.Equal(t, 404, w.do("POST", "/v1/none", `{"toolName": "echo"}`).status)
		require.Equal(t, 400, w.do("POST", run+"/calls", `{"toolName": 5}`).status)
		require.Equal(t, 200, w.do("POST", run+"/calls", `{"toolName": "echo"}`).status)
	}
	time.Sleep(300 * time.Millisecond)
	require.Equal(t, 200, w.do("POST", run+"/calls", `{"toolName": "echo"}`).status)
}
