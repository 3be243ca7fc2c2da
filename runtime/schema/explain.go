package schema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strings"

	santhosh "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// A Violation says where and how a document does not fit. Message quotes the
// schema and names of members, never a value that was submitted.
type Violation struct {
	// Pointer is the place in the document (RFC 6901).
	Pointer string `json:"pointer"`
	// Rule is the schema's keyword.
	Rule    string `json:"rule"`
	Message string `json:"message"`
	// Suggestion is the name that was probably meant by an unknown one.
	Suggestion string `json:"suggestion,omitempty"`
}

// explain turns an error of the second library into violations; root is the
// schema, for suggestions.
func explain(err *santhosh.ValidationError, root any) []Violation {
	x := explainer{root: root}
	x.walk(err)
	slices.SortFunc(x.found, func(a, b Violation) int {
		return cmp.Or(strings.Compare(a.Pointer, b.Pointer), strings.Compare(a.Rule, b.Rule), strings.Compare(a.Message, b.Message))
	})
	return slices.Compact(x.found)
}

type explainer struct {
	root  any
	found []Violation
}

func (x *explainer) add(at, rule, format string, args ...any) {
	x.found = append(x.found, Violation{Pointer: at, Rule: rule, Message: fmt.Sprintf(format, args...)})
}

func (x *explainer) walk(err *santhosh.ValidationError) {
	at := pointerOf(err.InstanceLocation)
	switch k := err.ErrorKind.(type) {
	case *kind.Group, *kind.Schema, *kind.AllOf, *kind.Reference:
		for _, cause := range err.Causes {
			x.walk(cause)
		}
	case *kind.AnyOf:
		x.forms("anyOf", at, err.Causes)
	case *kind.OneOf:
		if len(k.Subschemas) > 0 {
			x.add(at, "oneOf", "fits more than one of the forms that exclude each other")
			return
		}
		x.forms("oneOf", at, err.Causes)
	case *kind.Required:
		for _, name := range k.Missing {
			x.add(at, "required", "%s is missing", quote(name))
		}
	case *kind.AdditionalProperties:
		x.unknown(at, err.SchemaURL, k.Properties)
	case *kind.PropertyNames:
		x.add(at, "propertyNames", "the name %s is not allowed", quote(k.Property))
	case *kind.DependentRequired:
		x.add(at, "dependentRequired", "with %s, %s must be there too", quote(k.Prop), quoteAll(k.Missing))
	default:
		if rule, message, ok := values(k); ok {
			x.add(at, rule, "%s", message)
			return
		}
		x.rest(at, k)
	}
}

// values explains rules on a value's type or size.
func values(k santhosh.ErrorKind) (rule, message string, ok bool) {
	is := func(rule, format string, args ...any) (string, string, bool) {
		return rule, fmt.Sprintf(format, args...), true
	}
	switch k := k.(type) {
	case *kind.Type:
		return is("type", "must be %s, not %s", strings.Join(k.Want, " or "), k.Got)
	case *kind.Enum:
		return is("enum", "must be one of %s", listed(k.Want))
	case *kind.Const:
		return is("const", "must be %s", listed([]any{k.Want}))
	case *kind.MinLength:
		return is("minLength", "must have at least %s, has %d", count(k.Want, "character"), k.Got)
	case *kind.MaxLength:
		return is("maxLength", "must have at most %s, has %d", count(k.Want, "character"), k.Got)
	case *kind.Pattern:
		return is("pattern", "must match the pattern %s", k.Want)
	case *kind.Minimum:
		return is("minimum", "must be at least %s", decimal(k.Want))
	case *kind.Maximum:
		return is("maximum", "must be at most %s", decimal(k.Want))
	case *kind.ExclusiveMinimum:
		return is("exclusiveMinimum", "must be more than %s", decimal(k.Want))
	case *kind.ExclusiveMaximum:
		return is("exclusiveMaximum", "must be less than %s", decimal(k.Want))
	case *kind.MultipleOf:
		return is("multipleOf", "must be a multiple of %s", decimal(k.Want))
	case *kind.MinItems:
		return is("minItems", "must have at least %s, has %d", count(k.Want, "item"), k.Got)
	case *kind.MaxItems:
		return is("maxItems", "must have at most %s, has %d", count(k.Want, "item"), k.Got)
	case *kind.UniqueItems:
		return is("uniqueItems", "items %d and %d are the same", k.Duplicates[0], k.Duplicates[1])
	case *kind.MinProperties:
		return is("minProperties", "must have at least %s, has %d", count(k.Want, "member"), k.Got)
	case *kind.MaxProperties:
		return is("maxProperties", "must have at most %s, has %d", count(k.Want, "member"), k.Got)
	}
	return "", "", false
}

