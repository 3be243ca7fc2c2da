// Package artifact keeps what is too large for a result: a store on disk, and
// the head and tail of a stream for the result itself.
//
// An artifact is written once, as a stream, in bounded memory. It has two
// views: the raw bytes, kept for audit under a permission of their own, and
// the redacted bytes that everyone else gets. As long as redaction changes
// nothing only one file is written; the second view is then a link to it. A
// view whose file is missing is an error, never the other view.
//
//	DIR/<run id>/<artifact id>.raw
//	DIR/<run id>/<artifact id>.redacted
//	DIR/<run id>/<artifact id>.*.part      not committed: removed by Open
//
// The store has no index: what an artifact is called, its type, its size and
// its digest are in the [Info] that Commit returns, which the ledger records.
// Commit syncs the data and then the directory, so an artifact that the ledger
// speaks of is on disk; one that was committed and never recorded goes with its
// run ([Store.DeleteRun]).
package artifact
