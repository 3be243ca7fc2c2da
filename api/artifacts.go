package api

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/runtime"
)

func (s *service) listArtifacts(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, "limit", "cursor")
	if err != nil {
		return err
	}
	p, err := page(q)
	if err != nil {
		return err
	}
	refs, next, err := s.kernel.Artifacts(r.Context(), exchangeOf(r).run.RunID, p)
	if err != nil {
		return err
	}
	if refs == nil {
		refs = []runtime.ArtifactRef{}
	}
	return s.writeJSON(w, http.StatusOK, list("artifacts", refs, next))
}

// artifactContent serves what an artifact holds, whole or in ranges. It is
// output of untrusted programs: it goes out as a download that no browser
// opens, guesses at or runs.
func (s *service) artifactContent(w http.ResponseWriter, r *http.Request) (err error) {
	q, err := query(r, "view")
	if err != nil {
		return err
	}
	view, err := choice(q, "view", "redacted", "raw")
	if err != nil {
		return err
	}
	id, err := pathID(r, "artifact")
	if err != nil {
		return err
	}
	content, ref, err := s.kernel.OpenArtifact(r.Context(), id, view)
	if err != nil {
		return hideMissing(err, "artifact")
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	if _, err := s.findRun(r, ref.RunID); err != nil {
		return hideMissing(err, "artifact")
	}
	if view == "raw" && !exchangeOf(r).who.May(ScopeArtifactsRaw) {
		return runtime.Problemf(runtime.ProblemForbidden, "This key may not see the raw view. The redacted view is open to it.")
	}
	artifactHeaders(w.Header(), ref, view)
	out := &contentWriter{ResponseWriter: &paced{ResponseWriter: w, idle: s.limits.IdleWrite}}
	http.ServeContent(out, r, "", ref.CreatedAt, content)
	return out.refused(ref)
}

func artifactHeaders(head http.Header, ref runtime.ArtifactRef, view string) {
	media := ref.Type
	if _, _, err := mime.ParseMediaType(media); err != nil {
		media = "application/octet-stream"
	}
	tag := "sha256:" + ref.SHA256
	if view == "raw" { // another content than the digest's
		tag = "raw:" + ref.ID
	}
	head.Set("Content-Type", media)
	head.Set("ETag", `"`+tag+`"`)
	head.Set("Cache-Control", "private, no-cache")
	head.Set("Content-Disposition", attachment(ref.Name, ref.ID))
}

// attachment names a download. The name comes out of a box: only its plain
// characters are kept.
func attachment(name, id string) string {
	plain := strings.Map(func(r rune) rune {
		if r == '.' || r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '_'
	}, clip(name))
	if strings.Trim(plain, "._") == "" {
		plain = id
	}
	return `attachment; filename="` + plain + `"`
}

// contentWriter keeps http.ServeContent from answering a refusal in its own
// words, so that it can be answered as a problem.
type contentWriter struct {
	http.ResponseWriter
	status int // of the refusal
}

func (c *contentWriter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *contentWriter) WriteHeader(status int) {
	if status >= http.StatusBadRequest {
		c.status = status
		return
	}
	c.ResponseWriter.WriteHeader(status)
}

func (c *contentWriter) Write(b []byte) (int, error) {
	if c.status != 0 {
		return len(b), nil
	}
	return c.ResponseWriter.Write(b)
}

func (c *contentWriter) refused(ref runtime.ArtifactRef) error {
	switch c.status {
	case 0:
		return nil
	case http.StatusRequestedRangeNotSatisfiable:
		c.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", ref.Bytes))
		return runtime.Problemf(runtime.ProblemRange, "The artifact has %d bytes, and the range is not among them.", ref.Bytes)
	case http.StatusPreconditionFailed:
		return runtime.Problemf(runtime.ProblemPrecondition, "The artifact is not the one that the condition names.")
	default:
		return fmt.Errorf("serve content: status %d", c.status)
	}
}

// noneMatch tells whether If-None-Match names the tag (RFC 9110, 13.1.2).
func noneMatch(h http.Header, tag string) bool {
	var tags []string
	for part := range strings.SplitSeq(strings.Join(h.Values("If-None-Match"), ","), ",") {
		tags = append(tags, strings.TrimPrefix(strings.TrimSpace(part), "W/"))
	}
	return slices.Contains(tags, tag) || slices.Contains(tags, "*")
}

var _ io.Writer = (*contentWriter)(nil)
