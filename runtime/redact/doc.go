// Package redact takes secrets out of a stream of bytes: the run's own secret
// values in every form that programs print them in, paths of the host, and
// tokens and keys of well-known formats.
//
// A [Redactor] is built once for a run and may be used by many goroutines; it
// works on whole texts ([Redactor.Bytes], [Redactor.String], [Redactor.JSON])
// and on streams ([Redactor.Writer]). The outcome does not depend on how a
// stream is cut into writes, and text without secrets comes out byte for byte
// as it went in.
//
// The road of a byte: two automata over all literals look at it, one exact
// (values, keywords of formats, host paths) and one that passes over line ends
// (base64 and hex are wrapped by the tools that print them). A literal of a
// value is a region at once. A keyword starts a candidate, which its format's
// matcher (formats.go) accepts, refuses, or puts off until more bytes have
// come. Overlapping regions are merged and replaced by one mark,
// "[REDACTED:kind]". Bytes are let go as soon as no region can start before
// them, so memory is bounded by the longest literal or lookahead, and an
// interactive stream is not held back for longer than it must.
//
// What this cannot see: values that a program reversed, encrypted, compressed,
// split over lines by hand or spelled out; hex dumps with spaces. Values of
// fewer than [MinValueBytes] bytes are left alone, since they would be found
// everywhere: [Redactor.TooShort] names them.
package redact
