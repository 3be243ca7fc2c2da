package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/api"
)

// badBody is a body that an endpoint must refuse, with the pointer of its fault
// and words of the sentence that says what to do.
type badBody struct{ name, body, pointer, says string }

func notStrictJSON() []badBody {
	return []badBody{
		{"text", `hello`, "", "strict JSON"},
		{"cut", `{"toolName": "echo"`, "", "ends before"},
		{"duplicate key", `{"toolName": "a", "toolName": "b"}`, "/toolName", "twice"},
		{"duplicate key within", `{"toolName": "a", "arguments": {"x": 1, "x": 2}}`, "/arguments/x", "twice"},
		{"trailing data", `{"toolName": "a"} {}`, "", "follows"},
		{"trailing comma", `{"toolName": "a",}`, "", "malformed"},
		{"comment", `{/* */"toolName": "a"}`, "", "malformed"},
		{"NaN", `{"toolName": "a", "arguments": NaN}`, "/arguments", "malformed"},
		{"huge number", `{"toolName": "a", "arguments": 1e999}`, "/arguments", "number"},
		{"invalid UTF-8", "{\"toolName\": \"a\xff\"}", "/toolName", "UTF-8"},
		{"half surrogate", `{"toolName": "\ud800"}`, "/toolName", "UTF-8"},
		{"byte order mark", "\ufeff{}", "", "malformed"},
		{"too deep", `{"toolName": "a", "arguments": ` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, "/arguments" + strings.Repeat("/0", 63), "deeper"},
	}
}

func TestABodyThatIsNotStrictJSONIsRefusedWhereverItIsSent(t *testing.T) {
	w := newWorld(t, api.Limits{})
	run := "/v1/runs/" + w.kernel.addRun("a")
	for _, to := range []struct{ method, path string }{
		{"POST", "/v1/runs"}, {"PATCH", run}, {"POST", run + "/calls"}, {"POST", run + "/batches"},
		{"POST", run + "/calls/" + newID("call_") + "/cancel"},
	} {
		for _, bad := range notStrictJSON() {
			p := w.do(to.method, to.path, bad.body).problem(400, "BAD_REQUEST")
			require.Contains(t, p["detail"], bad.says, "%s %s: %s", to.method, to.path, bad.name)
			if bad.pointer != "" {
				require.Equal(t, bad.pointer, p["pointer"], "%s: %s", to.path, bad.name)
			}
		}
	}
	require.Empty(t, w.kernel.specs)
	require.Empty(t, w.kernel.patches)
	require.Empty(t, w.kernel.proposals)
}

