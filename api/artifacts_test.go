package api_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/api"
	"github.com/sandboxd/sandboxd/runtime"
)

func TestAnArtifactGoesOutAsADownloadThatNoBrowserOpens(t *testing.T) {
	w := newWorld(t, api.Limits{})
	run := w.kernel.addRun("a")
	for _, row := range []struct{ name, media, file, served string }{
		{"stdout", "text/plain", "stdout", "text/plain"},
		{"report.html", "text/html; charset=utf-8", "report.html", "text/html; charset=utf-8"},
		{"a\"\r\nSet-Cookie: x/../b", "not a type", "a___Set-Cookie__x_.._b", "application/octet-stream"},
		{"..", "", "", "application/octet-stream"},
	} {
		ref := w.kernel.addArtifact(run, row.name, row.media, map[string]string{"redacted": "<script>"})
		a := w.do("GET", "/v1/artifacts/"+ref.ID, "", "Content-Type:")
		require.Equal(t, 200, a.status)
		require.Equal(t, "<script>", a.body)
		require.Equal(t, row.served, a.head.Get("Content-Type"))
		file := row.file
		if file == "" {
			file = ref.ID
		}
		require.Equal(t, `attachment; filename="`+file+`"`, a.head.Get("Content-Disposition"))
		require.Equal(t, "nosniff", a.head.Get("X-Content-Type-Options"))
		require.Contains(t, a.head.Get("Content-Security-Policy"), "sandbox")
		require.Empty(t, a.head.Get("Set-Cookie"))
		require.Equal(t, `"sha256:abc123"`, a.head.Get("ETag"))
	}
	listed := w.do("GET", "/v1/runs/"+run+"/artifacts", "").object()
	require.Len(t, listed["artifacts"], 4)
	require.Nil(t, listed["next"])
	require.Equal(t, []any{}, w.do("GET", "/v1/runs/"+w.kernel.addRun("a")+"/artifacts", "").object()["artifacts"])
}

func TestPartsOfAnArtifactAreServed(t *testing.T) {
	w := newWorld(t, api.Limits{})
	ref := w.kernel.addArtifact(w.kernel.addRun("a"), "stdout", "text/plain", map[string]string{"redacted": "0123456789"})
	path := "/v1/artifacts/" + ref.ID
	for _, row := range []struct{ asked, got, body string }{
		{"bytes=0-3", "bytes 0-3/10", "0123"}, {"bytes=8-", "bytes 8-9/10", "89"}, {"bytes=-2", "bytes 8-9/10", "89"}, {"bytes=5-100", "bytes 5-9/10", "56789"},
	} {
		a := w.do("GET", path, "", "Range: "+row.asked)
		require.Equal(t, 206, a.status)
		require.Equal(t, row.got, a.head.Get("Content-Range"))
		require.Equal(t, row.body, a.body)
	}
	a := w.do("GET", path, "", "Range: bytes=20-30")
	a.problem(416, "RANGE_NOT_SATISFIABLE")
	require.Equal(t, "bytes */10", a.head.Get("Content-Range"))
	require.Empty(t, a.head.Get("Content-Disposition"))
	w.do("GET", path, "", "Range: pages=1").problem(416, "RANGE_NOT_SATISFIABLE")
	require.Equal(t, 304, w.do("GET", path, "", `If-None-Match: "sha256:abc123"`).status)
	w.do("GET", path, "", `If-Match: "sha256:other"`).problem(412, "PRECONDITION_FAILED")
	whole := w.do("GET", path, "", "Range: bytes=0-3", `If-Range: "sha256:other"`)
	require.Equal(t, 200, whole.status)
	require.Equal(t, "0123456789", whole.body)
	head := w.do("HEAD", path, "")
	require.Equal(t, 200, head.status)
	require.Equal(t, "10", head.head.Get("Content-Length"))
}

func TestTheRawViewNeedsItsOwnScope(t *testing.T) {
	w := newWorld(t, api.Limits{})
	ref := w.kernel.addArtifact(w.kernel.addRun("a"), "stdout", "text/plain", map[string]string{"redacted": "key=***", "raw": "key=hunter2"})
	path := "/v1/artifacts/" + ref.ID
	w.do("GET", path+"?view=raw", "").problem(403, "FORBIDDEN")
	w.do("GET", path+"?view=all", "").problem(400, "BAD_REQUEST")
	raw := w.do("GET", path+"?view=raw", "", "Authorization: Bearer "+auditorKey) // the control
	require.Equal(t, "key=hunter2", raw.body)
	redacted := w.do("GET", path+"?view=redacted", "")
	require.Equal(t, "key=***", redacted.body)
	require.NotEqual(t, raw.head.Get("ETag"), redacted.head.Get("ETag"))
}

func TestAnUploadReachesTheKernelAsItCame(t *testing.T) {
	w := newWorld(t, api.Limits{})
	path := "/v1/runs/" + w.kernel.addRun("a") + "/workspace"
	for _, media := range []string{"application/x-tar", "application/gzip", "application/zstd", "application/octet-stream", ""} {
		a := w.do("PUT", path, "tar bytes", "Content-Type: "+media)
		require.Equal(t, 200, a.status, a.body)
		require.EqualValues(t, 9, a.object()["bytes"])
	}
	for _, media := range []string{"application/json", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded", "text/plain"} {
		w.do("PUT", path, "tar bytes", "Content-Type: "+media).problem(415, "UNSUPPORTED_MEDIA_TYPE")
	}
	w.do("PUT", path, "tar bytes", "Content-Type: application/x-tar", "Content-Encoding: br").problem(415, "UNSUPPORTED_MEDIA_TYPE")
	require.Len(t, w.kernel.uploads, 5)
}

