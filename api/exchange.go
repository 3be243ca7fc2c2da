package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"github.com/sandboxd/sandboxd/runtime"
)

// exchange is what is known of one request and its answer. Only the goroutine
// that serves the request touches it.
type exchange struct {
	id    string
	who   Principal
	run   runtime.Run
	code  runtime.ProblemCode
	cause error // what failed, for the log alone
	gone  bool  // the client went away, or took nothing more
	out   *tracked
}

type exchangeKey struct{}

// exchangeOf returns the request's exchange, which begin has put there.
func exchangeOf(r *http.Request) *exchange {
	return r.Context().Value(exchangeKey{}).(*exchange)
}

var saneRequestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// begin gives the request its id, sets the headers that every answer has, and
// logs one line when it is over. A sane X-Request-Id of the client is kept.
func (s *service) begin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started := time.Now()
		x := &exchange{id: r.Header.Get("X-Request-Id"), out: &tracked{ResponseWriter: w}}
		if !saneRequestID.MatchString(x.id) {
			x.id = newRequestID()
		}
		head := w.Header()
		head.Set("X-Request-Id", x.id)
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
		head.Set("Cache-Control", "no-store")
		s.boundIdle(w, r)
		r = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x))
		defer func() { s.logExchange(r, x, started) }()
		next.ServeHTTP(x.out, r)
	})
}

func newRequestID() string {
	id, err := uuid.NewV7()
	if err != nil { // the system has no randomness: nothing works then
		return "unknown"
	}
	return id.String()
}

// boundIdle sets the deadlines of a connection that is used again: none for
// writing until a handler sets one, and one for a body that is being sent.
// Errors mean that the writer has no deadlines (in tests).
func (s *service) boundIdle(w http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Time{})
	if r.ContentLength != 0 {
		_ = rc.SetReadDeadline(time.Now().Add(s.limits.BodyTime))
	}
}

// logExchange writes the one line of a request. Query strings stay out of it;
// that somebody asked for our health is of no interest.
func (s *service) logExchange(r *http.Request, x *exchange, started time.Time) {
	level, status := slog.LevelInfo, x.out.status
	if x.who.KeyID == "" && status == http.StatusOK {
		level = slog.LevelDebug
	}
	if x.cause != nil && !x.gone && x.code.HTTP() >= http.StatusInternalServerError {
		level = slog.LevelError
	}
	attrs := []slog.Attr{
		slog.String("requestId", x.id), slog.String("method", r.Method), slog.String("path", r.URL.Path),
		slog.String("route", chi.RouteContext(r.Context()).RoutePattern()), slog.Int("status", status),
		slog.Int64("bytes", x.out.bytes), slog.Float64("ms", float64(time.Since(started).Microseconds())/1000),
		slog.String("remote", r.RemoteAddr), slog.String("key", x.who.KeyID),
	}
	if x.code != "" {
		attrs = append(attrs, slog.String("code", string(x.code)))
	}
	if x.gone {
		attrs = append(attrs, slog.Bool("clientGone", true))
	}
	if x.cause != nil {
		attrs = append(attrs, slog.String("err", x.cause.Error()))
	}
	s.log.LogAttrs(context.WithoutCancel(r.Context()), level, "request", attrs...)
}

// guardPanic turns a panic of a handler into a problem; the service stays up.
func (s *service) guardPanic(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(p)
			}
			s.log.Error("handler panicked", "requestId", exchangeOf(r).id, "panic", p, "stack", string(debug.Stack()))
			fail(w, r, errPanicked)
		}()
		next.ServeHTTP(w, r)
	})
}

// tracked remembers what was answered.
type tracked struct {
	http.ResponseWriter
	status int
	bytes  int64
	failed error // of a write: the client is gone or too slow
}

// Unwrap lets http.ResponseController reach the connection.
func (t *tracked) Unwrap() http.ResponseWriter { return t.ResponseWriter }

func (t *tracked) WriteHeader(status int) {
	if t.status == 0 && status >= http.StatusOK {
		t.status = status
	}
	t.ResponseWriter.WriteHeader(status)
}

func (t *tracked) Write(b []byte) (int, error) {
	if t.status == 0 {
		t.status = http.StatusOK
	}
	n, err := t.ResponseWriter.Write(b)
	t.bytes += int64(n)
	if err != nil {
		t.failed = err
	}
	return n, err
}
