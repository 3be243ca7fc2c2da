package api

import (
	"net/http"
	"strings"

	"github.com/sandboxd/sandboxd/runtime"
)

// ownRun finds the run that the path names, if it is one of the caller's
// tenant.
func (s *service) ownRun(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := pathID(r, "run")
		if err == nil {
			exchangeOf(r).run, err = s.findRun(r, id)
		}
		if err != nil {
			fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// findRun returns a run of the caller's tenant; all others are unknown.
func (s *service) findRun(r *http.Request, id string) (runtime.Run, error) {
	run, err := s.kernel.Run(r.Context(), id)
	if err == nil && run.Tenant != exchangeOf(r).who.Tenant {
		err = unknownID("run")
	}
	return run, hideMissing(err, "run")
}

// createRun makes a run. With ?wait=ready, the default, the answer comes when
// its box takes calls.
func (s *service) createRun(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, "wait")
	if err != nil {
		return err
	}
	wait, err := choice(q, "wait", "ready", "none")
	if err != nil {
		return err
	}
	var spec runtime.RunSpec
	if err := s.readJSON(w, r, s.limits.JSONBytes, s.bodies.run, &spec); err != nil {
		return err
	}
	who := exchangeOf(r).who
	run, err := s.kernel.CreateRun(r.Context(), spec, runtime.CreateOptions{Tenant: who.Tenant, By: who.KeyID, Wait: wait == "ready"})
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/runs/"+run.RunID)
	return s.writeJSON(w, http.StatusCreated, viewRun(run))
}

// listRuns lists the tenant's runs, newest first.
func (s *service) listRuns(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, "label", "state", "status", "limit", "cursor")
	if err != nil {
		return err
	}
	p, err := page(q)
	if err != nil {
		return err
	}
	filter := runtime.RunFilter{Tenant: exchangeOf(r).who.Tenant, Labels: map[string]string{}}
	state, err := choice(q, "state", "", string(runtime.Planning), string(runtime.Editing), string(runtime.Verifying), string(runtime.Review), string(runtime.Finished))
	if err != nil {
		return err
	}
	status, err := choice(q, "status", "", string(runtime.RunCreating), string(runtime.RunReady), string(runtime.RunIdle), string(runtime.RunStopped), string(runtime.RunEnded), string(runtime.RunFailed))
	if err != nil {
		return err
	}
	filter.State, filter.Status = runtime.RunState(state), runtime.RunStatus(status)
	for _, label := range q["label"] {
		key, value, ok := strings.Cut(label, ":")
		if old, twice := filter.Labels[key]; !ok || key == "" || twice && old != value {
			return badRequest("label must be KEY:VALUE, each key once.")
		}
		filter.Labels[key] = value
	}
	runs, next, err := s.kernel.Runs(r.Context(), filter, p)
	if err != nil {
		return err
	}
	views := make([]runView, 0, len(runs))
	for _, run := range runs {
		views = append(views, viewRun(run))
	}
	return s.writeJSON(w, http.StatusOK, list("runs", views, next))
}

func (s *service) getRun(w http.ResponseWriter, r *http.Request) error {
	if _, err := query(r); err != nil {
		return err
	}
	return s.writeJSON(w, http.StatusOK, viewRun(exchangeOf(r).run))
}

func (s *service) patchRun(w http.ResponseWriter, r *http.Request) error {
	if _, err := query(r); err != nil {
		return err
	}
	x := exchangeOf(r)
	var patch runtime.RunPatch
	if err := s.readJSON(w, r, s.limits.JSONBytes, s.bodies.patch, &patch); err != nil {
		return err
	}
	run, err := s.kernel.PatchRun(r.Context(), x.run.RunID, patch, x.who.KeyID)
	if err != nil {
		return err
	}
	return s.writeJSON(w, http.StatusOK, viewRun(run))
}

// endRun ends a run; a second time it changes nothing and says the same.
func (s *service) endRun(w http.ResponseWriter, r *http.Request) error {
	if _, err := query(r); err != nil {
		return err
	}
	x := exchangeOf(r)
	if err := s.kernel.EndRun(r.Context(), x.run.RunID, x.who.KeyID); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
