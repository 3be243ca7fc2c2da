package api_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sandboxd/sandboxd/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// keyring is an authenticator with keys of several tenants.
type keyring map[string]api.Principal

func (k keyring) Authenticate(key string) (api.Principal, bool) {
	who, ok := k[key]
	return who, ok
}

const (
	aliceKey   = "alice's key, which is thirty-two and more"
	bobKey     = "bob's key"
	auditorKey = "auditor's key, of alice's tenant"
)

func testKeys() keyring {
	return keyring{
		aliceKey:   {KeyID: "alice", Tenant: "a"},
		auditorKey: {KeyID: "auditor", Tenant: "a", Scopes: []string{api.ScopeArtifactsRaw}},
		bobKey:     {KeyID: "bob", Tenant: "b"},
	}
}

// world is an API over a fake kernel, served on loopback.
type world struct {
	t      *testing.T
	kernel *fakeKernel
	url    string
	client *http.Client
	log    *logBook
}

func newWorld(t *testing.T, limits api.Limits) *world {
	t.Helper()
	w := &world{t: t, kernel: newFakeKernel(), log: &logBook{}}
	srv := httptest.NewUnstartedServer(nil)
	srv.Config = api.Server(api.New(api.Config{
		Kernel: w.kernel, Auth: testKeys(), Logger: slog.New(slog.NewJSONHandler(w.log, nil)),
		Address: srv.Listener.Addr().String(), Limits: limits,
	}))
	srv.Start()
	t.Cleanup(srv.Close)
	w.url, w.client = srv.URL, srv.Client()
	return w
}

// logBook keeps what was logged.
type logBook struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBook) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// answer is a response, read.
type answer struct {
	t      *testing.T
	status int
	head   http.Header
	body   string
}

// do sends a request with alice's key. header holds "Name: value" lines; an
// empty value takes the header away.
func (w *world) do(method, path, body string, header ...string) answer {
	w.t.Helper()
	req := w.request(method, path, strings.NewReader(body), header...)
	if body == "" {
		req.Body, req.ContentLength = http.NoBody, 0
	}
	resp, err := w.client.Do(req)
	require.NoError(w.t, err)
	defer func() { _ = resp.Body.Close() }() // read to its end
	raw, err := io.ReadAll(resp.Body)
	require.NoError(w.t, err)
	return answer{t: w.t, status: resp.StatusCode, head: resp.Header, body: string(raw)}
}

func (w *world) request(method, path string, body io.Reader, header ...string) *http.Request {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, body)
	require.NoError(w.t, err)
	req.Header.Set("Authorization", "Bearer "+aliceKey)
	req.Header.Set("Content-Type", "application/json")
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		switch {
		case name == "Host":
			req.Host = value
		case value == "":
			req.Header.Del(strings.TrimSuffix(name, ":"))
		default:
			req.Header.Set(name, value)
		}
	}
	return req
}

// object decodes a JSON answer.
func (a answer) object() map[string]any {
	a.t.Helper()
	require.Contains(a.t, a.head.Get("Content-Type"), "json", a.body)
	var doc map[string]any
	require.NoError(a.t, json.Unmarshal([]byte(a.body), &doc), a.body)
	return doc
}

// problem holds the answer against RFC 9457 and returns it.
func (a answer) problem(status int, code string) map[string]any {
	a.t.Helper()
	require.Equal(a.t, status, a.status, a.body)
	require.Equal(a.t, "application/problem+json", a.head.Get("Content-Type"))
	p := a.object()
	require.Equal(a.t, code, p["code"], a.body)
	require.EqualValues(a.t, status, p["status"])
	require.Equal(a.t, a.head.Get("X-Request-Id"), p["requestId"])
	for _, member := range []string{"type", "title", "detail", "advice"} {
		require.NotEmpty(a.t, p[member], "%s of %s", member, a.body)
	}
	return p
}

// eventually waits for a condition that other goroutines bring about.
func eventually(t *testing.T, condition func() bool, message string) {
	t.Helper()
	require.Eventually(t, condition, 5*time.Second, 5*time.Millisecond, message)
}
