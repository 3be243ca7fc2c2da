package schema_test

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"

	kaptin "github.com/kaptinlin/jsonschema"
	"github.com/sandboxd/sandboxd/runtime/schema"
	santhosh "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestRefusedKeywordsAreThoseThatTheLibrariesDifferOn holds the evidence for
// the refusals: when the validator is mended, this fails and the list can be
// shortened.
func TestRefusedKeywordsAreThoseThatTheLibrariesDifferOn(t *testing.T) {
	for _, c := range []struct {
		name, schema, doc string
		right             bool // by the draft
	}{
		{"contentMediaType is an annotation", `{"contentMediaType":"application/json"}`, `"{:}"`, true},
		{"contentEncoding is an annotation", `{"contentEncoding":"base64"}`, `"eyJmb28i%iOi"`, true},
		{"a reference that leads nowhere", `{"$ref":"#/$defs/none"}`, `1`, false},
		{"a remote reference", `{"$ref":"http://localhost:1/x"}`, `1`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			compiler := kaptin.NewCompiler()
			compiler.Loaders = map[string]func(string) (io.ReadCloser, error){}
			s, err := compiler.Compile([]byte(c.schema))
			require.NoError(t, err)
			var doc any
			require.NoError(t, json.Unmarshal([]byte(c.doc), &doc))
			require.NotEqual(t, c.right, s.ValidateStruct(doc).IsValid(), "the validator is right now")
			_, err = schema.Compile([]byte(c.schema))
			require.Error(t, err, "so it is refused")
		})
	}
}

// TestTheAnswerIsThatOfTheDraft makes schemas and documents of the admitted
// keywords and takes the second library as oracle. The validator takes some
// documents that it should not (unevaluatedProperties beside dependentSchemas),
// which is why both must accept; it must not refuse one alone, which Validate
// would report under the rule "schema".
func TestTheAnswerIsThatOfTheDraft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { agree(t, schemaGen(3, keywords)) })
}

// TestPlainSchemasNeedOneValidator is the evidence for asking the validator
// alone where a schema has plain keywords only.
func TestPlainSchemasNeedOneValidator(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { agree(t, schemaGen(3, plainWords)) })
}

func plainWords(depth int) []string {
	out := []string{"type", "minLength", "maxLength", "minimum", "minItems", "maxItems", "minProperties", "maxProperties", "required"}
	if depth > 0 {
		out = append(out, "items", "additionalProperties", "properties")
	}
	return out
}

// agree holds the answer for one schema and one document against the oracle.
func agree(t *rapid.T, schemas *rapid.Generator[any]) {
	raw, err := json.Marshal(schemas.Draw(t, "schema"))
	require.NoError(t, err)
	s, err := schema.Compile(raw)
	if err != nil {
		t.Skip(err)
	}
	doc := docGen(3).Draw(t, "doc")
	text, err := json.Marshal(doc)
	require.NoError(t, err)
	v, err := schema.DecodeJSON(text)
	require.NoError(t, err)
	got := s.Validate(v)
	for _, violation := range got {
		require.NotEqual(t, "schema", violation.Rule, "%s refuses %s in the validator only", raw, text)
	}

	other := santhosh.NewCompiler()
	parsed, err := santhosh.UnmarshalJSON(bytes.NewReader(raw))
	require.NoError(t, err)
	require.NoError(t, other.AddResource("schema:///x", parsed))
	second, err := other.Compile("schema:///x")
	require.NoError(t, err)
	instance, err := santhosh.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	require.Equal(t, len(got) == 0, second.Validate(instance) == nil)
}

func nameGen() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"a", "b", "c", "a/b", "~"})
}

func docGen(depth int) *rapid.Generator[any] {
	scalar := rapid.OneOf(
		rapid.Just[any](nil), rapid.Map(rapid.Bool(), asAny[bool]), rapid.Map(rapid.IntRange(-3, 5), asAny[int]),
		rapid.Map(rapid.SampledFrom([]float64{0.5, 1.5, 2, 1e3, 0.1}), asAny[float64]), rapid.Map(rapid.SampledFrom([]string{"", "a", "ab", "äö", "😀", "1"}), asAny[string]),
	)
	if depth == 0 {
		return scalar
	}
	return rapid.OneOf(scalar,
		rapid.Map(rapid.SliceOfN(docGen(depth-1), 0, 3), asAny[[]any]),
		rapid.Map(rapid.MapOfN(nameGen(), docGen(depth-1), 0, 3), asAny[map[string]any]),
	)
}

func asAny[T any](v T) any { return v }

// schemaGen makes a schema of a few keywords.
func schemaGen(depth int, words func(depth int) []string) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		out := map[string]any{}
		for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom(words(depth)), 0, 3, rapid.ID).Draw(t, "keys") {
			out[key] = keyword(t, key, depth, words)
		}
		return out
	})
}

func keywords(depth int) []string {
	out := []string{"type", "enum", "const", "minLength", "maxLength", "pattern", "minimum", "exclusiveMaximum", "multipleOf",
		"minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "required", "dependentRequired", "format"}
	if depth > 0 {
		out = append(out, "items", "additionalProperties", "propertyNames", "contains", "not", "if", "then", "else", "unevaluatedItems",
			"unevaluatedProperties", "allOf", "anyOf", "oneOf", "prefixItems", "properties", "patternProperties", "dependentSchemas")
	}
	return out
}

func keyword(t *rapid.T, key string, depth int, words func(depth int) []string) any {
	small := rapid.IntRange(0, 3)
	switch key {
	case "type":
		return rapid.SampledFrom([]any{"string", "integer", "number", "object", "array", "boolean", "null", []any{"string", "null"}}).Draw(t, key)
	case "enum":
		return rapid.SliceOfNDistinct(docGen(1), 1, 3, func(v any) string { b, _ := json.Marshal(v); return string(b) }).Draw(t, key)
	case "const":
		return docGen(1).Draw(t, key)
	case "pattern":
		return rapid.SampledFrom([]string{"^a", "b$", "^[a-z]+$", "ä"}).Draw(t, key)
	case "format":
		return rapid.SampledFrom([]string{"date", "email", "uri", "made-up"}).Draw(t, key)
	case "multipleOf":
		return rapid.SampledFrom([]float64{0.5, 1, 2, 0.1}).Draw(t, key)
	case "uniqueItems":
		return rapid.Bool().Draw(t, key)
	case "required":
		return rapid.SliceOfNDistinct(nameGen(), 0, 2, rapid.ID).Draw(t, key)
	case "dependentRequired":
		return map[string]any{nameGen().Draw(t, "if"): []string{nameGen().Draw(t, "then")}}
	case "allOf", "anyOf", "oneOf", "prefixItems":
		return rapid.SliceOfN(schemaGen(depth-1, words), 1, 3).Draw(t, key)
	case "properties", "dependentSchemas":
		return rapid.MapOfN(nameGen(), schemaGen(depth-1, words), 1, 3).Draw(t, key)
	case "patternProperties":
		return rapid.MapOfN(rapid.SampledFrom([]string{"^a", "b$", "."}), schemaGen(depth-1, words), 1, 2).Draw(t, key)
	case "items", "additionalProperties", "propertyNames", "contains", "not", "if", "then", "else", "unevaluatedItems", "unevaluatedProperties":
		if rapid.IntRange(0, 3).Draw(t, "boolean") == 0 {
			return rapid.Bool().Draw(t, key)
		}
		return schemaGen(depth-1, words).Draw(t, key)
	}
	return small.Draw(t, key)
}
