package api_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/api"
	"github.com/sandboxd/sandboxd/runtime"
)

func (k *fakeKernel) fill(runID string, n int) {
	for range n {
		k.note(runID, runtime.CallProgress)
	}
}

func TestEventsAreReadInPages(t *testing.T) {
	w := newWorld(t, api.Limits{})
	id := w.kernel.addRun("a")
	w.kernel.fill(id, 4)
	path := "/v1/runs/" + id + "/events"
	first := w.do("GET", path+"?limit=3", "").object()
	require.Len(t, first["events"], 3)
	require.EqualValues(t, 3, first["next"])
	event := first["events"].([]any)[0].(map[string]any)
	require.Equal(t, "RUN_CREATED", event["kind"])
	for _, member := range []string{"seq", "runId", "kind", "time", "data", "prevHash", "hash"} {
		require.Contains(t, event, member)
	}
	second := w.do("GET", path+"?after=3", "").object()
	require.Len(t, second["events"], 2)
	require.EqualValues(t, 5, second["next"])
	last := w.do("GET", path+"?after=5", "").object()
	require.Equal(t, []any{}, last["events"])
	require.EqualValues(t, 5, last["next"])
}

func TestAPageThatGrowsHeavyEndsEarlyAndNothingIsMissed(t *testing.T) {
	w := newWorld(t, api.Limits{})
	id := w.kernel.addRun("a")
	w.kernel.fill(id, 119)
	w.kernel.events[id][9].Data = json.RawMessage(`"` + strings.Repeat("x", 16<<20) + `"`)
	next, seen, pages := 0, 0, 0
	for seen < 120 {
		page := w.do("GET", fmt.Sprintf("/v1/runs/%s/events?limit=1000&after=%d", id, next), "").object()
		for _, e := range page["events"].([]any) {
			seen++
			require.EqualValues(t, seen, e.(map[string]any)["seq"])
		}
		next = int(page["next"].(float64))
		pages++
	}
	require.Equal(t, 2, pages) // one read of rows was more than a page holds
}

func TestEventsAreExportedAsLinesToTheirPresentEnd(t *testing.T) {
	w := newWorld(t, api.Limits{})
	id := w.kernel.addRun("a")
	w.kernel.fill(id, 450) // more than two pages
	a := w.do("GET", "/v1/runs/"+id+"/events?after=1", "", "Accept: application/x-ndjson")
	require.Equal(t, 200, a.status)
	require.Equal(t, "application/x-ndjson", a.head.Get("Content-Type"))
	lines := strings.Split(strings.TrimSuffix(a.body, "\n"), "\n")
	require.Len(t, lines, 450)
	for i, line := range lines {
		var e runtime.Event
		require.NoError(t, json.Unmarshal([]byte(line), &e))
		require.EqualValues(t, i+2, e.Seq)
	}
	w.do("GET", "/v1/runs/"+id+"/events?limit=2", "", "Accept: application/x-ndjson").problem(400, "BAD_REQUEST")
}

func TestLinesCanFollowARunToItsEnd(t *testing.T) {
	w := newWorld(t, api.Limits{})
	id := w.kernel.addRun("a")
	time.AfterFunc(50*time.Millisecond, func() { _ = w.kernel.EndRun(t.Context(), id, "") })
	a := w.do("GET", "/v1/runs/"+id+"/events?follow=true", "", "Accept: application/x-ndjson")
	require.Len(t, strings.Split(strings.TrimSpace(a.body), "\n"), 2)
}

// eventStream is an open stream as its reader has it.
type eventStream struct {
	status int
	head   http.Header
	lines  *bufio.Scanner
	close  func() error
}

func (w *world) openStream(path string, header ...string) *eventStream {
	w.t.Helper()
	resp, err := w.client.Do(w.request("GET", path, http.NoBody, append(header, "Accept: text/event-stream")...))
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = resp.Body.Close() }) // may be closed already
	return &eventStream{status: resp.StatusCode, head: resp.Header, lines: bufio.NewScanner(resp.Body), close: resp.Body.Close}
}

