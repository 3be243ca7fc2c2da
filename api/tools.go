package api

import (
	"net/http"

	"github.com/sandboxd/sandboxd/runtime/schema"
)

// listTools shows the registry: every tool, whoever may use it.
func (s *service) listTools(w http.ResponseWriter, r *http.Request) error {
	if err := nativeFormat(r); err != nil {
		return err
	}
	tools := s.kernel.Tools()
	raw, err := encode(tools)
	if err != nil {
		return err
	}
	hash, err := schema.HashJSON(raw)
	if err != nil {
		return err
	}
	return s.writeTagged(w, r, hash, map[string]any{"tools": tools, "schemaSetHash": hash, "tokenEstimate": len(raw) / 4})
}

// runTools shows what the model of a run may see now. The ETag is the hash of
// the set, so that a client learns cheaply whether it changed.
func (s *service) runTools(w http.ResponseWriter, r *http.Request) error {
	if err := nativeFormat(r); err != nil {
		return err
	}
	tools, err := s.kernel.RunTools(r.Context(), exchangeOf(r).run.RunID)
	if err != nil {
		return err
	}
	return s.writeTagged(w, r, tools.SchemaSetHash, tools)
}

func nativeFormat(r *http.Request) error {
	q, err := query(r, "format")
	if err == nil {
		_, err = choice(q, "format", "native")
	}
	return err
}

// writeTagged answers with a document and its ETag, or with 304 where the
// client has it.
func (s *service) writeTagged(w http.ResponseWriter, r *http.Request, hash string, doc any) error {
	tag := `"` + hash + `"`
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "private, no-cache")
	if noneMatch(r.Header, tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return s.writeJSON(w, http.StatusOK, doc)
}
