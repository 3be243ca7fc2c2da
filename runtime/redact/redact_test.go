package redact_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/runtime/redact"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// stitch joins the halves of a made-up secret, so that no scanner takes this
// file for a leak.
func stitch(parts ...string) string { return strings.Join(parts, "") }

const (
	alnum36 = "aB3dE6gH9jK2mN5pQ8rS1tU4vW7xY0zA3bC6"
	alnum64 = alnum36 + "dE9fG2hJ5kL8mN1pQ4rS7tU0vW3x"
)

func TestKnownFormatsAreTakenOut(t *testing.T) {
	r := redact.New(redact.Config{KnownFormats: true})
	pem := "-----BEGIN RSA " + "PRIVATE KEY-----"
	cases := []struct{ kind, text, want string }{
		{"github-token", "x=" + stitch("ghp", "_", alnum36) + "!", "x=[REDACTED:github-token]!"},
		{"github-token", stitch("github", "_pat_", alnum64), "[REDACTED:github-token]"},
		{"github-token", `{"a":"b\n` + stitch("ghp", "_", alnum36) + `"}`, `{"a":"b\n[REDACTED:github-token]"}`},
		{"github-token", "\x1b[1;32m" + stitch("ghp", "_", alnum36) + "\x1b[0m", "\x1b[1;32m[REDACTED:github-token]\x1b[0m"},
		{"github-token", "a%3D" + stitch("ghp", "_", alnum36), "a%3D[REDACTED:github-token]"},
		{"gitlab-token", stitch("glpat", "-", alnum36[:20]), "[REDACTED:gitlab-token]"},
		{"aws-access-key", "key " + stitch("AKIA", "IOSFODNN7EXAMPL2") + " end", "key [REDACTED:aws-access-key] end"},
		{"aws-secret-key", `aws_secret_access_key = "` + alnum64[:40] + `"`, `aws_secret_access_key = "[REDACTED:aws-secret-key]"`},
		{"gcp-api-key", stitch("AIza", alnum36[:35]), "[REDACTED:gcp-api-key]"},
		{"slack-token", stitch("xoxb", "-123456789012-abcdefABCDEF"), "[REDACTED:slack-token]"},
		{"slack-webhook", "https://" + stitch("hooks.slack.com", "/services/T00000000/B00000000/abcdefghijkl"), "https://[REDACTED:slack-webhook]"},
		{"stripe-key", stitch("sk", "_live_", alnum36), "[REDACTED:stripe-key]"},
		{"anthropic-key", stitch("sk", "-ant-api03-", alnum64), "[REDACTED:anthropic-key]"},
		{"openai-key", stitch("sk", "-proj-", alnum64), "[REDACTED:openai-key]"},
		{"openai-key", stitch("sk", "-", alnum64[:48]), "[REDACTED:openai-key]"},
		{"npm-token", stitch("npm", "_", alnum36), "[REDACTED:npm-token]"},
		{"npm-token", "//registry/:_authToken=" + alnum36, "//registry/:_authToken=[REDACTED:npm-token]"},
		{"jwt", stitch("eyJ", "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl") + " .", "[REDACTED:jwt] ."},
		{"bearer-token", "Authorization: Bearer " + alnum36, "Authorization: Bearer [REDACTED:bearer-token]"},
		{"basic-credentials", "authorization: Basic dXNlcjpwYXNz\r\n", "authorization: Basic [REDACTED:basic-credentials]\r\n"},
		{"url-password", "git clone https://bob:hunter2@example.org/x", "git clone https://bob:[REDACTED:url-password]@example.org/x"},
		{"private-key", pem + "\n" + alnum64 + "\n" + alnum64 + "==\n-----END RSA PRIVATE KEY-----\nafter", pem + "[REDACTED:private-key]-----END RSA PRIVATE KEY-----\nafter"},
		{"private-key", `"` + pem + `\n` + alnum64 + `\n-----END"`, `"` + pem + `[REDACTED:private-key]-----END"`},
		{"private-key", pem + "\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00AA\n\n" + alnum64 + "\n-----END", pem + "[REDACTED:private-key]-----END"},
		{"sandboxd-key", stitch("sbx", "_0190_", alnum64[:43]), "[REDACTED:sandboxd-key]"},
	}
	for _, c := range cases {
		t.Run(c.kind, func(t *testing.T) {
			got, found := r.String(c.text)
			require.Equal(t, c.want, got)
			require.Equal(t, []redact.Found{{Kind: c.kind, Count: 1}}, found)
			require.Equal(t, c.want, byteByByte(t, r, c.text))
		})
	}
}

