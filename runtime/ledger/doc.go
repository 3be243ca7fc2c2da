// Package ledger keeps the record of every run: what happened, in order, and
// what is known of each run and call now. It is the only package that knows
// SQLite.
//
// # One writer
//
// Every write is an operation in one queue. One goroutine takes what is there,
// applies it in one transaction on one connection, and answers those who wait:
// group commit. Operations check before they write, so that a refused one
// leaves nothing behind and does not harm its neighbours; if the database
// fails, the whole group is rolled back and all of it is told. Readers use a
// pool of read-only connections and are never in the writer's way.
//
// # What survives what
//
// A request is in the write-ahead log when Request returns: a killed service
// does not lose it, a power cut may. A result, a new run and a changed run are
// synced before their method returns. Notes wait for nobody: they are written
// with the next group, or after a short delay. A call thus costs two commits,
// of which one is synced.
//
// # The chain
//
// The events of a run count from 1 without gaps, and each carries the hash of
// the one before it. [Hash] documents the bytes; [Genesis] is what stands
// before the first. [Ledger.Verify] recomputes all of it, in this process or
// beside a live service from another one.
//
// Secrets never arrive here: the kernel redacts first.
package ledger
