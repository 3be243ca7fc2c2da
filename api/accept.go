package api

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/runtime"
)

const (
	typeJSON   = "application/json"
	typeNDJSON = "application/x-ndjson"
	typeSSE    = "text/event-stream"
)

// negotiate picks the offered type that the Accept header likes best (RFC
// 9110, section 12.5.1); among equals the first offered wins.
func negotiate(r *http.Request, offered ...string) (string, error) {
	ranges := strings.Join(r.Header.Values("Accept"), ",")
	if strings.TrimSpace(ranges) == "" {
		return offered[0], nil
	}
	best, weight := "", 0.0
	for _, offer := range offered {
		if w := acceptWeight(ranges, offer); w > weight {
			best, weight = offer, w
		}
	}
	if best == "" {
		return "", runtime.Problemf(runtime.ProblemNotAcceptable, "This path answers %s.", strings.Join(offered, ", "))
	}
	return best, nil
}

// acceptWeight is the weight of the most specific range that names the type.
func acceptWeight(ranges, offer string) float64 {
	weight, precision := 0.0, 0
	kind, _, _ := strings.Cut(offer, "/")
	for part := range strings.SplitSeq(ranges, ",") {
		media, params, err := mime.ParseMediaType(strings.TrimSpace(part))
		if err != nil {
			continue
		}
		p := map[string]int{offer: 3, kind + "/*": 2, "*/*": 1}[media]
		if p <= precision {
			continue
		}
		weight, precision = 1, p
		if q, err := strconv.ParseFloat(params["q"], 64); err == nil {
			weight = q
		}
	}
	return weight
}

// writeJSON answers with a document.
func (s *service) writeJSON(w http.ResponseWriter, status int, doc any) error {
	raw, err := encode(doc)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", typeJSON)
	w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.limits.IdleWrite + time.Duration(len(raw)>>10)*time.Millisecond))
	w.WriteHeader(status)
	_, _ = bytes.NewReader(raw).WriteTo(w) // a client that is gone needs no answer
	return nil
}

// encode renders a document with a final newline and without HTML escapes.
func encode(doc any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(doc)
	return b.Bytes(), err
}

// list is the shape of every list: its rows under their name, and the cursor
// of the next page or null.
func list(name string, rows any, next string) map[string]any {
	doc := map[string]any{name: rows, "next": nil}
	if next != "" {
		doc["next"] = next
	}
	return doc
}