// next reads one message, without comments; nil is the stream's end.
func (s *eventStream) next() map[string]string {
	message := map[string]string{}
	for s.lines.Scan() {
		line := s.lines.Text()
		if line == "" && len(message) > 0 {
			return message
		}
		if name, value, ok := strings.Cut(line, ": "); ok && name != "" {
			message[name] = value
		}
	}
	return nil
}

func TestAStreamSendsWhatIsThereThenWhatComesThenEnds(t *testing.T) {
	w := newWorld(t, api.Limits{})
	id := w.kernel.addRun("a")
	stream := w.openStream("/v1/runs/" + id + "/events")
	require.Equal(t, 200, stream.status)
	require.Equal(t, "text/event-stream", stream.head.Get("Content-Type"))
	require.Equal(t, "1", stream.next()["id"])
	w.kernel.fill(id, 1)
	message := stream.next()
	require.Equal(t, "2", message["id"])
	require.Equal(t, "TOOL_CALL_PROGRESS", message["event"])
	var e runtime.Event
	require.NoError(t, json.Unmarshal([]byte(message["data"]), &e))
	require.EqualValues(t, 2, e.Seq)
	require.NoError(t, w.kernel.EndRun(t.Context(), id, ""))
	require.Equal(t, "RUN_ENDED", stream.next()["event"])
	require.Nil(t, stream.next())
	eventually(t, func() bool { return w.kernel.following(id) == 0 }, "somebody still follows")
}

func TestAStreamResumesBehindTheLastEventSeen(t *testing.T) {
	w := newWorld(t, api.Limits{})
	id := w.kernel.addRun("a")
	w.kernel.fill(id, 9)
	for _, row := range []struct{ query, last, first string }{
		{"", "", "1"}, {"?after=4", "", "5"}, {"", "7", "8"}, {"?after=4", "7", "8"}, {"?after=7", "0", "1"},
	} {
		stream := w.openStream("/v1/runs/"+id+"/events"+row.query, "Last-Event-ID: "+row.last)
		require.Equal(t, row.first, stream.next()["id"])
		require.NoError(t, stream.close())
	}
	for _, bad := range []string{"x", "-1", "1.5", "99999999999999999999"} {
		w.do("GET", "/v1/runs/"+id+"/events", "", "Accept: text/event-stream", "Last-Event-ID: "+bad).problem(400, "BAD_REQUEST")
	}
	w.do("GET", "/v1/runs/"+id+"/events?limit=3", "", "Accept: text/event-stream").problem(400, "BAD_REQUEST")
}

func TestAStreamOfARunThatIsOverEndsAndIsNotAskedForAgain(t *testing.T) {
	w := newWorld(t, api.Limits{})
	id := w.kernel.addRun("a")
	require.NoError(t, w.kernel.EndRun(t.Context(), id, ""))
	a := w.do("GET", "/v1/runs/"+id+"/events", "", "Accept: text/event-stream")
	require.Equal(t, 200, a.status)
	require.Equal(t, 2, strings.Count(a.body, "\ndata: "))
	a = w.do("GET", "/v1/runs/"+id+"/events", "", "Accept: text/event-stream", "Last-Event-ID: 2")
	require.Equal(t, 204, a.status)
}

func TestAStreamWaitsForTheLastEventOfARunThatIsEnding(t *testing.T) {
	w := newWorld(t, api.Limits{})
	id := w.kernel.addRun("a")
	w.kernel.mu.Lock()
	w.kernel.runs[id].Status = runtime.RunEnded // before its event is in the ledger
	w.kernel.mu.Unlock()
	stream := w.openStream("/v1/runs/" + id + "/events")
	require.Equal(t, "1", stream.next()["id"])
	w.kernel.note(id, runtime.RunEndedEvent)
	require.Equal(t, "RUN_ENDED", stream.next()["event"])
	require.Nil(t, stream.next())
}

