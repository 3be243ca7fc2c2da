package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/runtime"
)

// Principal is who makes a request.
type Principal struct {
	// KeyID names the key in the ledger and the log; it is no secret.
	KeyID string
	// Tenant owns the runs that this key makes, and the key sees no others.
	Tenant string
	Scopes []string
}

// The scopes. ScopeAdmin holds all the others.
const (
	ScopeAdmin        = "admin"
	ScopeArtifactsRaw = "artifacts:raw"
)

// May tells whether the principal holds a scope.
func (p Principal) May(scope string) bool {
	return slices.Contains(p.Scopes, scope) || slices.Contains(p.Scopes, ScopeAdmin)
}

// Authenticator tells who a request comes from.
type Authenticator interface {
	// Authenticate takes the key as the client sent it, "" where it sent none.
	// ok is false for a key that is not known.
	Authenticate(key string) (who Principal, ok bool)
}

// defaultTenant owns what the admin key makes.
const defaultTenant = "default"

// Auth is the authenticator of a service: its keys, hashed.
type Auth struct {
	keys []storedKey
	open bool // NoAuth
}

// storedKey is a key without the key.
type storedKey struct {
	hash [sha256.Size]byte
	who  Principal
}

// NoAuth takes every request as the admin's. Only a service that listens on a
// loopback address may use it.
func NoAuth() *Auth { return &Auth{open: true} }

// Authenticate implements Authenticator. Keys have the strength of a random
// secret, so that one SHA-256 protects them at rest; the comparison takes the
// same time for every key.
func (a *Auth) Authenticate(key string) (Principal, bool) {
	if a.open {
		return Principal{KeyID: "none", Tenant: defaultTenant, Scopes: []string{ScopeAdmin}}, true
	}
	hash := sha256.Sum256([]byte(key))
	var who Principal
	found := false
	for _, k := range a.keys {
		if subtle.ConstantTimeCompare(hash[:], k.hash[:]) == 1 {
			who, found = k.who, true
		}
	}
	return who, found && key != ""
}

// authenticate lets requests with a known key pass.
func (s *service) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, problem := bearerKey(r.Header)
		if problem != nil {
			fail(w, r, problem)
			return
		}
		who, ok := s.auth.Authenticate(key)
		switch {
		case ok:
			exchangeOf(r).who = who
			next.ServeHTTP(w, r)
		case key == "":
			fail(w, r, runtime.Problemf(runtime.ProblemUnauthorized, "The request carries no API key."))
		default:
			fail(w, r, runtime.Problemf(runtime.ProblemUnauthorized, "The API key is not one of this service's."))
		}
	})
}

// bearerKey reads the Authorization header (RFC 6750, section 2.1); the scheme's
// case does not matter.
func bearerKey(h http.Header) (string, *runtime.Problem) {
	values := h.Values("Authorization")
	if len(values) == 0 {
		return "", nil
	}
	scheme, key, _ := strings.Cut(values[0], " ")
	if key = strings.TrimSpace(key); len(values) > 1 || !strings.EqualFold(scheme, "Bearer") || key == "" {
		return "", runtime.Problemf(runtime.ProblemUnauthorized, "The Authorization header must be one Bearer key.")
	}
	return key, nil
}