func TestABodyThatStopsComingIsGivenUp(t *testing.T) {
	w := newWorld(t, api.Limits{BodyTime: 100 * time.Millisecond, IdleRead: 100 * time.Millisecond})
	run := "/v1/runs/" + w.kernel.addRun("a")
	for _, to := range []struct{ method, path, media string }{
		{"PUT", run + "/workspace", "application/x-tar"}, {"POST", run + "/calls", "application/json"}, {"POST", "/v1/runs", "application/json"},
	} {
		body, sender := io.Pipe()
		go func() { _, _ = sender.Write([]byte(`{"toolName"`)) }() // and nothing more
		resp, err := w.client.Do(w.request(to.method, to.path, body, "Content-Type: "+to.media))
		require.NoError(t, err)
		require.Equal(t, 400, resp.StatusCode, to.path)
		require.NoError(t, resp.Body.Close())
		require.NoError(t, sender.Close())
	}
	require.Empty(t, w.kernel.uploads)
	require.Empty(t, w.kernel.proposals)
	require.Empty(t, w.kernel.specs)
}

func TestACallMayTakeLongerThanItsBodyMay(t *testing.T) {
	const bodyTime = 400 * time.Millisecond
	w := newWorld(t, api.Limits{BodyTime: bodyTime})
	run := "/v1/runs/" + w.kernel.addRun("a")
	answered := make(chan answer)
	go func() { answered <- w.do("POST", run+"/calls", `{"toolName": "hang", "onDisconnect": "cancel"}`) }()
	var calls []any
	eventually(t, func() bool {
		calls = w.do("GET", run+"/calls", "").object()["calls"].([]any)
		return len(calls) == 1
	}, "the call did not arrive")
	time.Sleep(2 * bodyTime) // what a deadline left behind would have ended it by now
	w.do("POST", run+"/calls/"+calls[0].(map[string]any)["toolCallId"].(string)+"/cancel", "")
	a := <-answered
	require.Equal(t, 200, a.status)
	require.Equal(t, "user", a.object()["reason"])
	time.Sleep(2 * bodyTime) // the connection is used again
	require.Equal(t, 200, w.do("POST", run+"/calls", `{"toolName": "echo"}`).status)
}

func TestTheWorkspaceIsDownloadedAsATar(t *testing.T) {
	w := newWorld(t, api.Limits{})
	run := w.kernel.addRun("a")
	a := w.do("GET", "/v1/runs/"+run+"/workspace", "")
	require.Equal(t, "a tar", a.body)
	require.Equal(t, "application/x-tar", a.head.Get("Content-Type"))
	require.Equal(t, `attachment; filename="`+run+`.tar"`, a.head.Get("Content-Disposition"))
	w.kernel.failure = runtime.Problemf(runtime.ProblemRunNotActive, "The run is ended.")
	a = w.do("GET", "/v1/runs/"+run+"/workspace", "")
	a.problem(409, "RUN_NOT_ACTIVE")
	require.Empty(t, a.head.Get("Content-Disposition"))
	require.Equal(t, 200, w.do("HEAD", "/v1/runs/"+run+"/workspace", "").status)
}

func TestADiffIsTextAndMayBeEmpty(t *testing.T) {
	w := newWorld(t, api.Limits{})
	path := "/v1/runs/" + w.kernel.addRun("a") + "/diff"
	w.kernel.diff = func(out io.Writer) error { _, err := io.WriteString(out, "--- a\n+++ b\n"); return err }
	a := w.do("GET", path, "")
	require.Equal(t, "--- a\n+++ b\n", a.body)
	require.Equal(t, "text/x-diff", a.head.Get("Content-Type"))
	require.Equal(t, "text/plain", w.do("GET", path, "", "Accept: text/plain").head.Get("Content-Type"))
	w.kernel.diff = func(io.Writer) error { return nil }
	empty := w.do("GET", path, "")
	require.Equal(t, 200, empty.status)
	require.Empty(t, empty.body)
}

func TestAnAnswerThatFailsHalfWayDoesNotLookWhole(t *testing.T) {
	w := newWorld(t, api.Limits{})
	path := "/v1/runs/" + w.kernel.addRun("a") + "/diff"
	w.kernel.diff = func(io.Writer) error { return errors.New("agent lost") }
	w.do("GET", path, "").problem(500, "INTERNAL") // nothing was sent yet
	w.kernel.diff = func(out io.Writer) error {
		_, _ = io.WriteString(out, strings.Repeat("x", 100<<10))
		return errors.New("agent lost")
	}
	resp, err := w.client.Do(w.request("GET", path, http.NoBody))
	require.NoError(t, err)
	_, err = io.ReadAll(resp.Body)
	require.Error(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 200, w.do("GET", "/healthz", "").status)
}

func TestADownloadThatNobodyReadsIsGivenUp(t *testing.T) {
	w := newWorld(t, api.Limits{IdleWrite: 100 * time.Millisecond})
	path := "/v1/runs/" + w.kernel.addRun("a") + "/diff"
	ended := make(chan error, 1)
	w.kernel.diff = func(out io.Writer) error {
		var err error
		for err == nil {
			_, err = io.WriteString(out, strings.Repeat("x", 64<<10))
		}
		ended <- err
		return err
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }() // broken by then
	_, err = io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+aliceKey+"\r\n\r\n")
	require.NoError(t, err)
	select {
	case err := <-ended:
		require.Error(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("the download waits for its reader")
	}
}
