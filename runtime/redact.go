package runtime

import (
	"encoding/json"

	"github.com/sandboxd/sandboxd/runtime/redact"
)

// redactText takes the run's secrets and known secret formats out of a text.
func (r *liveRun) redactText(text string) string {
	clean, _ := r.redactor.String(text)
	return clean
}

// redactJSON does the same to every string of a JSON document; what is not
// JSON is redacted as text and kept as one string.
func (r *liveRun) redactJSON(raw json.RawMessage) json.RawMessage {
	clean, _, err := r.redactor.JSON(raw)
	if err != nil {
		text, err := json.Marshal(r.redactText(string(raw)))
		if err != nil {
			return json.RawMessage(`null`) // a string always encodes
		}
		return text
	}
	return clean
}

// redactResult cleans all that a result says, notes what was taken out and
// where, and caps the message.
func (r *liveRun) redactResult(res *Result) {
	message, found := r.redactor.String(res.SafeMessage)
	res.SafeMessage = clip(message, maxSafeMessage)
	res.Redactions = append(res.Redactions, noted(found, "/safeMessage")...)
	if res.StructuredOutput == nil {
		return
	}
	clean, places, err := r.redactor.JSON(res.StructuredOutput)
	if err != nil {
		// Our own encoder made this document; one that cannot be read again is
		// withheld rather than shown unredacted.
		res.fail(AsFault(err))
		res.StructuredOutput = nil
		return
	}
	res.StructuredOutput = clean
	for _, p := range places {
		res.Redactions = append(res.Redactions, Redaction{Kind: p.Kind, Field: "/structuredOutput" + p.Field, Count: p.Count})
	}
}

func noted(found []redact.Found, field string) []Redaction {
	var out []Redaction
	for _, f := range found {
		out = append(out, Redaction{Kind: f.Kind, Field: field, Count: f.Count})
	}
	return out
}
