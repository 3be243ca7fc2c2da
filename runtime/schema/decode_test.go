package schema_test

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/gowebpki/jcs"
	"github.com/sandboxd/sandboxd/runtime/schema"
	"github.com/stretchr/testify/require"
)

func TestDecodeKeepsTheValueExactly(t *testing.T) {
	v, err := schema.DecodeJSON([]byte(` {"a":[1.50,-0,1e3,9007199254740992,"ü\ud83d\ude00\u0000"],"b":{"":null,"t":true}} `))
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"a": []any{json.Number("1.50"), json.Number("-0"), json.Number("1e3"), json.Number("9007199254740992"), "ü😀\x00"},
		"b": map[string]any{"": nil, "t": true},
	}, v)
	for in, want := range map[string]any{"null": nil, "true": true, `"x"`: "x", "[]": []any{}, "{}": map[string]any{}} {
		v, err := schema.DecodeJSON([]byte(in))
		require.NoError(t, err)
		require.Equal(t, want, v)
	}
}

func TestDecodeRefusesWhatIsAmbiguousOrTooMuch(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	_, err := schema.DecodeJSON([]byte(deep(64)))
	require.NoError(t, err, "control: the deepest that is allowed")
	for _, c := range []struct {
		name, in string
		code     schema.DecodeCode
	}{
		{"nothing", "", schema.CodeEmpty},
		{"white space", " \n", schema.CodeEmpty},
		{"cut off", `{"a":`, schema.CodeTruncated},
		{"cut string", `"abc`, schema.CodeTruncated},
		{"duplicate", `{"a":1,"a":2}`, schema.CodeDuplicateKey},
		{"duplicate by escape", `{"a":1,"\u0061":2}`, schema.CodeDuplicateKey},
		{"nested duplicate", `[{"x":{"a":1,"b":2,"a":1}}]`, schema.CodeDuplicateKey},
		{"second value", `{} {}`, schema.CodeTrailingData},
		{"rest", `1 x`, schema.CodeTrailingData},
		{"bracket too many", `{}}`, schema.CodeTrailingData},
		{"invalid UTF-8", "\"a\xff\"", schema.CodeInvalidUTF8},
		{"invalid UTF-8 in a name", "{\"a\xc3\":1}", schema.CodeInvalidUTF8},
		{"lone surrogate", `"\ud800"`, schema.CodeInvalidUTF8},
		{"lone low surrogate", `"\udc00x"`, schema.CodeInvalidUTF8},
		{"too deep", deep(65), schema.CodeTooDeep},
		{"far too deep", strings.Repeat(`{"a":`, 20000), schema.CodeTooDeep},
		{"integer beyond 2^53", `{"n":9007199254740993}`, schema.CodeNumberRange},
		{"negative integer beyond 2^53", `-9007199254740994`, schema.CodeNumberRange},
		{"infinite", `1e999`, schema.CodeNumberRange},
		{"endless number", "0." + strings.Repeat("1", 5000), schema.CodeNumberRange},
		{"comment", `{/*x*/}`, schema.CodeSyntax},
		{"trailing comma", `[1,]`, schema.CodeSyntax},
		{"single quotes", `{'a':1}`, schema.CodeSyntax},
		{"leading zero", `01`, schema.CodeTrailingData},
		{"plus", `+1`, schema.CodeSyntax},
		{"NaN", `NaN`, schema.CodeSyntax},
		{"control character", "\"a\nb\"", schema.CodeSyntax},
		{"byte order mark", "\ufeff{}", schema.CodeSyntax},
		{"too large", `"` + strings.Repeat("x", 8<<20) + `"`, schema.CodeTooLarge},
		{"white space without end", "{}" + strings.Repeat(" ", 8<<20), schema.CodeTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := schema.DecodeJSON([]byte(c.in))
			e, ok := errors.AsType[*schema.DecodeError](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, c.code, e.Code, err.Error())
		})
	}
}

func TestDecodeErrorsNameThePlaceAndQuoteNothing(t *testing.T) {
	_, err := schema.DecodeJSON([]byte(`{"list":[1,{"secretname":1,"secretname":"hunter2"}]}`))
	e, ok := errors.AsType[*schema.DecodeError](err)
	require.True(t, ok)
	require.Equal(t, int64(27), e.Offset)
	require.True(t, strings.HasPrefix(e.Pointer, "/list/1"), e.Pointer)
	require.NotContains(t, e.Error(), "secret")
}

func TestDecodeBoundsAreTheCallers(t *testing.T) {
	in := `{"n":12345678901234567890}`
	_, err := schema.Decode(strings.NewReader(in), schema.Limits{AnyInteger: true})
	require.NoError(t, err)
	_, err = schema.Decode(strings.NewReader(in), schema.Limits{AnyInteger: true, MaxBytes: int64(len(in))})
	require.NoError(t, err, "exactly the limit")
	_, err = schema.Decode(strings.NewReader(in), schema.Limits{AnyInteger: true, MaxBytes: int64(len(in)) - 1})
	require.Error(t, err)
	_, err = schema.Decode(strings.NewReader("[[1]]"), schema.Limits{MaxDepth: 1})
	require.Error(t, err)
	_, err = schema.Decode(iotest.ErrReader(io.ErrClosedPipe), schema.Limits{})
	require.ErrorIs(t, err, io.ErrClosedPipe, "a reader's own error stays")
	_, err = schema.Decode(iotest.OneByteReader(strings.NewReader(`{"a":[1,2,{"b":"c"}]}`)), schema.Limits{})
	require.NoError(t, err)
}

