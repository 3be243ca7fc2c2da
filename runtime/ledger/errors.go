package ledger

import (
	"context"
	"errors"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/sandboxd/sandboxd/runtime"
)

// A refusal is an operation's own answer: it wrote nothing, and the rest of
// its group goes on. Any other error of an operation is the database's.
type refusal struct{ problem *runtime.Problem }

func (r *refusal) Error() string { return r.problem.Error() }
func (r *refusal) Unwrap() error { return r.problem }

func refuse(code runtime.ProblemCode, format string, args ...any) error {
	return &refusal{runtime.Problemf(code, format, args...)}
}

// problemOf turns what the database said into what the service tells. A
// problem passes as it is.
func problemOf(err error) error {
	if err == nil {
		return nil
	}
	if p, ok := errors.AsType[*runtime.Problem](err); ok {
		return p
	}
	p := &runtime.Problem{
		Code:              runtime.ProblemUnavailable,
		Detail:            "The ledger cannot be used at the moment. Nothing was recorded; try again later.",
		RetryAfterSeconds: 5,
		Cause:             err,
	}
	switch {
	case primary(err) == sqlite3.SQLITE_FULL:
		p.Code = runtime.ProblemStorageFull
		p.Detail = "The ledger's disk is full. Nothing was recorded; free space and try again."
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		p.Detail = "The request ended before the ledger answered."
	}
	return p
}

func closedProblem() error {
	return runtime.Problemf(runtime.ProblemUnavailable, "The ledger is closed.")
}

// primary is SQLite's primary result code of err, or 0.
func primary(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// ownFault tells whether a database error was caused by what one operation
// asked for, so that its neighbours may succeed without it.
func ownFault(err error) bool {
	switch primary(err) {
	case sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH:
		return true
	}
	return false
}
