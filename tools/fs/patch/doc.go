// Package patch reads unified diffs, as git and diff write them and as models
// nearly write them, and applies them to bytes.
//
// [Parse] turns a patch into [File] sections; [File.Apply] turns the bytes of
// one file into new bytes, or says why not. The package touches no file: what
// is read and written, and that all files change or none, is its caller's.
//
// # What is forgiven
//
// Wrong counts in a hunk's header (the body is counted), wrong line numbers
// (when the old lines are in the file exactly once), a lost space on an empty
// context line, a missing final newline of the patch, a Markdown fence around
// it, missing a/ and b/ prefixes, line endings of the patch that are not the
// file's. Each is noted in the result.
//
// # What is not
//
// There is no similarity matching: a hunk applies where all of its old lines
// are, or nowhere. A hunk that fits in several places, and not at the line that
// its header states, is refused, and so are hunks that overlap or are out of
// order. A refusal names the nearest place and the first line that differs.
//
// # Bytes outside the change
//
// They are kept: endings line by line, a byte order mark, a missing final
// newline, bytes that are not UTF-8, UTF-16. An inserted line takes the ending
// of the line that it replaces or follows, unless the patch itself states
// endings (its lines carry CRs) and states them as the file has them.
package patch
