package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/api"
)

func TestTheServerIsBoundAgainstSlowAndGreedyClients(t *testing.T) {
	srv := api.Server(http.NotFoundHandler())
	require.Equal(t, 5*time.Second, srv.ReadHeaderTimeout)
	require.Equal(t, 32<<10, srv.MaxHeaderBytes)
	require.Positive(t, srv.IdleTimeout)
	require.Zero(t, srv.WriteTimeout) // a call may take an hour: handlers set their own
}

func TestHeadersBeyondTheirLimitAreRefused(t *testing.T) {
	w := newWorld(t, api.Limits{})
	require.Equal(t, 431, w.do("GET", "/healthz", "", "X-Big: "+strings.Repeat("x", 64<<10)).status)
	require.Equal(t, 200, w.do("GET", "/healthz", "", "X-Big: "+strings.Repeat("x", 16<<10)).status)
}

func TestEveryAnswerCarriesTheHeadersThatKeepBrowsersOut(t *testing.T) {
	w := newWorld(t, api.Limits{})
	for _, path := range []string{"/healthz", "/v1/runs", "/nothing"} {
		head := w.do("GET", path, "").head
		require.Equal(t, "nosniff", head.Get("X-Content-Type-Options"))
		require.Contains(t, head.Get("Content-Security-Policy"), "default-src 'none'")
		require.Equal(t, "no-store", head.Get("Cache-Control"))
		require.Empty(t, head.Get("Access-Control-Allow-Origin"))
	}
}
