package redact

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// A Place says what was taken out of a JSON document and where: Field is a
// JSON pointer (RFC 6901), itself without secrets.
type Place struct {
	Kind  string
	Field string
	Count int
}

// JSON redacts each string, number and member name of a JSON document, so that
// it stays one. Without secrets the result is doc itself. The error says that
// doc is not JSON.
func (r *Redactor) JSON(doc []byte) ([]byte, []Place, error) {
	var out bytes.Buffer
	dec := jsontext.NewDecoder(bytes.NewReader(doc), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	// Two names may become the same mark.
	enc := jsontext.NewEncoder(&out, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	var places []Place
	for {
		token, err := dec.ReadToken()
		if errors.Is(err, io.EOF) && len(places) == 0 {
			return doc, nil, nil
		}
		if errors.Is(err, io.EOF) {
			return bytes.TrimSuffix(out.Bytes(), []byte("\n")), places, nil
		}
		if err != nil {
			return nil, nil, err
		}
		clean, found := r.token(token)
		for _, f := range found {
			field, _ := r.String(string(dec.StackPointer()))
			places = append(places, Place{Kind: f.Kind, Field: field, Count: f.Count})
		}
		if err := enc.WriteToken(clean); err != nil {
			return nil, nil, err
		}
	}
}

func (r *Redactor) token(t jsontext.Token) (jsontext.Token, []Found) {
	kind := t.Kind()
	if kind != '"' && kind != '0' {
		return t, nil
	}
	clean, found := r.String(t.String())
	if len(found) == 0 {
		return t, nil
	}
	return jsontext.String(clean), found
}
