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
	r.NotFound(s.handle(noRoute))
	r.MethodNotAllowed(s.handle(wrongMethod))
	r.Get("/healthz", s.handle(s.healthz))
	r.Get("/readyz", s.handle(s.readyz))
	r.Route("/v1", func(r chi.Router) {
		r.Use(s.authenticate)
		r.Get("/codes", s.handle(s.listCodes))
		r.Get("/tools", s.handle(s.listTools))
		r.Get("/artifacts/{artifactId}", s.handle(s.artifactContent))
		r.Post("/runs", s.handle(s.createRun))
		r.Get("/runs", s.handle(s.listRuns))
		r.Route("/runs/{runId}", s.routeRun)
	})
	return r
}

// routeRun names what lies below a run.
func (s *service) routeRun(r chi.Router) {
	r.Use(s.ownRun)
	r.Get("/", s.handle(s.getRun))
	r.Patch("/", s.handle(s.patchRun))
	r.Delete("/", s.handle(s.endRun))
	r.Get("/tools", s.handle(s.runTools))
	r.Post("/calls", s.handle(s.makeCall))
	r.Get("/calls", s.handle(s.listCalls))
	r.Get("/calls/{callId}", s.handle(s.getCall))
	r.Post("/calls/{callId}/cancel", s.handle(s.cancelCall))
	r.Post("/batches", s.handle(s.makeBatch))
	r.Get("/events", s.handle(s.events))
	r.Get("/artifacts", s.handle(s.listArtifacts))
	r.Get("/diff", s.handle(s.diff))
	r.Put("/workspace", s.handle(s.upload))
	r.Get("/workspace", s.handle(s.download))
}

// handlerFunc answers a request or returns what is wrong with it.
type handlerFunc func(w http.ResponseWriter, r *http.Request) error

// handle makes an http handler that answers errors as problems.
func (s *service) handle(f handlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := f(w, r); err != nil {
			s.fail(w, r, err)
		}
	}
}
