package schema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/sandboxd/sandboxd/runtime/schema"
	"github.com/stretchr/testify/require"
)

func compile(t testing.TB, raw string) *schema.Schema {
	t.Helper()
	s, err := schema.Compile([]byte(raw))
	require.NoError(t, err)
	return s
}

func validate(t testing.TB, s *schema.Schema, raw string) []schema.Violation {
	t.Helper()
	doc, err := schema.DecodeJSON([]byte(raw))
	require.NoError(t, err)
	return s.Validate(doc)
}

const tool = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object", "additionalProperties": false, "required": ["path"],
  "properties": {
    "path": {"type": "string", "minLength": 1, "maxLength": 10, "pattern": "^[a-z/]*$"},
    "startLine": {"type": "integer", "minimum": 1, "default": 1},
    "mode": {"enum": ["a", "b"], "default": "a"},
    "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "maxItems": 2, "uniqueItems": true},
    "a/b~c": {"type": "boolean"},
    "what": {"oneOf": [{"type": "string"}, {"type": "object", "required": ["x"], "properties": {"x": {"const": 1}}, "additionalProperties": false}]}
  },
  "$defs": {"tag": {"type": "string", "maxLength": 3}}
}`

func TestViolationsNameThePlaceTheRuleAndWhatIsWanted(t *testing.T) {
	s := compile(t, tool)
	require.Empty(t, validate(t, s, `{"path":"a/b","startLine":3,"mode":"b","tags":["x"],"a/b~c":true,"what":{"x":1}}`), "control")
	for _, c := range []struct {
		in   string
		want schema.Violation
	}{
		{`{}`, schema.Violation{Rule: "required", Message: `"path" is missing`}},
		{`[]`, schema.Violation{Rule: "type", Message: "must be object, not array"}},
		{`{"path":5}`, schema.Violation{Pointer: "/path", Rule: "type", Message: "must be string, not number"}},
		{`{"path":""}`, schema.Violation{Pointer: "/path", Rule: "minLength", Message: "must have at least 1 character, has 0"}},
		{`{"path":"A"}`, schema.Violation{Pointer: "/path", Rule: "pattern", Message: "must match the pattern ^[a-z/]*$"}},
		{`{"path":"a","startLine":0}`, schema.Violation{Pointer: "/startLine", Rule: "minimum", Message: "must be at least 1"}},
		{`{"path":"a","startLine":1.5}`, schema.Violation{Pointer: "/startLine", Rule: "type", Message: "must be integer, not number"}},
		{`{"path":"a","mode":"c"}`, schema.Violation{Pointer: "/mode", Rule: "enum", Message: `must be one of "a", "b"`}},
		{`{"path":"a","tags":["x","long"]}`, schema.Violation{Pointer: "/tags/1", Rule: "maxLength", Message: "must have at most 3 characters, has 4"}},
		{`{"path":"a","tags":["x","x"]}`, schema.Violation{Pointer: "/tags", Rule: "uniqueItems", Message: "items 0 and 1 are the same"}},
		{`{"path":"a","a/b~c":1}`, schema.Violation{Pointer: "/a~1b~0c", Rule: "type", Message: "must be boolean, not number"}},
		{`{"path":"a","start_line":1}`, schema.Violation{Pointer: "/start_line", Rule: "additionalProperties", Message: "is not a known property", Suggestion: "startLine"}},
		{`{"path":"a","satrtLine":1}`, schema.Violation{Pointer: "/satrtLine", Rule: "additionalProperties", Message: "is not a known property", Suggestion: "startLine"}},
		{`{"path":"a","zzz/~":1}`, schema.Violation{Pointer: "/zzz~1~0", Rule: "additionalProperties", Message: "is not a known property"}},
		{`{"path":"a","what":{"x":2}}`, schema.Violation{Pointer: "/what", Rule: "oneOf", Message: "fits none of the 2 allowed forms; for the nearest one, /what/x must be 1"}},
		{`{"path":"a","what":{"x":1,"y":1}}`, schema.Violation{Pointer: "/what", Rule: "oneOf", Message: "fits none of the 2 allowed forms; for the nearest one, /what/y is not a known property"}},
		{`{"path":"a","what":1}`, schema.Violation{Pointer: "/what", Rule: "oneOf", Message: "fits none of the 2 allowed forms"}},
	} {
		require.Equal(t, []schema.Violation{c.want}, validate(t, s, c.in), c.in)
	}
}

func TestViolationsComeInAFixedOrderAndQuoteNoValues(t *testing.T) {
	s := compile(t, tool)
	in := `{"path":"SECRETVALUE!","mode":"SECRETVALUE","startLine":-77777,"tags":["SECRETVALUE","SECRETVALUE","SECRETVALUE"],"what":"x"}`
	first := validate(t, s, in)
	require.Len(t, first, 9)
	for range 20 {
		require.Equal(t, first, validate(t, s, in))
	}
	for _, v := range first {
		require.NotContains(t, fmt.Sprint(v), "SECRETVALUE")
		require.NotContains(t, fmt.Sprint(v), "77777")
	}
}

func TestSchemasWithoutACertainMeaningAreRefused(t *testing.T) {
	compile(t, `{"type":"object","properties":{"$ref":{"type":"string"},"contentSchema":{}},"examples":[{"$ref":"http://x/"}],"const":{"$id":"x"}}`)
	compile(t, `true`)
	twice := func(n int) string {
		var b strings.Builder
		b.WriteString(`{"$ref":"#/$defs/d0","$defs":{`)
		for i := range n {
			fmt.Fprintf(&b, `"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
		}
		fmt.Fprintf(&b, `"d%d":{"type":"string"}}}`, n)
		return b.String()
	}
	compile(t, twice(8))
	for _, c := range []struct{ name, raw, pointer string }{
		{"remote reference", `{"properties":{"a":{"$ref":"https://example.org/s.json"}}}`, "/properties/a/$ref"},
		{"file reference", `{"$ref":"file:///etc/passwd"}`, "/$ref"},
		{"relative reference", `{"$ref":"other.json#/a"}`, "/$ref"},
		{"dangling reference", `{"$ref":"#/$defs/none"}`, "/$ref"},
		{"reference to itself", `{"$ref":"#"}`, ""},
		{"reference in a circle", `{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, "/$defs/a"},
		{"recursion", `{"properties":{"child":{"$ref":"#"}}}`, ""},
		{"doubling references", twice(40), ""},
		{"dynamic reference", `{"$dynamicRef":"#a"}`, "/$dynamicRef"},
		{"anchor", `{"$defs":{"a":{"$anchor":"x"}}}`, "/$defs/a/$anchor"},
		{"content keywords", `{"contentMediaType":"application/json"}`, "/contentMediaType"},
		{"content encoding below", `{"items":{"contentEncoding":"base64"}}`, "/items/contentEncoding"},
		{"another draft", `{"$schema":"http://json-schema.org/draft-07/schema#"}`, "/$schema"},
		{"nested id", `{"properties":{"a":{"$id":"http://x/a"}}}`, "/properties/a/$id"},
		{"wrong keyword value", `{"properties":{"a":{"type":"strin"}}}`, "/properties/a/type"},
		{"wrong keyword type", `{"minLength":-1}`, "/minLength"},
		{"no schema", `[]`, ""},
		{"wrong pattern", `{"pattern":"("}`, "/pattern"},
		{"pattern that is not RE2", `{"pattern":"(?=x)"}`, "/pattern"},
		{"default that does not fit", `{"properties":{"a":{"type":"string","default":1}}}`, "/properties/a/default"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := schema.Compile([]byte(c.raw))
			e, ok := errors.AsType[*schema.CompileError](err)
			require.True(t, ok, "%v", err)
			if c.pointer != "" {
				require.Equal(t, c.pointer, e.Pointer, e.Message)
			}
			require.NotEmpty(t, e.Message)
		})
	}
	_, err := schema.Compile([]byte(`{"type":"object","type":"string"}`))
	_, ok := errors.AsType[*schema.DecodeError](err)
	require.True(t, ok, "a keyword given twice")
	_, err = schema.Compile([]byte(`{"description":"` + strings.Repeat("x", 256<<10) + `"}`))
	require.Error(t, err, "too large")
}

func TestNothingIsFetched(t *testing.T) {
	asked := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		fmt.Fprint(w, `{"type":"string"}`)
	}))
	defer server.Close()
	resp, err := http.Get(server.URL + "/control")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, "/control", <-asked, "control: the server sees requests")
	for _, form := range []string{
		`{"$ref":"%s/s"}`, `{"$schema":"%s/s"}`, `{"$id":"%s/","$ref":"s"}`, `{"$dynamicRef":"%s/s"}`, `{"$id":"%s/id","type":"string"}`,
	} {
		s, err := schema.Compile(fmt.Appendf(nil, form, server.URL))
		if err == nil {
			validate(t, s, `"x"`)
		}
	}
	require.Empty(t, asked)
}

func TestDefaultsFillAbsentTopLevelPropertiesOnly(t *testing.T) {
	s := compile(t, `{"properties":{"a":{"default":{"list":[1]}},"b":{"default":false},"c":{"properties":{"d":{"default":1}}}}}`)
	object := map[string]any{"b": true, "c": map[string]any{}}
	require.True(t, s.ApplyDefaults(object))
	require.Equal(t, map[string]any{"a": map[string]any{"list": []any{json.Number("1")}}, "b": true, "c": map[string]any{}}, object)
	require.False(t, s.ApplyDefaults(object))

	object["a"].(map[string]any)["list"].([]any)[0] = "changed"
	fresh := map[string]any{}
	s.ApplyDefaults(fresh)
	require.Equal(t, []any{json.Number("1")}, fresh["a"].(map[string]any)["list"], "defaults are not shared")
}

// TestManyGoroutinesMayValidateAtOnce fails the process, or under -race, when
// the validator's own state is not guarded.
func TestManyGoroutinesMayValidateAtOnce(t *testing.T) {
	s := compile(t, `{
	  "type":"object","patternProperties":{"^p":{"type":"string","pattern":"^x+$"}},"propertyNames":{"pattern":"^[a-z]+$"},
	  "properties":{"n":{"type":"number","multipleOf":0.5},"u":{"uniqueItems":true,"prefixItems":[{"const":1}],"contains":{"type":"integer"}},
	    "o":{"anyOf":[{"type":"string","format":"email"},{"enum":[1,[2]]}]},"if":{"if":{"type":"string"},"then":{"minLength":2}}},
	  "dependentSchemas":{"n":{"required":["u"]}},"unevaluatedProperties":false}`)
	docs := []string{`{"pa":"xx","n":1.5,"u":[1,2],"o":[2],"if":"ab"}`, `{"pa":"y"}`, `{"n":0.3,"u":[2,2]}`, `{"zz":1}`, `{"Q":1}`, `{"if":"a","o":"x"}`}
	plain := compile(t, `{"properties":{"u":{"uniqueItems":true,"items":{"type":"integer","maximum":5}},"s":{"type":"string","maxLength":3,"format":"date"}},"unevaluatedProperties":false}`)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 40 {
				doc, err := schema.DecodeJSON([]byte(docs[(i+j)%len(docs)]))
				if err != nil {
					t.Error(err)
				}
				valid := (i+j)%len(docs) == 0 || (i+j)%len(docs) == len(docs)
				if got := s.Validate(doc); valid != (len(got) == 0) {
					t.Errorf("%v: %v", doc, got)
				}
				plain.Validate(map[string]any{"u": []any{json.Number("1"), json.Number("7")}, "s": "long", "x": nil})
			}
		})
	}
	wg.Wait()
}

func TestNearestNames(t *testing.T) {
	names := []string{"file.read", "file.write", "shell.run", "git.status"}
	for in, want := range map[string]string{
		"file_read": "file.read", "FileRead": "file.read", "file.raed": "file.read", "shell": "", "git.statsu": "git.status",
		"": "", "zzz": "", "file.read": "", "shel.run": "shell.run",
	} {
		require.Equal(t, want, schema.Nearest(in, names), in)
	}
}

func FuzzCompile(f *testing.F) {
	f.Add([]byte(tool), []byte(`{"path":"a"}`))
	f.Add([]byte(`{"$ref":"#/$defs/a","$defs":{"a":{"enum":[1]}}}`), []byte(`1`))
	f.Add([]byte(`{"items":{"$ref":"#"}}`), []byte(`[[]]`))
	f.Add([]byte(`{"if":{"not":{}},"else":false,"$id":"x:y"}`), []byte(`null`))
	f.Fuzz(func(t *testing.T, raw, doc []byte) {
		s, err := schema.Compile(raw)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		v, err := schema.DecodeJSON(doc)
		if err != nil {
			return
		}
		first := s.Validate(v)
		require.Equal(t, first, s.Validate(v))
		if object, ok := v.(map[string]any); ok {
			s.ApplyDefaults(object)
		}
	})
}

func FuzzValidate(f *testing.F) {
	s := compile(f, tool)
	f.Add([]byte(`{"path":"a","tags":["x"],"what":{"x":1}}`))
	f.Add([]byte(`{"path":"a","what":[{}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		doc, err := schema.DecodeJSON(raw)
		if err != nil {
			return
		}
		for _, v := range s.Validate(doc) {
			require.NotEmpty(t, v.Message)
			require.NotEmpty(t, v.Rule)
			require.True(t, v.Pointer == "" || v.Pointer[0] == '/')
		}
	})
}

func BenchmarkValidate(b *testing.B) {
	s := compile(b, tool)
	doc, err := schema.DecodeJSON([]byte(`{"path":"a/b","startLine":3,"mode":"b","tags":["x"]}`))
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if s.Validate(doc) != nil {
			b.Fatal("must fit")
		}
	}
}