func TestCanonicalFormIsThatOfRFC8785(t *testing.T) {
	// The RFC's own example (section 3.2.2) and its sorting (section 3.2.3).
	in := `{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}`
	want := `{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`
	v, err := schema.DecodeJSON([]byte(in))
	require.NoError(t, err)
	got, err := schema.Canonical(v)
	require.NoError(t, err)
	require.Equal(t, want, string(got))

	v, err = schema.DecodeJSON([]byte(`{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}`))
	require.NoError(t, err)
	got, err = schema.Canonical(v)
	require.NoError(t, err)
	require.Equal(t, "{\"\\r\":2,\"1\":4,\"\u0080\":6,\"ö\":7,\"€\":1,\"😀\":5,\"\ufb33\":3}", string(got))

	got, err = schema.Canonical(map[string]any{"b": "<&>\u2028", "a": math.Copysign(0, -1)})
	require.NoError(t, err)
	require.Equal(t, "{\"a\":0,\"b\":\"<&>\u2028\"}", string(got))
}

// TestNumbersHaveTheFormOfECMAScript uses the RFC's appendix B.
func TestNumbersHaveTheFormOfECMAScript(t *testing.T) {
	for bits, want := range map[uint64]string{
		0x0000000000000000: "0", 0x8000000000000000: "0", 0x0000000000000001: "5e-324", 0x8000000000000001: "-5e-324",
		0x7fefffffffffffff: "1.7976931348623157e+308", 0x4340000000000000: "9007199254740992", 0xc340000000000000: "-9007199254740992",
		0x4430000000000000: "295147905179352830000", 0x44b52d02c7e14af5: "9.999999999999997e+22", 0x44b52d02c7e14af6: "1e+23",
		0x44b52d02c7e14af7: "1.0000000000000001e+23", 0x444b1ae4d6e2ef4e: "999999999999999700000", 0x444b1ae4d6e2ef4f: "999999999999999900000",
		0x444b1ae4d6e2ef50: "1e+21", 0x3eb0c6f7a0b5ed8c: "9.999999999999997e-7", 0x3eb0c6f7a0b5ed8d: "0.000001",
		0x41b3de4355555553: "333333333.3333332", 0x41b3de4355555557: "333333333.33333343", 0xbecbf647612f3696: "-0.0000033333333333333333",
	} {
		text := strconv.FormatFloat(math.Float64frombits(bits), 'e', -1, 64)
		got, err := schema.Canonical(json.Number(text))
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
}

func TestEqualDocumentsHashTheSame(t *testing.T) {
	a, err := schema.HashJSON([]byte(`{"b":1.0,"a":"x"}`))
	require.NoError(t, err)
	b, err := schema.HashJSON([]byte(" {\"a\":\"\\u0078\",\n\"b\":1}"))
	require.NoError(t, err)
	require.Equal(t, a, b)
	v, err := schema.DecodeJSON([]byte(`{"b":1,"a":"x"}`))
	require.NoError(t, err)
	c, err := schema.Hash(v)
	require.NoError(t, err)
	require.Equal(t, a, c)
	require.Regexp(t, `^sha256:[0-9a-f]{64}$`, a)
	d, err := schema.HashJSON([]byte(`{"a":"x","b":2}`))
	require.NoError(t, err)
	require.NotEqual(t, a, d)
	_, err = schema.HashJSON([]byte(`{"a":1,"a":1}`))
	require.Error(t, err)
	_, err = schema.HashJSON([]byte(`{"n":9007199254740993}`))
	require.Error(t, err, "it would hash like its neighbour")
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5e-3,"x",null,true]}`, `"\ud83d\ude00"`, `{"a":1,"a":2}`, "[[[[", `9007199254740993`, `-0`, "\"\xff\"", `1E400`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, err := schema.DecodeJSON(raw)
		if err != nil {
			_, ok := errors.AsType[*schema.DecodeError](err)
			require.True(t, ok, "%v", err)
			return
		}
		require.True(t, json.Valid(raw), "what is taken is JSON")
		canonical, err := schema.Canonical(v)
		require.NoError(t, err)
		again, err := schema.DecodeJSON(canonical)
		if err == nil { // a number written as 1e17 may become an integer that is too large
			second, err := schema.Canonical(again)
			require.NoError(t, err)
			require.Equal(t, string(canonical), string(second), "the form is a fixed point")
		}
		theirs, err := jcs.Transform(raw)
		if err == nil {
			require.Equal(t, string(theirs), string(canonical), "another library's form")
		}
		hash, err := schema.HashJSON(raw)
		require.NoError(t, err)
		require.Equal(t, schema.HashBytes(canonical), hash)
	})
}
