package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	kaptin "github.com/kaptinlin/jsonschema"
	santhosh "github.com/santhosh-tekuri/jsonschema/v6"
)

// A Schema is a compiled JSON Schema. It is safe for concurrent use.
type Schema struct {
	root      any
	main      *kaptin.Schema
	second    *santhosh.Schema
	defaults  map[string]any
	patterned bool
	plain     bool // the validator alone decides
	// patterns guards main where it matches regular expressions: it then writes
	// to itself while it evaluates.
	patterns sync.Mutex
}

// location is the schema's address within the second library.
const location = "schema:///it"

// Compile admits a schema or says what is wrong with it: the error is a
// *DecodeError or a *CompileError.
func Compile(raw []byte) (*Schema, error) {
	root, err := Decode(bytes.NewReader(raw), Limits{MaxBytes: maxSchemaBytes, MaxDepth: maxSchemaDepth})
	if err != nil {
		return nil, err
	}
	in, err := inspect(root)
	if err != nil {
		return nil, err
	}
	s := &Schema{root: root, patterned: in.patterns, plain: !in.intricate}
	compiler, err := secondCompiler(root)
	if err != nil {
		return nil, &CompileError{"", err.Error()}
	}
	if s.second, err = compiler.Compile(location); err != nil {
		return nil, metaschemaError(err)
	}
	if s.main, err = mainCompiler().Compile(raw); err != nil {
		return nil, &CompileError{"", "the validator does not take it: " + err.Error()}
	}
	if open := s.main.UnresolvedReferenceURIs(); len(open) > 0 {
		return nil, &CompileError{"", fmt.Sprintf("%d references lead nowhere", len(open))}
	}
	return s, s.readDefaults(compiler)
}

// mainCompiler is the validator's, able to fetch nothing.
func mainCompiler() *kaptin.Compiler {
	c := kaptin.NewCompiler()
	c.Loaders = map[string]func(string) (io.ReadCloser, error){}
	return c
}

func secondCompiler(root any) (*santhosh.Compiler, error) {
	c := santhosh.NewCompiler()
	c.DefaultDraft(santhosh.Draft2020)
	c.UseLoader(noLoader{})
	return c, c.AddResource(location, root)
}

// noLoader refuses to load anything.
type noLoader struct{}

func (noLoader) Load(string) (any, error) { return nil, errors.New("nothing is fetched") }

// metaschemaError names the first place that does not fit the metaschema.
func metaschemaError(err error) error {
	if bad, ok := errors.AsType[*santhosh.SchemaValidationError](err); ok {
		if v, ok := errors.AsType[*santhosh.ValidationError](bad.Err); ok {
			if found := explain(v, nil); len(found) > 0 {
				return &CompileError{found[0].Pointer, found[0].Message}
			}
		}
	}
	return &CompileError{"", err.Error()}
}

// readDefaults keeps the defaults of the top-level properties, each of which
// must fit its property.
func (s *Schema) readDefaults(compiler *santhosh.Compiler) error {
	s.defaults = map[string]any{}
	object, _ := s.root.(map[string]any)
	properties, _ := object["properties"].(map[string]any)
	for _, name := range sortedKeys(properties) {
		property, _ := properties[name].(map[string]any)
		value, has := property["default"]
		if !has {
			continue
		}
		at := "/properties/" + escapePointer(name)
		sub, err := compiler.Compile(location + "#" + fragment(at))
		if err != nil {
			return &CompileError{at, err.Error()}
		}
		if sub.Validate(value) != nil {
			return &CompileError{at + "/default", "the default does not fit its own property"}
		}
		s.defaults[name] = value
	}
	return nil
}

// Validate says where doc, a value that Decode gave, does not fit the schema,
// in order of place and rule; nothing when it fits.
func (s *Schema) Validate(doc any) []Violation {
	if s.plain && s.fitsMain(doc) {
		return nil
	}
	found := s.explainSecond(doc)
	if len(found) == 0 && !s.fitsMain(doc) {
		return []Violation{{Rule: "schema", Message: "does not fit the schema"}}
	}
	return found
}

func (s *Schema) explainSecond(doc any) []Violation {
	err := s.second.Validate(doc)
	if err == nil {
		return nil
	}
	v, ok := errors.AsType[*santhosh.ValidationError](err)
	if !ok {
		return []Violation{{Rule: "schema", Message: "cannot be held against the schema"}}
	}
	return explain(v, s.root)
}

// fitsMain asks the mandated validator. Its messages quote what was submitted
// and are not used.
func (s *Schema) fitsMain(doc any) bool {
	doc = asDoubles(doc)
	if s.patterned {
		s.patterns.Lock()
		defer s.patterns.Unlock()
	}
	return s.main.ValidateStruct(doc).IsValid()
}

// asDoubles copies a document with its numbers as float64, which is how the
// validator reads the numbers of its schema too.
func asDoubles(doc any) any {
	switch v := doc.(type) {
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			return v.String() // no number that Decode lets through
		}
		return f
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = asDoubles(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = asDoubles(v[k])
		}
		return out
	}
	return doc
}

// ApplyDefaults puts the schema's defaults where top-level properties are
// absent, and tells whether it changed anything.
func (s *Schema) ApplyDefaults(object map[string]any) bool {
	changed := false
	for name, value := range s.defaults {
		if _, has := object[name]; !has {
			object[name] = clone(value)
			changed = true
		}
	}
	return changed
}

func clone(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = clone(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = clone(v[k])
		}
		return out
	}
	return v
}
