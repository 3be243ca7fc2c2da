package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits bound what Decode takes. Zero fields take those of DefaultLimits.
type Limits struct {
	// MaxBytes is the size of the whole input.
	MaxBytes int64
	// MaxDepth is how deep arrays and objects nest; a scalar has depth 0.
	MaxDepth int
	// AnyInteger admits integers beyond 2^53, which have no canonical form.
	AnyInteger bool
}

// DefaultLimits fit a tool call: 8 MiB, 64 levels, exact integers.
func DefaultLimits() Limits {
	return Limits{MaxBytes: 8 << 20, MaxDepth: 64}
}

// DecodeCode says what is wrong with an input: a closed list.
type DecodeCode string

// The codes.
const (
	CodeSyntax       DecodeCode = "syntax"
	CodeEmpty        DecodeCode = "empty"
	CodeTruncated    DecodeCode = "truncated"
	CodeDuplicateKey DecodeCode = "duplicate_key"
	CodeInvalidUTF8  DecodeCode = "invalid_utf8"
	CodeTooDeep      DecodeCode = "too_deep"
	CodeTooLarge     DecodeCode = "too_large"
	CodeTrailingData DecodeCode = "trailing_data"
	CodeNumberRange  DecodeCode = "number_range"
)

// A DecodeError refuses an input.
type DecodeError struct {
	Code DecodeCode
	// Offset is the byte at or behind which the fault lies, Pointer the place in
	// the document (RFC 6901) as far as it was read.
	Offset  int64
	Pointer string
	// Limit is the bound that was passed, where the code is about one.
	Limit int64
}

// Error is a sentence that says what to do; it quotes nothing of the input.
func (e *DecodeError) Error() string {
	switch e.Code {
	case CodeEmpty:
		return "there is no JSON value"
	case CodeTruncated:
		return fmt.Sprintf("the JSON ends before its value does (byte %d)", e.Offset)
	case CodeDuplicateKey:
		return fmt.Sprintf("a member name occurs twice in one object (byte %d)", e.Offset)
	case CodeInvalidUTF8:
		return fmt.Sprintf("the JSON is not valid UTF-8, or has half a surrogate pair (byte %d)", e.Offset)
	case CodeTooDeep:
		return fmt.Sprintf("the JSON nests deeper than %d levels (byte %d)", e.Limit, e.Offset)
	case CodeTooLarge:
		return fmt.Sprintf("the JSON is larger than %d bytes", e.Limit)
	case CodeTrailingData:
		return fmt.Sprintf("something follows the JSON value (byte %d)", e.Offset)
	case CodeNumberRange:
		return fmt.Sprintf("a number is beyond what a double holds exactly (byte %d); send it as a string", e.Offset)
	}
	return fmt.Sprintf("the JSON is malformed (byte %d)", e.Offset)
}

// DecodeJSON decodes a tool call's JSON under DefaultLimits.
func DecodeJSON(raw []byte) (any, error) {
	return Decode(bytes.NewReader(raw), DefaultLimits())
}

// Decode reads one JSON value (RFC 8259) and nothing else: map[string]any,
// []any, string, json.Number, bool or nil. The error is a *DecodeError, or that
// of the reader.
func Decode(r io.Reader, limits Limits) (any, error) {
	d := newDecoder(r, limits)
	v, err := d.value()
	if err != nil {
		return nil, d.fault(err)
	}
	if _, err := d.in.ReadToken(); errors.Is(err, io.EOF) {
		return v, nil
	} else if err = d.fault(err); isOurs(err) {
		// Whatever follows, it should not be there.
		return nil, err
	}
	return nil, &DecodeError{Code: CodeTrailingData, Offset: d.in.InputOffset()}
}

// isOurs tells whether the input's size or its reader failed, rather than its
// form.
func isOurs(err error) bool {
	e, ok := errors.AsType[*DecodeError](err)
	return err != nil && (!ok || e.Code == CodeTooLarge)
}

type decoder struct {
	in     *jsontext.Decoder
	limits Limits
}

