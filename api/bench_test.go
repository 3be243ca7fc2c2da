package api_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/api"
)

// BenchmarkACallThroughTheAPI is what REST adds to a call: over loopback, with
// a kernel that answers at once, beside a handler that does nothing but read
// and write as much.
func BenchmarkACallThroughTheAPI(b *testing.B) {
	kernel := newFakeKernel()
	run := kernel.addRun("a")
	handler := api.New(api.Config{Kernel: kernel, Auth: testKeys(), Logger: slog.New(slog.NewJSONHandler(io.Discard, nil))})
	nothing := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err == nil {
			_, err = w.Write(raw)
		}
		if err != nil {
			b.Error(err)
		}
	})
	small := `{"toolName":"refuse","arguments":{"argv":["true"],"timeoutMs":60000}}`
	large := `{"toolName":"refuse","arguments":{"path":"a.txt","patch":"` + strings.Repeat(`+ a line of a patch\n`, 50_000) + `"}}`
	for _, c := range []struct {
		name, body string
		handler    http.Handler
	}{{"small/nothing", small, nothing}, {"small/api", small, handler}, {"1MB/nothing", large, nothing}, {"1MB/api", large, handler}} {
		b.Run(c.name, func(b *testing.B) {
			srv := httptest.NewServer(c.handler)
			defer srv.Close()
			for b.Loop() {
				req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, srv.URL+"/v1/runs/"+run+"/calls", strings.NewReader(c.body))
				if err != nil {
					b.Fatal(err)
				}
				req.Header.Set("Authorization", "Bearer "+aliceKey)
				req.Header.Set("Content-Type", "application/json")
				resp, err := srv.Client().Do(req)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
					b.Fatal(resp.StatusCode, err)
				}
				if err := resp.Body.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
