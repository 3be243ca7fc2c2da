package text

import (
	"bytes"
	"sort"
	"strings"
)

// Replaced tells what Replace did or found.
type Replaced struct {
	Data []byte
	// Lines are the lines of the old file at which the text begins: those that
	// were replaced, or all of them where there were several and one was meant.
	Lines []int
	// Unencodable is set where the new text holds characters that the file's
	// encoding has not.
	Unencodable bool
}

// Replace puts new in place of old, which must be in src exactly once unless
// all is set; Data is nil where that does not hold. Bytes outside the places
// are kept. LF in old stands for CRLF too if it is not there as it is; LF in
// new becomes the ending of the lines it is put among.
func Replace(src []byte, old, replacement string, all bool) Replaced {
	e := Detect(src)
	if e.IsUTF16() {
		decoded, ok := DecodeUTF16(src, e)
		if !ok {
			return Replaced{}
		}
		r := replaceBytes(decoded, []byte(old), []byte(replacement), all)
		if r.Data != nil {
			r.Data = EncodeUTF16(r.Data, e)
		}
		return r
	}
	mark := 0
	if bytes.HasPrefix(src, []byte(BOM)) && !strings.HasPrefix(old, BOM) {
		mark = len(BOM)
	}
	r := replaceEncoded(src[mark:], e, old, replacement, all)
	if r.Data != nil && mark > 0 {
		r.Data = append([]byte(BOM), r.Data...)
	}
	return r
}

// replaceEncoded looks for the text as UTF-8 and, in a file that is not, as
// the bytes that View shows so.
func replaceEncoded(src []byte, e Encoding, old, replacement string, all bool) Replaced {
	var r Replaced
	if e != Latin1 {
		r = replaceBytes(src, []byte(old), []byte(replacement), all)
	}
	if e != Latin1 && e != Unknown8Bit || len(r.Lines) > 0 {
		return r
	}
	rawOld, ok := ToLatin1([]byte(old))
	if !ok {
		return Replaced{}
	}
	rawNew, ok := ToLatin1([]byte(replacement))
	if !ok {
		return Replaced{Unencodable: true}
	}
	return replaceBytes(src, rawOld, rawNew, all)
}

// span is a place in the source.
type span struct{ from, to int }

func replaceBytes(src, old, replacement []byte, all bool) Replaced {
	spans := find(src, old, all)
	asIs := len(spans) > 0
	if !asIs {
		spans = findAcrossEndings(src, old, all)
	}
	r := Replaced{}
	for _, s := range spans {
		r.Lines = append(r.Lines, 1+bytes.Count(src[:s.from], []byte(LF)))
	}
	if len(spans) == 0 || len(spans) > 1 && !all {
		return r
	}
	dominant := Dominant(Split(src))
	at := 0
	for _, s := range spans {
		r.Data = append(r.Data, src[at:s.from]...)
		r.Data = append(r.Data, withEnding(replacement, endingAt(src, s, dominant), asIs)...)
		at = s.to
	}
	r.Data = append(r.Data, src[at:]...)
	if r.Data == nil {
		r.Data = []byte{}
	}
	return r
}

// maxSpans bounds the places that are named where one was meant.
const maxSpans = 20

// find returns the places of old: for a replacement of all those that do not
// overlap, else also those that do, which make a single one ambiguous.
func find(src, old []byte, all bool) []span {
	var spans []span
	for at := 0; len(old) > 0 && (all || len(spans) < maxSpans); {
		i := bytes.Index(src[at:], old)
		if i < 0 {
			break
		}
		spans = append(spans, span{at + i, at + i + len(old)})
		at += i + 1
		if all {
			at = spans[len(spans)-1].to
		}
	}
	return spans
}

// findAcrossEndings is find with CRLF and LF taken for the same.
func findAcrossEndings(src, old []byte, all bool) []span {
	if !bytes.Contains(old, []byte(LF)) {
		return nil
	}
	var removed []int // where in the plain text a CR was taken out before
	plain := make([]byte, 0, len(src))
	for i, c := range src {
		if c == '\r' && i+1 < len(src) && src[i+1] == '\n' {
			removed = append(removed, len(plain))
			continue
		}
		plain = append(plain, c)
	}
	spans := find(plain, bytes.ReplaceAll(old, []byte(CRLF), []byte(LF)), all)
	for i, s := range spans {
		// A CR that was taken out at the very place belongs to the span if the
		// span begins there, and to what follows if it ends there.
		spans[i].from = s.from + sort.SearchInts(removed, s.from)
		spans[i].to = s.to + sort.SearchInts(removed, s.to)
	}
	return spans
}

// endingAt is the ending that lines have at a place: within it, else of the
// line it is in, else before it.
func endingAt(src []byte, s span, dominant string) string {
	if end := firstEnding(src[s.from:s.to]); end != None {
		return end
	}
	if end := firstEnding(src[s.from:]); end != None {
		return end
	}
	if at := bytes.LastIndexByte(src[:s.from], '\n'); at >= 0 {
		return firstEnding(src[max(0, at-1) : at+1])
	}
	return dominant
}

func firstEnding(b []byte) string {
	at := bytes.IndexByte(b, '\n')
	switch {
	case at < 0:
		return None
	case at > 0 && b[at-1] == '\r':
		return CRLF
	}
	return LF
}

// withEnding writes LF as the given ending. CRs that the caller wrote stay only
// where the old text was found as the caller wrote it.
func withEnding(b []byte, end string, asIs bool) []byte {
	plain := bytes.ReplaceAll(b, []byte(CRLF), []byte(LF))
	switch {
	case end == CRLF:
		return bytes.ReplaceAll(plain, []byte(LF), []byte(CRLF))
	case asIs:
		return b
	}
	return plain
}