func newDecoder(r io.Reader, limits Limits) *decoder {
	def := DefaultLimits()
	if limits.MaxBytes <= 0 {
		limits.MaxBytes = def.MaxBytes
	}
	if limits.MaxDepth <= 0 {
		limits.MaxDepth = def.MaxDepth
	}
	bounded := &boundedReader{r: r, left: limits.MaxBytes, limit: limits.MaxBytes}
	// Both are the defaults; stated because all hangs on them.
	in := jsontext.NewDecoder(bounded, jsontext.AllowDuplicateNames(false), jsontext.AllowInvalidUTF8(false))
	return &decoder{in: in, limits: limits}
}

func (d *decoder) value() (any, error) {
	t, err := d.in.ReadToken()
	if err != nil {
		return nil, err
	}
	switch t.Kind() {
	case 'n':
		return nil, nil
	case 't', 'f':
		return t.Bool(), nil
	case '"':
		return t.String(), nil
	case '0':
		return d.number(t.String())
	case '[', '{':
		if d.in.StackDepth() > d.limits.MaxDepth {
			return nil, d.at(CodeTooDeep, int64(d.limits.MaxDepth))
		}
		if t.Kind() == '[' {
			return d.array()
		}
		return d.object()
	}
	return nil, d.at(CodeSyntax, 0)
}

func (d *decoder) array() (any, error) {
	out := []any{}
	for d.in.PeekKind() != ']' {
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	_, err := d.in.ReadToken()
	return out, err
}

func (d *decoder) object() (any, error) {
	out := map[string]any{}
	for d.in.PeekKind() != '}' {
		name, err := d.in.ReadToken()
		if err != nil {
			return nil, err
		}
		key := name.String() // before the next read makes it invalid
		if out[key], err = d.value(); err != nil {
			return nil, err
		}
	}
	_, err := d.in.ReadToken()
	return out, err
}

// maxNumberBytes bounds a number's text; no double needs more.
const maxNumberBytes = 1100

// maxExact is the last integer up to which doubles hold all.
const maxExact = 1 << 53

func (d *decoder) number(text string) (any, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || len(text) > maxNumberBytes {
		return nil, d.at(CodeNumberRange, 0)
	}
	if !d.limits.AnyInteger && math.Abs(f) >= maxExact && !exactInteger(text) {
		return nil, d.at(CodeNumberRange, 0)
	}
	return json.Number(text), nil
}

// exactInteger tells whether a number of 2^53 or more is 2^53 itself, or was
// written as one that is not meant to be exact.
func exactInteger(text string) bool {
	return strings.ContainsAny(text, ".eE") || strings.TrimPrefix(text, "-") == strconv.Itoa(maxExact)
}

func (d *decoder) at(code DecodeCode, limit int64) *DecodeError {
	return &DecodeError{Code: code, Offset: d.in.InputOffset(), Pointer: string(d.in.StackPointer()), Limit: limit}
}

// fault gives an error of the tokenizer its code. Errors of the reader stay.
func (d *decoder) fault(err error) error {
	if e, ok := errors.AsType[*DecodeError](err); ok {
		return e
	}
	if errors.Is(err, errTooLarge) {
		return &DecodeError{Code: CodeTooLarge, Offset: d.limits.MaxBytes, Limit: d.limits.MaxBytes}
	}
	if errors.Is(err, io.EOF) {
		return &DecodeError{Code: CodeEmpty, Offset: d.in.InputOffset()}
	}
	e, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok {
		return err
	}
	code := CodeSyntax
	switch {
	case errors.Is(e.Err, jsontext.ErrDuplicateName):
		code = CodeDuplicateKey
	case errors.Is(e.Err, io.ErrUnexpectedEOF):
		code = CodeTruncated
	case strings.Contains(e.Err.Error(), "UTF-8"), strings.Contains(e.Err.Error(), "surrogate"):
		code = CodeInvalidUTF8
	case strings.Contains(e.Err.Error(), "depth"):
		return &DecodeError{Code: CodeTooDeep, Offset: e.ByteOffset, Limit: int64(d.limits.MaxDepth)}
	}
	return &DecodeError{Code: code, Offset: e.ByteOffset, Pointer: string(e.JSONPointer)}
}

var errTooLarge = errors.New("input is too large")

// A boundedReader fails, rather than ends, behind its limit.
type boundedReader struct {
	r           io.Reader
	left, limit int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.r.Read(p)
	if int64(n) > b.left {
		return 0, errTooLarge
	}
	b.left -= int64(n)
	return n, err
}
