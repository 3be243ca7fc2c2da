package api_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/api"
)

func FuzzNoPathOrHeaderMakesTheServiceFail(f *testing.F) {
	kernel := newFakeKernel()
	kernel.diff = func(w io.Writer) error { _, err := io.WriteString(w, "--- a\n"); return err }
	handler := api.New(api.Config{Kernel: kernel, Auth: testKeys()})
	run := kernel.addRun("a")
	if err := kernel.EndRun(f.Context(), run, ""); err != nil { // so that streams end
		f.Fatal(err)
	}
	ref := kernel.addArtifact(run, "stdout", "text/plain", map[string]string{"redacted": "0123456789", "raw": "0123456789"})
	for _, path := range []string{
		"/v1/runs?limit=5&label=a:b", "/v1/runs/RUN", "/v1/runs/RUN/events?after=1&follow=true", "/v1/runs/RUN/events?after=9223372036854775807",
		"/v1/artifacts/ART?view=raw", "/v1/runs/RUN/calls/x", "/v1/runs/RUN/diff", "/v1/tools?format=native", "//", "/%2e%2e/%00",
	} {
		f.Add(path, "Accept", "text/event-stream;q=0.5, */*")
		f.Add(path, "Range", "bytes=0-1,5-")
		f.Add(path, "Last-Event-ID", "7")
		f.Add(path, "If-None-Match", `W/"a", *`)
	}
	f.Add("/v1/runs/RUN", "Origin", "http://[::1")
	f.Add("/v1/runs/RUN", "Authorization", "bearer  x")
	f.Fuzz(func(t *testing.T, path, name, value string) {
		path = strings.NewReplacer("RUN", run, "ART", ref.ID).Replace(path)
		target, err := url.ParseRequestURI(path)
		if err != nil || !strings.HasPrefix(path, "/") {
			return // a server would not let it in
		}
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		req.URL, req.RequestURI, req.Host = target, path, "localhost"
		req.Header.Set("Authorization", "Bearer "+aliceKey)
		req.Header.Set(name, value)
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, req)
		if rec.Code >= http.StatusInternalServerError {
			t.Fatalf("%s answers %d: %s", path, rec.Code, rec.Body)
		}
		if rec.Code >= http.StatusBadRequest && rec.Header().Get("Content-Type") != "application/problem+json" {
			t.Fatalf("%s answers %d without a problem: %s", path, rec.Code, rec.Body)
		}
	})
}
