package api

import (
	"context"
	"net"
	"net/http"
	"time"
)

// The values of a server that is open to slow and greedy clients.
const (
	readHeaderTimeout = 5 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 32 << 10
)

type stoppingKey struct{}

// Server returns a server for the API's handler. Bodies and answers have
// deadlines of their own, set by the handlers: a call may take an hour, a
// stream a day. Shutdown ends event streams and waits for the rest.
func Server(h http.Handler) *http.Server {
	stopping, stop := context.WithCancel(context.Background())
	srv := &http.Server{
		Handler: h, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		BaseContext: func(net.Listener) context.Context {
			return context.WithValue(context.Background(), stoppingKey{}, stopping.Done())
		},
	}
	srv.RegisterOnShutdown(stop)
	return srv
}

// stopping is closed when the server that serves ctx shuts down; nil, which
// never is, outside of one.
func stopping(ctx context.Context) <-chan struct{} {
	done, _ := ctx.Value(stoppingKey{}).(<-chan struct{})
	return done
}
