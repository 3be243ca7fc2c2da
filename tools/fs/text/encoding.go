package text

import (
	"bytes"
	"encoding/binary"
	"unicode/utf16"
	"unicode/utf8"
)

// Encoding names how characters are stored. Closed, append only.
type Encoding string

// The encodings. Unknown8Bit is a file that holds valid UTF-8 beside bytes
// that are not; Binary is one that holds a NUL.
const (
	UTF8        Encoding = "utf-8"
	UTF8BOM     Encoding = "utf-8-bom"
	UTF16LE     Encoding = "utf-16le"
	UTF16BE     Encoding = "utf-16be"
	Latin1      Encoding = "latin-1"
	Unknown8Bit Encoding = "unknown-8bit"
	Binary      Encoding = "binary"
)

// BOM is the UTF-8 byte order mark.
const BOM = "\xef\xbb\xbf"

// Encodings lists every encoding, for schemas and tests.
func Encodings() []Encoding {
	return []Encoding{UTF8, UTF8BOM, UTF16LE, UTF16BE, Latin1, Unknown8Bit, Binary}
}

// ByMark tells the encoding from a byte order mark, or "" without one.
// UTF-32's little-endian mark begins like UTF-16's and is not text to us.
func ByMark(head []byte) Encoding {
	switch {
	case bytes.HasPrefix(head, []byte("\xff\xfe\x00\x00")), bytes.HasPrefix(head, []byte("\x00\x00\xfe\xff")):
		return Binary
	case bytes.HasPrefix(head, []byte("\xff\xfe")):
		return UTF16LE
	case bytes.HasPrefix(head, []byte("\xfe\xff")):
		return UTF16BE
	case bytes.HasPrefix(head, []byte(BOM)):
		return UTF8BOM
	}
	return ""
}

// Detect tells the encoding of a whole file.
func Detect(data []byte) Encoding {
	s := NewScanner()
	s.Write(data)
	return s.Encoding()
}

// IsUTF16 is true for both byte orders.
func (e Encoding) IsUTF16() bool { return e == UTF16LE || e == UTF16BE }

func (e Encoding) order() interface {
	binary.ByteOrder
	binary.AppendByteOrder
} {
	if e == UTF16BE {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// DecodeUTF16 returns the text after the mark as UTF-8. ok is false where
// EncodeUTF16 would not give data again: an odd length, a lone surrogate, a
// NUL or no mark.
func DecodeUTF16(data []byte, e Encoding) (decoded []byte, ok bool) {
	if len(data)%2 != 0 || ByMark(data) != e {
		return nil, false
	}
	units := make([]uint16, 0, len(data)/2-1)
	for at := 2; at < len(data); at += 2 {
		units = append(units, e.order().Uint16(data[at:]))
	}
	for _, r := range utf16.Decode(units) {
		decoded = utf8.AppendRune(decoded, r)
	}
	if bytes.IndexByte(decoded, 0) >= 0 || !bytes.Equal(EncodeUTF16(decoded, e), data) {
		return nil, false
	}
	return decoded, true
}

// EncodeUTF16 returns UTF-8 text as UTF-16 with its mark.
func EncodeUTF16(decoded []byte, e Encoding) []byte {
	out := e.order().AppendUint16(make([]byte, 0, 2*len(decoded)+2), 0xfeff)
	for len(decoded) > 0 {
		r, size := utf8.DecodeRune(decoded)
		decoded = decoded[size:]
		if hi, lo := utf16.EncodeRune(r); hi != utf8.RuneError {
			out = e.order().AppendUint16(e.order().AppendUint16(out, uint16(hi)), uint16(lo))
			continue
		}
		out = e.order().AppendUint16(out, uint16(r))
	}
	return out
}

// View shows the bytes of one line as UTF-8: as they are where they are valid,
// else every byte as the character of that number (ISO 8859-1).
func View(line []byte) []byte {
	if utf8.Valid(line) {
		return line
	}
	out := make([]byte, 0, len(line)+len(line)/4)
	for _, b := range line {
		out = utf8.AppendRune(out, rune(b))
	}
	return out
}

// ViewLines is View for every line of a text.
func ViewLines(data []byte) []byte {
	out := make([]byte, 0, len(data)+len(data)/4)
	for len(data) > 0 {
		end := bytes.IndexByte(data, '\n') + 1
		if end == 0 {
			end = len(data)
		}
		out = append(out, View(data[:end])...)
		data = data[end:]
	}
	return out
}

// ToLatin1 is the way back from View for a line that was not valid UTF-8. ok
// is false where a character has no byte.
func ToLatin1(view []byte) (raw []byte, ok bool) {
	raw = make([]byte, 0, len(view))
	for _, r := range string(view) {
		if r > 0xff {
			return nil, false
		}
		raw = append(raw, byte(r))
	}
	return raw, true
}
