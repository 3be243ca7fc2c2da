// Package schema is the door for JSON from outside: it decodes it strictly,
// validates it against JSON Schemas (draft 2020-12), and gives it a canonical
// form and a hash.
//
// [Decode] refuses what other decoders let pass in silence: duplicate member
// names, invalid UTF-8, lone surrogates, data behind the value, too much depth
// or size, and integers that a double cannot hold. Numbers stay as they were
// written (json.Number).
//
// [Compile] admits only schemas whose meaning is certain. The validator,
// kaptinlin/jsonschema, fetches remote references, takes anything where a
// reference leads nowhere, asserts the content keywords that the draft makes
// annotations, checks no schema against the metaschema, and is not safe for
// concurrent use where patterns are involved. So a schema is first held against
// the metaschema by a second library (santhosh-tekuri/jsonschema, with a loader
// that refuses everything), references must be local and may not form a circle,
// keywords on which the two libraries differ are refused, and patterns are
// evaluated one at a time.
//
// [Schema.Validate] accepts a document when both libraries accept it. What does
// not fit is explained from the second one's typed errors, in words of our own:
// messages name places, rules and what the schema wants, never the values that
// were submitted.
package schema
