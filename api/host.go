package api

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/runtime"
)

// hostGuard keeps web pages from reaching a service on somebody's own machine.
// A page whose name was made to resolve to 127.0.0.1 (DNS rebinding) sends its
// own name as Host; a page that posts across sites sends its Origin.
type hostGuard struct {
	any   bool     // listens beyond loopback, and no list was given
	names []string // lower case, without port
}

func newHostGuard(address string, allowed []string) hostGuard {
	host, _, err := net.SplitHostPort(address)
	local := err != nil || isLoopback(host) // an address that nobody gave is guarded
	g := hostGuard{any: len(allowed) == 0 && !local, names: []string{strings.ToLower(host)}}
	for _, name := range allowed {
		g.names = append(g.names, strings.ToLower(name))
	}
	return g
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return isLocalName(host) || ip != nil && ip.IsLoopback()
}

func isLocalName(host string) bool {
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// check refuses a foreign Host or Origin with a problem.
func (g hostGuard) check(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !g.knows(r.Host):
			fail(w, r, runtime.Problemf(runtime.ProblemForbidden, "The Host header names a host that this service does not answer for. Use its address, or have the operator allow the name."))
		case !sameOrigin(r):
			fail(w, r, runtime.Problemf(runtime.ProblemForbidden, "The request comes from a page of another origin."))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// knows takes addresses, names of this machine, and those allowed. An address
// is safe: whoever sends it as Host was not led here by a name.
func (g hostGuard) knows(hostport string) bool {
	host := strings.ToLower(hostport)
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return g.any || isLocalName(host) || net.ParseIP(host) != nil || slices.Contains(g.names, host)
}

// sameOrigin tells whether a request that names its origin comes from here.
// Programs send none.
func sameOrigin(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return true
	}
	u, err := url.Parse(origins[0])
	return len(origins) == 1 && err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}
