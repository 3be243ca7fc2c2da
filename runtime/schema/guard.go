package schema

import (
	"fmt"
	"slices"
	"strings"
)

// A CompileError refuses a schema. Pointer is the place in the schema
// (RFC 6901).
type CompileError struct {
	Pointer string
	Message string
}

func (e *CompileError) Error() string {
	at := e.Pointer
	if at == "" {
		at = "the schema"
	}
	return at + ": " + e.Message
}

// Bounds of a schema.
const (
	maxSchemaBytes = 256 << 10
	maxSchemaDepth = 48
	// maxExpanded is how many subschemas there are when every reference is
	// written out; it bounds the work of one validation.
	maxExpanded = 20_000
)

const dialect = "https://json-schema.org/draft/2020-12/schema"

// refusedKeywords are those that the validator gets wrong or that make the
// meaning of a schema hang on something outside it. The differential test
// against the second library holds the list.
func refusedKeywords() map[string]string {
	const content = "is asserted by the validator though the draft makes it an annotation"
	const dynamic = "is not supported: refer to #/$defs/… instead"
	return map[string]string{
		"contentEncoding":  content,
		"contentMediaType": content,
		"contentSchema":    content,
		"$dynamicRef":      dynamic,
		"$dynamicAnchor":   dynamic,
		"$recursiveRef":    dynamic,
		"$recursiveAnchor": dynamic,
		"$anchor":          dynamic,
		"$vocabulary":      "is for metaschemas",
	}
}

// Where subschemas stand.
var (
	oneSchema   = []string{"items", "additionalProperties", "propertyNames", "contains", "not", "if", "then", "else", "unevaluatedItems", "unevaluatedProperties"}
	schemaLists = []string{"allOf", "anyOf", "oneOf", "prefixItems"}
	schemaMaps  = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)

// An inspector walks a schema and finds what is refused.
type inspector struct {
	root    any
	refused map[string]string
	plain   map[string]bool
	// size holds, by pointer, how many subschemas a place stands for; -1 while
	// it is being counted.
	size map[string]int
	// patterns is set where the schema matches regular expressions.
	patterns bool
	// intricate is set where it has a keyword that is not among the plain ones.
	intricate bool
}

// plainKeywords are those on which a validator has little to be wrong about:
// what they say of a value depends on nothing beside them. The differential
// test draws schemas of these alone and finds no difference; a schema that has
// another keyword asks both validators.
func plainKeywords() map[string]bool {
	return map[string]bool{
		"$schema": true, "$id": true, "$comment": true, "title": true, "description": true, "default": true,
		"examples": true, "deprecated": true, "readOnly": true, "writeOnly": true,
		"type": true, "properties": true, "required": true, "additionalProperties": true, "items": true,
		"minLength": true, "maxLength": true, "minimum": true, "maximum": true,
		"minItems": true, "maxItems": true, "minProperties": true, "maxProperties": true,
	}
}

func inspect(root any) (*inspector, error) {
	in := &inspector{root: root, refused: refusedKeywords(), plain: plainKeywords(), size: map[string]int{}}
	_, err := in.visit(root, "")
	return in, err
}

// visit returns how many subschemas node stands for.
func (in *inspector) visit(node any, at string) (int, error) {
	object, ok := node.(map[string]any)
	if !ok {
		return 1, nil // true, false, or something that the metaschema refuses
	}
	if n, seen := in.size[at]; seen {
		if n < 0 {
			return 0, &CompileError{at, "the schema refers to itself; write out as many levels as are needed"}
		}
		return n, nil
	}
	in.size[at] = -1
	if err := in.keywords(object, at); err != nil {
		return 0, err
	}
	total := 1
	for _, child := range children(object, at) {
		n, err := in.visit(child.node, child.at)
		if err != nil {
			return 0, err
		}
		if total += n; total > maxExpanded {
			return 0, &CompileError{at, fmt.Sprintf("the schema stands for more than %d subschemas", maxExpanded)}
		}
	}
	n, err := in.reference(object, at)
	if err != nil {
		return 0, err
	}
	if total += n; total > maxExpanded {
		return 0, &CompileError{at, fmt.Sprintf("the schema stands for more than %d subschemas", maxExpanded)}
	}
	in.size[at] = total
	return total, nil
}

func (in *inspector) keywords(object map[string]any, at string) error {
	for _, key := range sortedKeys(object) {
		in.intricate = in.intricate || !in.plain[key]
		if why, bad := in.refused[key]; bad {
			return &CompileError{at + "/" + escapePointer(key), key + " " + why}
		}
	}
	if s, has := object["$schema"]; has && s != dialect && s != dialect+"#" {
		return &CompileError{at + "/$schema", "only draft 2020-12 is supported"}
	}
	if _, has := object["$id"]; has && at != "" {
		return &CompileError{at + "/$id", "only the whole schema may have an id"}
	}
	_, pattern := object["pattern"]
	_, properties := object["patternProperties"]
	in.patterns = in.patterns || pattern || properties
	return nil
}

// reference follows $ref, which must be a JSON pointer into the same schema.
func (in *inspector) reference(object map[string]any, at string) (int, error) {
	value, has := object["$ref"]
	if !has {
		return 0, nil
	}
	ref, ok := value.(string)
	if !ok || ref != "#" && !strings.HasPrefix(ref, "#/") {
		return 0, &CompileError{at + "/$ref", "a reference must lead into the same schema, as #/$defs/NAME does; nothing is fetched"}
	}
	target, found := resolve(in.root, ref[1:])
	if !found {
		return 0, &CompileError{at + "/$ref", "the reference leads nowhere"}
	}
	return in.visit(target, ref[1:])
}

// A child is a subschema and its place.
type child struct {
	node any
	at   string
}

// children lists the subschemas of an object, in a fixed order.
func children(object map[string]any, at string) []child {
	var out []child
	for _, key := range oneSchema {
		if node, has := object[key]; has {
			out = append(out, child{node, at + "/" + key})
		}
	}
	for _, key := range schemaLists {
		list, _ := object[key].([]any)
		for i, node := range list {
			out = append(out, child{node, fmt.Sprintf("%s/%s/%d", at, key, i)})
		}
	}
	for _, key := range schemaMaps {
		named, _ := object[key].(map[string]any)
		for _, name := range sortedKeys(named) {
			out = append(out, child{named[name], at + "/" + key + "/" + escapePointer(name)})
		}
	}
	return out
}

// resolve finds the value at a JSON pointer.
func resolve(node any, pointer string) (any, bool) {
	if pointer == "" {
		return node, true
	}
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		switch v := node.(type) {
		case map[string]any:
			next, has := v[token]
			if !has {
				return nil, false
			}
			node = next
		case []any:
			var i int
			if _, err := fmt.Sscanf(token, "%d", &i); err != nil || i < 0 || i >= len(v) || fmt.Sprint(i) != token {
				return nil, false
			}
			node = v[i]
		default:
			return nil, false
		}
	}
	return node, true
}

func escapePointer(token string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(token)
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
