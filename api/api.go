package api

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
)

// Config is what the API is built from. Kernel and Auth are required.
type Config struct {
	Kernel Kernel
	Auth   Authenticator
	Logger *slog.Logger
	// Address is where the service listens (host:port). On a loopback address
	// only names of this machine are taken as Host; see hostGuard.
	Address string
	// AllowedHosts are further names (without port) that requests may give as
	// Host. Where the service listens beyond loopback, an empty list takes any.
	AllowedHosts []string
	Limits       Limits
}

// Limits bound what a client may send and how long it may take. Zero fields
// take the defaults named.
type Limits struct {
	JSONBytes   int64         // a JSON body; 1 MiB
	CallBytes   int64         // the body of a call or batch, which may hold a patch; 8 MiB
	UploadBytes int64         // a workspace's tar as sent, before unpacking; 4 GiB
	BodyTime    time.Duration // to send a JSON body; 60 s
	IdleRead    time.Duration // longest pause within an upload; 60 s
	IdleWrite   time.Duration // longest wait for a reader to take more; 30 s
	Heartbeat   time.Duration // between signs of life of an event stream; 15 s
}

func (l Limits) withDefaults() Limits {
	for _, f := range []struct {
		value    *int64
		standard int64
	}{{&l.JSONBytes, 1 << 20}, {&l.CallBytes, 8 << 20}, {&l.UploadBytes, 4 << 30}} {
		if *f.value == 0 {
			*f.value = f.standard
		}
	}
	for _, f := range []struct {
		value    *time.Duration
		standard time.Duration
	}{
		{&l.BodyTime, time.Minute}, {&l.IdleRead, time.Minute},
		{&l.IdleWrite, 30 * time.Second}, {&l.Heartbeat, 15 * time.Second},
	} {
		if *f.value == 0 {
			*f.value = f.standard
		}
	}
	return l
}

// service holds what the handlers share.
type service struct {
	kernel Kernel
	auth   Authenticator
	log    *slog.Logger
	limits Limits
	bodies bodies
}

// New returns the API's handler. It panics where a schema of this package does
// not compile, which is a mistake in the program.
func New(cfg Config) http.Handler {
	s := &service{
		kernel: cfg.Kernel, auth: cfg.Auth, log: cfg.Logger,
		limits: cfg.Limits.withDefaults(), bodies: mustCompileBodies(),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	r := chi.NewRouter()
	r.Use(s.begin, s.guardPanic, newHostGuard(cfg.Address, cfg.AllowedHosts).check, middleware.GetHead)
	r.NotFound(handle(noRoute))
	r.MethodNotAllowed(handle(wrongMethod))
	r.Get("/healthz", handleJSON(s.healthz))
	r.Get("/readyz", handleJSON(s.readyz))
	r.Route("/v1", func(r chi.Router) {
		r.Use(s.authenticate)
		r.Get("/codes", handleJSON(s.listCodes))
		r.Get("/tools", handleJSON(s.listTools))
		r.Get("/artifacts/{artifactId}", handle(s.artifactContent))
		r.Post("/runs", handleJSON(s.createRun))
		r.Get("/runs", handleJSON(s.listRuns))
		r.Group(s.routeRun)
	})
	return r
}

// routeRun names what lies below a run.
func (s *service) routeRun(r chi.Router) {
	r.Use(s.ownRun)
	r.Get("/runs/{runId}", handleJSON(s.getRun))
	r.Patch("/runs/{runId}", handleJSON(s.patchRun))
	r.Delete("/runs/{runId}", handle(s.endRun))
	r.Get("/runs/{runId}/tools", handleJSON(s.runTools))
	r.Post("/runs/{runId}/calls", handleJSON(s.makeCall))
	r.Get("/runs/{runId}/calls", handleJSON(s.listCalls))
	r.Get("/runs/{runId}/calls/{callId}", handleJSON(s.getCall))
	r.Post("/runs/{runId}/calls/{callId}/cancel", handleJSON(s.cancelCall))
	r.Post("/runs/{runId}/batches", handleJSON(s.makeBatch))
	r.Get("/runs/{runId}/events", handle(s.events))
	r.Get("/runs/{runId}/artifacts", handleJSON(s.listArtifacts))
	r.Get("/runs/{runId}/diff", handle(s.diff))
	r.Put("/runs/{runId}/workspace", handleJSON(s.upload))
	r.Get("/runs/{runId}/workspace", handle(s.download))
}

// handlerFunc answers a request or returns what is wrong with it.
type handlerFunc func(w http.ResponseWriter, r *http.Request) error

// handle makes an http handler that answers errors as problems.
func handle(f handlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := f(w, r); err != nil {
			fail(w, r, err)
		}
	}
}

// handleJSON is handle for what answers JSON: a client that takes none is told
// so before anything is done.
func handleJSON(f handlerFunc) http.HandlerFunc {
	return handle(func(w http.ResponseWriter, r *http.Request) error {
		if _, err := negotiate(r, typeJSON); err != nil {
			return err
		}
		return f(w, r)
	})
}