func TestAnIdleStreamShowsThatItLivesWithoutReadingTheLedger(t *testing.T) {
	w := newWorld(t, api.Limits{Heartbeat: 10 * time.Millisecond})
	id := w.kernel.addRun("a")
	resp, err := w.client.Do(w.request("GET", "/v1/runs/"+id+"/events", http.NoBody, "Accept: text/event-stream"))
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }() // was read as far as wanted
	lines := bufio.NewScanner(resp.Body)
	for beats := 0; beats < 5; {
		require.True(t, lines.Scan())
		if strings.HasPrefix(lines.Text(), ":") {
			beats++
		}
	}
	w.kernel.mu.Lock()
	defer w.kernel.mu.Unlock()
	require.LessOrEqual(t, w.kernel.eventReads, 3)
}

func TestAStreamWhoseLedgerFailsIsCutAndDoesNotLookWhole(t *testing.T) {
	w := newWorld(t, api.Limits{})
	id := w.kernel.addRun("a")
	stream := w.openStream("/v1/runs/" + id + "/events")
	require.NotNil(t, stream.next())
	w.kernel.mu.Lock()
	w.kernel.failure = errors.New("disk gone")
	w.kernel.record(id, runtime.CallProgress, "")
	w.kernel.mu.Unlock()
	require.Nil(t, stream.next())
	require.ErrorIs(t, stream.lines.Err(), io.ErrUnexpectedEOF)
	eventually(t, func() bool { return strings.Contains(w.log.text(), "disk gone") }, "not in the log")
}

func TestAReaderThatNeverReadsHoldsNobodyUp(t *testing.T) {
	w := newWorld(t, api.Limits{IdleWrite: 300 * time.Millisecond})
	id := w.kernel.addRun("a")
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }() // broken by then
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4096))
	_, err = fmt.Fprintf(conn, "GET /v1/runs/%s/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nAccept: text/event-stream\r\n\r\n", id, aliceKey)
	require.NoError(t, err)
	eventually(t, func() bool { return w.kernel.following(id) == 1 }, "the stream did not start")
	// More than any buffer between us holds: the stream gets stuck.
	big := strings.Repeat("x", 64<<10)
	w.kernel.mu.Lock()
	for range 400 {
		w.kernel.record(id, runtime.CallProgress, big)
	}
	w.kernel.mu.Unlock()
	started := time.Now()
	require.Equal(t, 200, w.do("POST", "/v1/runs/"+id+"/calls", `{"toolName": "echo"}`).status)
	stream := w.openStream("/v1/runs/" + id + "/events?after=401")
	require.NotNil(t, stream.next()) // another reader gets its events
	require.Less(t, time.Since(started), 5*time.Second)
	eventually(t, func() bool { return w.kernel.following(id) == 1 }, "the stuck stream is not given up")
	eventually(t, func() bool { return strings.Contains(w.log.text(), `"clientGone":true`) }, "not in the log")
	require.NotContains(t, w.log.text(), `"level":"ERROR"`)
}

func TestAStreamEndsWhenItsReaderLeavesAndWhenTheServerStops(t *testing.T) {
	w := newWorld(t, api.Limits{})
	id := w.kernel.addRun("a")
	stream := w.openStream("/v1/runs/" + id + "/events")
	require.NotNil(t, stream.next())
	require.NoError(t, stream.close())
	eventually(t, func() bool { return w.kernel.following(id) == 0 }, "the left stream goes on")

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv := api.Server(api.New(api.Config{Kernel: w.kernel, Auth: testKeys()}))
	served := make(chan error, 1)
	go func() { served <- srv.Serve(listener) }()
	w.url = "http://" + listener.Addr().String()
	stream = w.openStream("/v1/runs/" + id + "/events")
	require.NotNil(t, stream.next())
	require.NoError(t, srv.Shutdown(t.Context()))
	require.ErrorIs(t, <-served, http.ErrServerClosed)
	require.Nil(t, stream.next())
}

func TestASecondPageOfAStreamComesWithoutASignal(t *testing.T) {
	w := newWorld(t, api.Limits{})
	id := w.kernel.addRun("a")
	w.kernel.fill(id, 500)
	stream := w.openStream("/v1/runs/" + id + "/events")
	for i := range 501 {
		require.Equal(t, strconv.Itoa(i+1), stream.next()["id"])
	}
}
