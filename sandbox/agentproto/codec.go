package agentproto

import (
	"sync"

	"github.com/fxamacker/cbor/v2"
)

// codec holds the CBOR modes of both ends: RFC 8949 without tags, without
// indefinite lengths, without duplicate or unknown keys, and with small
// nesting.
type codec struct {
	enc cbor.EncMode
	dec cbor.DecMode
}

// maxElements bounds one array: it may cost some hundred bytes an element.
const maxElements = 64 << 10

var modes = sync.OnceValue(func() codec {
	enc, err := cbor.EncOptions{
		IndefLength: cbor.IndefLengthForbidden,
		TagsMd:      cbor.TagsForbidden,
	}.EncMode()
	if err != nil {
		panic(err) // constant options
	}
	dec, err := cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		IndefLength:       cbor.IndefLengthForbidden,
		TagsMd:            cbor.TagsForbidden,
		MaxNestedLevels:   8,
		MaxArrayElements:  maxElements,
		MaxMapPairs:       64,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		UTF8:              cbor.UTF8RejectInvalid,
	}.DecMode()
	if err != nil {
		panic(err) // constant options
	}
	return codec{enc: enc, dec: dec}
})

// Encode returns v as CBOR.
func Encode(v any) ([]byte, error) { return modes().enc.Marshal(v) }

// Decode reads exactly one CBOR value into v. The error is a *ProtocolError.
func Decode(data []byte, v any) error {
	if err := modes().dec.Unmarshal(data, v); err != nil {
		return broken("message: %v", err)
	}
	return nil
}