// rest explains the rarer rules.
func (x *explainer) rest(at string, k santhosh.ErrorKind) {
	switch k := k.(type) {
	case *kind.FalseSchema:
		x.add(at, "false", "is not allowed here")
	case *kind.Not:
		x.add(at, "not", "fits a form that is not allowed")
	case *kind.Contains:
		x.add(at, "contains", "no item has the form that one must have")
	case *kind.MinContains:
		x.add(at, "minContains", "at least %d items must have the required form", k.Want)
	case *kind.MaxContains:
		x.add(at, "maxContains", "at most %d items may have that form", k.Want)
	case *kind.AdditionalItems:
		x.add(at, "items", "has %d items too many", k.Count)
	case *kind.Format:
		x.add(at, "format", "must have the format %s", k.Want)
	default:
		path := k.KeywordPath()
		rule := "schema"
		if len(path) > 0 {
			rule = path[0]
		}
		x.add(at, rule, "does not fit the rule %s", rule)
	}
}

// forms explains that none of several forms fits, and what keeps the nearest
// one from fitting.
func (x *explainer) forms(rule, at string, causes []*santhosh.ValidationError) {
	var nearest []Violation
	for _, cause := range causes {
		got := explain(cause, x.root)
		otherKind := slices.ContainsFunc(got, func(v Violation) bool {
			return v.Pointer == at && (v.Rule == "type" || v.Rule == "false")
		})
		if !otherKind && len(got) > 0 && (nearest == nil || len(got) < len(nearest)) {
			nearest = got
		}
	}
	message := fmt.Sprintf("fits none of the %d allowed forms", len(causes))
	if len(nearest) > 0 {
		place := nearest[0].Pointer
		if place == at {
			place = "it"
		}
		message += fmt.Sprintf("; for the nearest one, %s %s", place, nearest[0].Message)
	}
	x.add(at, rule, "%s", message)
}

// unknown explains members that the schema does not know.
func (x *explainer) unknown(at, schemaURL string, names []string) {
	known := x.properties(schemaURL)
	for _, name := range names {
		x.found = append(x.found, Violation{
			Pointer: at + "/" + escapePointer(name), Rule: "additionalProperties",
			Message: "is not a known property", Suggestion: Nearest(name, known),
		})
	}
}

// properties lists the names that a subschema knows.
func (x *explainer) properties(schemaURL string) []string {
	_, frag, _ := strings.Cut(schemaURL, "#")
	at, err := url.PathUnescape(frag)
	if err != nil {
		return nil
	}
	node, _ := resolve(x.root, at)
	object, _ := node.(map[string]any)
	named, _ := object["properties"].(map[string]any)
	return sortedKeys(named)
}

// fragment escapes a JSON pointer for a URL.
func fragment(pointer string) string {
	u := url.URL{Fragment: pointer}
	return u.EscapedFragment()
}

func pointerOf(tokens []string) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteString("/" + escapePointer(t))
	}
	return b.String()
}

// Bounds of what a message quotes of a schema.
const (
	maxListed = 20
	maxName   = 80
)

func listed(values []any) string {
	var out []string
	for i, v := range values {
		if i == maxListed {
			out = append(out, "…")
			break
		}
		b, err := json.Marshal(v)
		if err != nil {
			b = []byte("?")
		}
		out = append(out, string(b))
	}
	return strings.Join(out, ", ")
}

func quote(name string) string {
	if runes := []rune(name); len(runes) > maxName {
		name = string(runes[:maxName]) + "…"
	}
	return fmt.Sprintf("%q", name)
}

func quoteAll(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = quote(n)
	}
	return strings.Join(quoted, ", ")
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func decimal(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	f, _ := r.Float64()
	return fmt.Sprint(f)
}
