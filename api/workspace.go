package api

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"time"

	"github.com/sandboxd/sandboxd/runtime"
)

// upload unpacks a tar into the workspace. It is read as it comes, never held.
func (s *service) upload(w http.ResponseWriter, r *http.Request) error {
	if _, err := query(r); err != nil {
		return err
	}
	if err := tarType(r.Header); err != nil {
		return err
	}
	if r.ContentLength > s.limits.UploadBytes {
		return tooLarge(s.limits.UploadBytes)
	}
	body := &pacedBody{
		body: http.MaxBytesReader(w, r.Body, s.limits.UploadBytes),
		rc:   http.NewResponseController(w), idle: s.limits.IdleRead,
	}
	stats, err := s.kernel.Upload(r.Context(), exchangeOf(r).run.RunID, body)
	body.release()
	if body.err != nil { // whatever the kernel made of it
		return bodyProblem(body.err)
	}
	if err != nil {
		return err
	}
	return s.writeJSON(w, http.StatusOK, stats)
}

// tarType takes the names that a tar goes by; what it is, its first bytes say.
func tarType(h http.Header) error {
	if err := plainEncoding(h); err != nil {
		return err
	}
	given := h.Get("Content-Type")
	if given == "" {
		return nil
	}
	media, _, err := mime.ParseMediaType(given)
	if err != nil || !slices.Contains([]string{
		"application/x-tar", "application/tar", "application/x-gtar", "application/tar+gzip", "application/x-compressed-tar",
		"application/gzip", "application/x-gzip", "application/zstd", "application/x-zstd", "application/octet-stream",
	}, media) {
		return runtime.Problemf(runtime.ProblemMediaType, "The body must be a tar, plain or compressed by gzip or zstd, with Content-Type: application/x-tar, application/gzip or application/zstd.")
	}
	return nil
}

// download sends the workspace as a tar.
func (s *service) download(w http.ResponseWriter, r *http.Request) error {
	runID := exchangeOf(r).run.RunID
	return s.stream(w, r, streamed{
		types: []string{"application/x-tar"}, name: runID + ".tar",
		write: func(out io.Writer) error { return s.kernel.Download(r.Context(), runID, out) },
	})
}

// diff sends the workspace's unified diff against its base.
func (s *service) diff(w http.ResponseWriter, r *http.Request) error {
	runID := exchangeOf(r).run.RunID
	return s.stream(w, r, streamed{
		types: []string{"text/x-diff", "text/plain", "text/x-patch"}, name: runID + ".diff",
		write: func(out io.Writer) error { return s.kernel.Diff(r.Context(), runID, out) },
	})
}

// streamed is an answer that is written as it is made.
type streamed struct {
	types []string
	name  string
	write func(out io.Writer) error
}

// stream sends an answer of unknown length. What fails before the first byte
// is a problem; later, the connection is cut.
func (s *service) stream(w http.ResponseWriter, r *http.Request, a streamed) error {
	if _, err := query(r); err != nil {
		return err
	}
	media, err := negotiate(r, a.types...)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", media)
	w.Header().Set("Content-Disposition", attachment(a.name, "download"))
	if r.Method == http.MethodHead {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	if err := a.write(&paced{ResponseWriter: w, idle: s.limits.IdleWrite}); err != nil {
		return err
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.limits.IdleWrite)) // for the end
	if exchangeOf(r).out.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	return nil
}

// paced gives a reader idle time to take each piece; one that takes none ends
// the answer and nothing else.
type paced struct {
	http.ResponseWriter
	idle time.Duration
}

func (p *paced) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func (p *paced) Write(b []byte) (int, error) {
	_ = http.NewResponseController(p.ResponseWriter).SetWriteDeadline(time.Now().Add(p.idle))
	return p.ResponseWriter.Write(b)
}

// pacedBody gives a sender idle time for each piece of its body, and keeps the
// error of the body itself.
type pacedBody struct {
	body io.Reader
	rc   *http.ResponseController
	idle time.Duration
	err  error
}

func (p *pacedBody) Read(b []byte) (int, error) {
	_ = p.rc.SetReadDeadline(time.Now().Add(p.idle))
	n, err := p.body.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		p.err = err
	}
	return n, err
}

// release takes the deadline away, so that it does not end what comes next.
func (p *pacedBody) release() { _ = p.rc.SetReadDeadline(time.Time{}) }