func TestTextThatOnlyLooksLikeASecretIsLeftAlone(t *testing.T) {
	r := redact.New(redact.Config{KnownFormats: true, HostPaths: []string{"/var/lib/engine"}})
	for _, text := range []string{
		"", "ghp_short", "a_ghp_" + alnum36, "AKIA is a prefix", "AKIAABCDEFGHIJKLMNOPQRS",
		"task-" + strings.Repeat("a", 60), "https://example.org:8080/a@b", "http://bob@host/x",
		"https://bob:$PASSWORD@host", "https://u:${PW}@host", "Bearer authentication is required here",
		"-----BEGIN CERTIFICATE-----\n" + alnum64 + "\n-----END CERTIFICATE-----",
		"grep -----BEGIN RSA " + "PRIVATE KEY----- is a header, and that is all",
		"eyJust text. And more.", "/var/lib/engines", "/var/lib/engine-x", "sk-loading-spinner-animation",
		"hf_hidden_field_of_a_long_form_name_here_abc",
	} {
		got, found := r.String(text)
		require.Equal(t, text, got)
		require.Empty(t, found)
		require.Equal(t, text, byteByByte(t, r, text))
	}
}

func byteByByte(t *testing.T, r *redact.Redactor, text string) string {
	t.Helper()
	var out bytes.Buffer
	w := r.Writer(&out)
	for i := range len(text) {
		_, err := w.Write([]byte(text[i : i+1]))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.String()
}

func TestHostPathsAreTakenOutUpToTheirEnd(t *testing.T) {
	r := redact.New(redact.Config{HostPaths: []string{"/var/lib/engine/", "/"}})
	got, found := r.String("cwd=/var/lib/engine/overlay2/x and /var/lib/engine")
	require.Equal(t, "cwd=[REDACTED:host-path]/overlay2/x and [REDACTED:host-path]", got)
	require.Equal(t, []redact.Found{{Kind: "host-path", Count: 2}}, found)
}

func TestValuesThatOverlapAreTakenOutWhole(t *testing.T) {
	r := redact.New(redact.Config{Values: map[string]string{"A": "abcdef", "B": "abcdefghi", "C": "ghijkl"}})
	for text, want := range map[string]string{
		"-abcdefghi-":    "-[REDACTED:secret:A]-",
		"-abcdefghijkl-": "-[REDACTED:secret:A]-",
		"-abcdefgh-":     "-[REDACTED:secret:A]gh-",
		"-ghijklabcdef-": "-[REDACTED:secret:C]-",
		"abcdef abcdef":  "[REDACTED:secret:A] [REDACTED:secret:A]",
	} {
		got, _ := r.String(text)
		require.Equal(t, want, got, text)
	}
}

func TestShortValuesAreNamedInsteadOfRedacted(t *testing.T) {
	r := redact.New(redact.Config{Values: map[string]string{"PIN": "123", "BLANK": " \n", "OK": "1234"}})
	require.Equal(t, []string{"BLANK", "PIN"}, r.TooShort())
	got, _ := r.String("123 and 1234")
	require.Equal(t, "123 and [REDACTED:secret:OK]", got)
}

func TestNamesInMarksArePlain(t *testing.T) {
	r := redact.New(redact.Config{Values: map[string]string{"A B]\n\x1b": "secretvalue"}})
	got, _ := r.String("secretvalue")
	require.Equal(t, "[REDACTED:secret:A_B___]", got)
}

func TestInteractiveOutputIsNotHeldBack(t *testing.T) {
	r := redact.New(redact.Config{KnownFormats: true, Values: map[string]string{"A": "secretvalue"}})
	var out bytes.Buffer
	w := r.Writer(&out)
	_, err := w.Write([]byte("Password? "))
	require.NoError(t, err)
	require.Equal(t, "Password? ", out.String(), "a prompt must be seen before anything follows it")
	_, err = w.Write([]byte("secretva"))
	require.NoError(t, err)
	require.Equal(t, "Password? ", out.String(), "a secret's beginning must not be seen")
	require.NoError(t, w.Close())
	require.NoError(t, w.Close())
	require.Equal(t, "Password? secretva", out.String())
	_, err = w.Write([]byte("x"))
	require.Error(t, err)
}

func TestAFailedWriterBehindEndsTheStream(t *testing.T) {
	w := redact.New(redact.Config{}).Writer(failing{})
	_, err := w.Write([]byte("x"))
	require.ErrorIs(t, err, errFull)
	_, err = w.Write([]byte("x"))
	require.ErrorIs(t, err, errFull)
	require.ErrorIs(t, w.Close(), errFull)
}

var errFull = fmt.Errorf("full")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errFull }