func TestABadRunIsRefusedWithTheFieldAndWhatFits(t *testing.T) {
	w := newWorld(t, api.Limits{})
	for _, bad := range []badBody{
		{"array", `[]`, "", "must be object"},
		{"null", `null`, "", "must be object"},
		{"unknown field", `{"imge": "x"}`, "/imge", "image"},
		{"name in other case", `{"Image": "x"}`, "/Image", "image"},
		{"unknown field within", `{"limits": {"memoryByte": 1}}`, "/limits/memoryByte", "memoryBytes"},
		{"wrong type", `{"image": 5}`, "/image", "must be string"},
		{"null field", `{"limits": null}`, "/limits", "must be object"},
		{"wrong source", `{"source": {"type": "svn"}}`, "/source/type", `"empty", "git", "host", "upload"`},
		{"wrong mode", `{"source": {"mode": "link"}}`, "/source/mode", `"copy", "overlay", "bind"`},
		{"wrong access", `{"workspace": {"access": "rwx"}}`, "/workspace/access", `"rw", "ro"`},
		{"wrong policy", `{"network": {"policy": "open"}}`, "/network/policy", `"none", "allowlist", "full"`},
		{"wrong profile", `{"seccomp": "off"}`, "/seccomp", `"strict", "default", "debug"`},
		{"wrong state", `{"state": "editing"}`, "/state", `"EDITING"`},
		{"negative", `{"limits": {"pids": -1}}`, "/limits/pids", "at least 0"},
		{"fraction", `{"limits": {"pids": 1.5}}`, "/limits/pids", "must be integer"},
		{"integer as fraction", `{"limits": {"pids": 1e3}}`, "/limits/pids", "/limits/pids"},
		{"beyond 64 bits", `{"limits": {"pids": 99999999999999999999}}`, "/limits/pids", "out of range"},
		{"too many commands", `{"limits": {"commands": 65}}`, "/limits/commands", "at most 64"},
		{"mount without target", `{"mounts": [{"source": "/a"}]}`, "/mounts/0", "target"},
		{"port", `{"network": {"allow": [{"host": "a", "ports": [70000]}]}}`, "/network/allow/0/ports/0", "at most 65535"},
		{"env value", `{"env": {"A": 1}}`, "/env/A", "must be string"},
		{"label value", `{"labels": {"a": null}}`, "/labels/a", "must be string"},
		{"check without argv", `{"verify": [{"name": "unit"}]}`, "/verify/0", "argv"},
		{"empty glob", `{"permissions": {"tools": {"allow": [""]}}}`, "/permissions/tools/allow/0", "at least 1"},
	} {
		p := w.do("POST", "/v1/runs", bad.body).problem(400, "BAD_REQUEST")
		require.Contains(t, p["detail"], bad.says, bad.name)
		if bad.pointer == "" {
			require.NotContains(t, p, "pointer", bad.name)
		} else {
			require.Equal(t, bad.pointer, p["pointer"], bad.name)
		}
	}
	require.Empty(t, w.kernel.specs)
	require.Equal(t, 201, w.do("POST", "/v1/runs", `{"limits": {"pids": 128}, "state": "PLANNING"}`).status) // the control
}

func TestAllFaultsOfABodyAreListed(t *testing.T) {
	w := newWorld(t, api.Limits{})
	p := w.do("POST", "/v1/runs", `{"imge": "x", "state": "?", "limits": {"pids": "many"}}`).problem(400, "BAD_REQUEST")
	require.Len(t, p["violations"], 3)
}

func TestABadCallIsRefusedWithTheField(t *testing.T) {
	w := newWorld(t, api.Limits{})
	path := "/v1/runs/" + w.kernel.addRun("a") + "/calls"
	bads := []badBody{
		{"no body", ``, "", "toolName"},
		{"no tool", `{"arguments": {}}`, "", "toolName"},
		{"empty tool", `{"toolName": ""}`, "/toolName", "at least 1"},
		{"long tool", `{"toolName": "` + strings.Repeat("a", 201) + `"}`, "/toolName", "at most 200"},
		{"unknown field", `{"toolName": "echo", "argument": {}}`, "/argument", "arguments"},
		{"wrong disconnect", `{"toolName": "echo", "onDisconnect": "stop"}`, "/onDisconnect", `"continue", "cancel"`},
		{"no result", `{"toolName": "echo", "maxResultChars": 0}`, "/maxResultChars", "at least 1"},
		{"key with spaces", `{"toolName": "echo", "idempotencyKey": "a b"}`, "/idempotencyKey", "visible ASCII"},
		{"no call", `{"toolName": "echo", "parentCallId": "call_1"}`, "/parentCallId", "id of a call"},
	}
	for _, bad := range bads {
		p := w.do("POST", path, bad.body).problem(400, "BAD_REQUEST")
		require.Contains(t, p["detail"], bad.says, bad.name)
		if bad.pointer != "" {
			require.Equal(t, bad.pointer, p["pointer"], bad.name)
		}
	}
	require.Empty(t, w.kernel.proposals)
	require.Equal(t, 200, w.do("POST", path, `{"toolName": "echo"}`).status) // the control
}

