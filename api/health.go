package api

import (
	"net/http"

	"github.com/sandboxd/sandboxd/runtime"
)

// healthz says that the service is up; it asks nobody.
func (s *service) healthz(w http.ResponseWriter, r *http.Request) error {
	return s.writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// readyz says whether the service can take calls. Why it cannot is for the log.
func (s *service) readyz(w http.ResponseWriter, r *http.Request) error {
	if err := s.kernel.Ready(r.Context()); err != nil {
		return &runtime.Problem{Code: runtime.ProblemUnavailable, Detail: "The service does not take calls now.", RetryAfterSeconds: 1, Cause: err}
	}
	return s.writeJSON(w, http.StatusOK, map[string]string{"status": "ready"})
}

// listCodes serves the closed lists that clients build on.
func (s *service) listCodes(w http.ResponseWriter, r *http.Request) error {
	if _, err := query(r); err != nil {
		return err
	}
	return s.writeJSON(w, http.StatusOK, map[string]any{
		"codes":         runtime.Codes(),
		"problems":      problemTable(),
		"eventKinds":    runtime.EventKinds(),
		"cancelReasons": runtime.CancelReasons(),
		"projection":    runtime.ProjectionRules(),
	})
}
