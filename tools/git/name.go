package git

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// A Name is a path for JSON: valid UTF-8, and the exact bytes beside it where
// they are not.
type Name struct {
	Path       string `json:"path"`
	PathBase64 string `json:"pathBase64,omitempty"`
}

func nameOf(path string) Name {
	if utf8.ValidString(path) {
		return Name{Path: path}
	}
	return Name{strings.ToValidUTF8(path, "\uFFFD"), base64.StdEncoding.EncodeToString([]byte(path))}
}