func TestABodyBeyondItsLimitIsRefusedAndOneAtTheLimitTaken(t *testing.T) {
	w := newWorld(t, api.Limits{JSONBytes: 1000, CallBytes: 2000, UploadBytes: 3000})
	run := "/v1/runs/" + w.kernel.addRun("a")
	for _, to := range []struct {
		method, path, head, tail, media string
		limit                           int
	}{
		{"POST", "/v1/runs", `{"image": "`, `"}`, "application/json", 1000},
		{"POST", run + "/calls", `{"toolName": "echo", "arguments": "`, `"}`, "application/json", 2000},
		{"PUT", run + "/workspace", "", "", "application/x-tar", 3000},
	} {
		body := func(size int) string {
			return to.head + strings.Repeat("a", size-len(to.head)-len(to.tail)) + to.tail
		}
		ok := w.do(to.method, to.path, body(to.limit), "Content-Type: "+to.media)
		require.NotEqual(t, 413, ok.status, to.path)
		for _, chunked := range []bool{false, true} {
			req := w.request(to.method, to.path, strings.NewReader(body(to.limit+1)), "Content-Type: "+to.media)
			if chunked {
				req.ContentLength = -1
			}
			resp, err := w.client.Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, 413, resp.StatusCode, "%s chunked=%v", to.path, chunked)
		}
	}
	require.Len(t, w.kernel.uploads, 1)
	require.Len(t, w.kernel.proposals, 1)
}

func TestABodyOfAnotherMediaTypeIsRefused(t *testing.T) {
	w := newWorld(t, api.Limits{})
	for _, media := range []string{"application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=x", "application/json; charset=utf-16", ";"} {
		w.do("POST", "/v1/runs", `{}`, "Content-Type: "+media).problem(415, "UNSUPPORTED_MEDIA_TYPE")
	}
	w.do("POST", "/v1/runs", `{}`, "Content-Encoding: gzip").problem(415, "UNSUPPORTED_MEDIA_TYPE")
	require.Empty(t, w.kernel.specs)
	for _, media := range []string{"application/json", "application/json; charset=UTF-8", ""} {
		require.Equal(t, 201, w.do("POST", "/v1/runs", `{}`, "Content-Type: "+media).status, media)
	}
}

func FuzzNoBodyMakesTheServiceFail(f *testing.F) {
	kernel := newFakeKernel()
	handler := api.New(api.Config{Kernel: kernel, Auth: testKeys()})
	run := "/v1/runs/" + kernel.addRun("a")
	targets := []struct{ method, path string }{
		{"POST", "/v1/runs"}, {"PATCH", run}, {"POST", run + "/calls"}, {"POST", run + "/batches"},
		{"POST", run + "/calls/" + newID("call_") + "/cancel"},
	}
	for _, bad := range notStrictJSON() {
		f.Add(bad.body)
	}
	f.Add(`{"limits": {"cpus": 1e308, "pids": 1e2}, "labels": {"a": "b"}}`)
	f.Add(`{"toolName": "refuse", "arguments": {"a": [1, 2.50, 1e5]}, "idempotencyKey": "k"}`)
	f.Add(`{"calls": [{"toolName": "refuse"}, {"toolName": 1}]}`)
	f.Add(`{"expiresAt": "2030-13-01T00:00:00Z", "permissions": {"tools": {"allow": []}}}`)
	f.Add(`{"reason": "user", "graceMs": 1e1}`)
	f.Fuzz(func(t *testing.T, body string) {
		for _, name := range []string{"hang", "panic"} {
			if strings.Contains(body, name) || strings.Contains(body, `\u`) {
				return // the fake kernel would do as told
			}
		}
		for _, to := range targets {
			req := httptest.NewRequest(to.method, to.path, strings.NewReader(body))
			req.Header.Set("Authorization", "Bearer "+aliceKey)
			req.Host = "localhost"
			rec := httptest.NewRecorder()
			handler.ServeHTTP(rec, req)
			if rec.Code >= http.StatusInternalServerError {
				t.Fatalf("%s %s answers %d: %s", to.method, to.path, rec.Code, rec.Body)
			}
		}
	})
}
