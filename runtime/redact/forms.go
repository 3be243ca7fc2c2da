package redact

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf16"
)

// MinValueBytes is the length, without white space around it, from which on a
// secret value is redacted.
const MinValueBytes = 4

// plainForms are the ways in which programs print a value on one line of text:
// as it is, with a terminal's line ends, URL-escaped and JSON-escaped. They are
// looked for exactly.
func plainForms(value string) []string {
	percent := url.QueryEscape(value)
	component := strings.ReplaceAll(percent, "+", "%20")
	forms := []string{
		value,
		strings.ReplaceAll(value, "\n", "\r\n"),
		percent, lowerEscapes(percent),
		component, lowerEscapes(component),
		url.PathEscape(value), lowerEscapes(url.PathEscape(value)),
	}
	return append(forms, jsonForms(value)...)
}

// jsonForms are a value inside a JSON string: with the least escapes, with
// those that encoders add for HTML, with the slash escaped, and in ASCII; and
// each once more inside a second JSON string.
func jsonForms(value string) []string {
	least := jsonBody(value, false)
	forms := []string{
		least,
		jsonBody(value, true),
		strings.ReplaceAll(least, "/", `\/`),
		asciiOnly(least, "%04x"),
		asciiOnly(least, "%04X"),
	}
	for _, f := range forms[:len(forms):len(forms)] {
		forms = append(forms, jsonBody(f, false))
	}
	return forms
}

func jsonBody(s string, html bool) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(html)
	// A string always encodes.
	_ = enc.Encode(s)
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(b.String(), "\n"), `"`), `"`)
}

func asciiOnly(s, format string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r < 0x80:
			b.WriteRune(r)
		case r >= 0x10000:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u`+format+`\u`+format, hi, lo)
		default:
			fmt.Fprintf(&b, `\u`+format, r)
		}
	}
	return b.String()
}

// lowerEscapes writes %2F as %2f.
func lowerEscapes(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], strings.ToLower(string(b[i+1:i+3])))
		}
	}
	return string(b)
}

// wrappedForms are the forms that tools break into lines: hex, and base64
// wherever the value lies in what was encoded.
func wrappedForms(value string) []string {
	forms := []string{hex.EncodeToString([]byte(value)), strings.ToUpper(hex.EncodeToString([]byte(value)))}
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		for before := range 3 {
			forms = append(forms, base64Core(enc, value, before))
		}
	}
	return forms
}

// base64Core returns the characters that the value alone determines when it
// follows before bytes (modulo 3) of something else. The characters on either
// side mix it with its neighbours and give away at most four bits each.
func base64Core(enc *base64.Encoding, value string, before int) string {
	const bits = 6 // of a character
	text := enc.EncodeToString(append(make([]byte, before), value...))
	first := (8*before + bits - 1) / bits
	end := 8 * (before + len(value)) / bits
	return text[first:end]
}
