package schema

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// Canonical returns the canonical JSON (RFC 8785) of a value that Decode gave,
// or of any other that encodes to JSON.
func Canonical(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("canonical form: %w", err)
	}
	return canonicalize(b.Bytes())
}

func canonicalize(raw []byte) ([]byte, error) {
	value := jsontext.Value(bytes.TrimSpace(raw))
	if err := value.Canonicalize(); err != nil {
		return nil, fmt.Errorf("canonical form: %w", err)
	}
	return value, nil
}

// Hash is HashBytes of the canonical form.
func Hash(v any) (string, error) {
	b, err := Canonical(v)
	if err != nil {
		return "", err
	}
	return HashBytes(b), nil
}

// HashJSON is the hash of a document's canonical form: the same for every
// order of members and every way of writing a number. It refuses what Decode
// refuses under DefaultLimits.
func HashJSON(raw []byte) (string, error) {
	if _, err := DecodeJSON(raw); err != nil {
		return "", err
	}
	b, err := canonicalize(bytes.Clone(raw))
	if err != nil {
		return "", err
	}
	return HashBytes(b), nil
}

// HashBytes is "sha256:" and the digest in lower-case hex.
func HashBytes(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}