func TestJSONStaysJSONAndPlacesAreNamed(t *testing.T) {
	r := redact.New(redact.Config{Values: map[string]string{"A": `se"cret`, "N": "12345678"}})
	doc := `{"out":["ok","x se\"cret se\u0022cret"],"n":12345678,"k se\"cret":{"deep":"se\"cret"},"big":123456780000000000000000000000.50}`
	got, places, err := r.JSON([]byte(doc))
	require.NoError(t, err)
	require.True(t, json.Valid(got), string(got))
	require.JSONEq(t, `{"out":["ok","x [REDACTED:secret:A] [REDACTED:secret:A]"],"n":"[REDACTED:secret:N]","k [REDACTED:secret:A]":{"deep":"[REDACTED:secret:A]"},"big":"[REDACTED:secret:N]0000000000000000000000.50"}`, string(got))
	require.Equal(t, redact.Place{Kind: "secret:A", Field: "/out/1", Count: 2}, places[0])
	require.Contains(t, places, redact.Place{Kind: "secret:A", Field: "/k [REDACTED:secret:A]/deep", Count: 1})

	clean := []byte(" {\"a\" : 1.50, \"b\":\"\\u00e4\"}\n")
	got, places, err = r.JSON(clean)
	require.NoError(t, err)
	require.Empty(t, places)
	require.Equal(t, clean, got)

	_, _, err = r.JSON([]byte(`{"a":`))
	require.Error(t, err)
}

// encodings are written without the package's own code.
func encodings(secret string) map[string]string {
	js, _ := json.Marshal(secret)
	std, uri := base64.StdEncoding, base64.URLEncoding
	wrapped := func(s string) string {
		var b strings.Builder
		for i := 0; i < len(s); i += 19 {
			b.WriteString(s[i:min(i+19, len(s))] + "\r\n")
		}
		return b.String()
	}
	return map[string]string{
		"plain": secret, "json": string(js), "query": url.QueryEscape(secret), "path": url.PathEscape(secret),
		"hex": hex.EncodeToString([]byte(secret)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(secret))),
		"base64": std.EncodeToString([]byte(secret)), "base64+1": std.EncodeToString([]byte("u" + secret + "tail")),
		"base64+2": std.EncodeToString([]byte("us" + secret)), "base64url": uri.EncodeToString([]byte("user:" + secret)),
		"wrapped base64": wrapped(std.EncodeToString([]byte("some text " + secret + " more"))),
		"wrapped hex":    wrapped(hex.EncodeToString([]byte(secret))),
		"doubled json":   fmt.Sprintf("%q", string(js)),
	}
}

// leaks tells whether a form of the secret can still be read out of text.
func leaks(text, secret string) string {
	flat := strings.NewReplacer("\r", "", "\n", "").Replace(text)
	if strings.Contains(text, secret) {
		return "plain"
	}
	if strings.Contains(strings.ToLower(flat), hex.EncodeToString([]byte(secret))) {
		return "hex"
	}
	if s, err := url.QueryUnescape(text); err == nil && strings.Contains(s, secret) {
		return "url"
	}
	for _, field := range strings.FieldsFunc(flat, func(r rune) bool { return r == ' ' || r == '[' || r == ']' || r == ':' }) {
		for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			if b, err := enc.DecodeString(strings.TrimRight(field, "=")); err == nil && bytes.Contains(b, []byte(secret)) {
				return "base64"
			}
		}
	}
	return ""
}

// decodable are the forms that leaks can read whatever the secret is.
var decodable = []string{"plain", "hex", "HEX", "base64", "base64+1", "base64+2", "base64url", "query"}

func secretGen() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringMatching(`[A-Za-z0-9+/_\-]{8,40}`),
		rapid.StringMatching(`[ -~]{6,30}[A-Za-z0-9]{4}`),
		rapid.StringMatching(`[äöüßé漢字€a-z"\\/<&]{6,20}`),
	)
}

func TestNoFormOfASecretSurvivesAnyChunking(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := strings.TrimSpace(secretGen().Draw(t, "secret"))
		if len(secret) < 6 {
			t.Skip()
		}
		r := redact.New(redact.Config{Values: map[string]string{"S": secret}, KnownFormats: true})
		for name, form := range encodings(secret) {
			text := rapid.StringMatching(`[a-z .]{0,20}`).Draw(t, "before") + " " + form + " end"
			if slices.Contains(decodable, name) {
				require.NotEmpty(t, leaks(text, secret), "control: %s of %q can be read", name, secret)
			}
			out := chunked(t, r, []byte(text))
			whole, _ := r.String(text)
			require.Equal(t, whole, out, "cutting the stream must change nothing")
			require.Empty(t, leaks(out, secret), "%s of %q in %q", name, secret, out)
			require.Contains(t, out, "[REDACTED:secret:S]", name)
		}
	})
}

func chunked(t *rapid.T, r *redact.Redactor, text []byte) string {
	var out bytes.Buffer
	w := r.Writer(&out)
	for len(text) > 0 {
		n := rapid.IntRange(1, min(len(text), 12)).Draw(t, "chunk")
		_, err := w.Write(text[:n])
		require.NoError(t, err)
		text = text[n:]
	}
	require.NoError(t, w.Close())
	return out.String()
}

func TestTextWithoutSecretsIsUnchanged(t *testing.T) {
	r := redact.New(redact.Config{Values: map[string]string{"S": "correct horse battery"}, KnownFormats: true})
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "text")
		require.Equal(t, string(text), chunked(t, r, text))
	})
}

// FuzzChunking checks that cuts change nothing, on texts full of keywords.
func FuzzChunking(f *testing.F) {
	f.Add([]byte("https://bob:hunter2@x ghp_"+alnum36+" Bearer "+alnum36), uint64(1))
	f.Add([]byte("-----BEGIN EC PRIVATE KEY-----\n"+alnum64+"\n-----END eyJhbGciOi.eyJzdWIiOiIx.aaaa"), uint64(2))
	f.Add([]byte("c2VjcmV0dmFs\ndWU= 7365637265747\n6616c7565 secretvaluesecretvalue /host/pathx /host/path"), uint64(3))
	r := redact.New(redact.Config{
		Values: map[string]string{"A": "secretvalue", "B": "valuesecret", "C": "aluese"}, KnownFormats: true, HostPaths: []string{"/host/path"},
	})
	f.Fuzz(func(t *testing.T, text []byte, seed uint64) {
		whole, found := r.Bytes(text)
		var out bytes.Buffer
		w := r.Writer(&out)
		rnd := rand.New(rand.NewPCG(seed, 1))
		for rest := text; len(rest) > 0; {
			n := 1 + rnd.IntN(min(len(rest), 40))
			if _, err := w.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		require.Equal(t, string(whole), out.String())
		require.Equal(t, found, w.Found())
		require.NotContains(t, out.String(), "secretvalue")
	})
}
