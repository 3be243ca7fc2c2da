package ledger

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/sandboxd/sandboxd/runtime"
)

// Report is what Verify found. The ledger is whole when Faults is empty.
type Report struct {
	Runs   int64   `json:"runs"`
	Calls  int64   `json:"calls"`
	Events int64   `json:"events"`
	Faults []Fault `json:"faults"`
	// Truncated says that there were more faults than the report holds.
	Truncated bool `json:"truncated"`
}

// OK tells whether nothing is wrong.
func (r Report) OK() bool { return len(r.Faults) == 0 }

// A Fault is one thing that is wrong with a run's record.
type Fault struct {
	Kind  FaultKind `json:"kind"`
	RunID string    `json:"runId"`
	// Seq is the event concerned, or 0.
	Seq    int64  `json:"seq,omitempty"`
	Detail string `json:"detail"`
}

func (f Fault) String() string {
	return fmt.Sprintf("%s: run %s: %s", f.Kind, f.RunID, f.Detail)
}

// FaultKind is a closed list.
type FaultKind string

// The kinds of fault: an event's content does not have its hash; an event does
// not follow on the one before it; events are missing between two others; the
// chain ends before or after its recorded head; a call and its events do not
// agree; a run's rows do not agree.
const (
	FaultChanged FaultKind = "changed"
	FaultLink    FaultKind = "link"
	FaultMissing FaultKind = "missing"
	FaultTail    FaultKind = "tail"
	FaultCall    FaultKind = "call"
	FaultRun     FaultKind = "run"
)

// maxFaults bounds a report.
const maxFaults = 1000

func (r *Report) add(kind FaultKind, runID string, seq int64, format string, args ...any) {
	if len(r.Faults) >= maxFaults {
		r.Truncated = true
		return
	}
	r.Faults = append(r.Faults, Fault{Kind: kind, RunID: runID, Seq: seq, Detail: fmt.Sprintf(format, args...)})
}

// Verify recomputes every chain and compares it with the runs and calls. Each
// run is read in one snapshot, so that it may run beside a live service, also
// from another process with Config.ReadOnly. It finds changed, moved, added
// and removed events; a tail that was cut is found as long as the run's head
// or one of its calls still tells of it. The error says that the ledger could
// not be read to its end.
func (l *Ledger) Verify(ctx context.Context) (Report, error) {
	report := Report{Faults: []Fault{}}
	after := ""
	for {
		runID, err := l.nextRun(ctx, after)
		if err != nil {
			return report, problemOf(err)
		}
		if runID == nil {
			return report, nil
		}
		if err := l.verifyRun(ctx, *runID, &report); err != nil {
			return report, problemOf(err)
		}
		after = *runID
	}
}

// VerifyFile verifies the ledger at path, read-only: another process may be
// writing it.
func VerifyFile(ctx context.Context, path string) (Report, error) {
	l, err := Open(ctx, Config{Path: path, ReadOnly: true})
	if err != nil {
		return Report{}, err
	}
	report, err := l.Verify(ctx)
	return report, errors.Join(err, l.Close())
}

// nextRun is the next run id, in whichever table it still stands.
func (l *Ledger) nextRun(ctx context.Context, after string) (*string, error) {
	var id *string
	err := l.readers.QueryRowContext(ctx, `SELECT min(id) FROM (
		SELECT min(run_id) AS id FROM runs WHERE run_id > ?1
		UNION ALL SELECT min(run_id) FROM run_heads WHERE run_id > ?1
		UNION ALL SELECT min(run_id) FROM events WHERE run_id > ?1)`, after).Scan(&id)
	return id, err
}

func (l *Ledger) verifyRun(ctx context.Context, runID string, report *Report) error {
	tx, err := l.readers.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // it only read
	v := &runVerifier{ctx: ctx, tx: tx, runID: runID, report: report, prev: genesis(runID)}
	report.Runs++
	if err := v.events(); err != nil {
		return err
	}
	if err := v.head(); err != nil {
		return err
	}
	return v.calls()
}

// runVerifier walks one run. prev and seq are what the next event has to
// follow on.
type runVerifier struct {
	ctx    context.Context
	tx     *sql.Tx
	runID  string
	report *Report
	prev   []byte
	seq    int64
}

func (v *runVerifier) fault(kind FaultKind, seq int64, format string, args ...any) {
	v.report.add(kind, v.runID, seq, format, args...)
}

func (v *runVerifier) events() error {
	rows, err := v.tx.QueryContext(v.ctx, `SELECT seq, kind, time_ns, call_id, trace, data, prev_hash, hash
		FROM events WHERE run_id = ? ORDER BY seq`, v.runID)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err below tells what went wrong
	for rows.Next() {
		e := link{runID: v.runID}
		var stored []byte
		if err := rows.Scan(&e.seq, &e.kind, &e.timeNs, &e.callID, &e.trace, &e.data, &e.prev, &stored); err != nil {
			return err
		}
		v.event(e, stored)
	}
	return rows.Err()
}

// event checks one event and goes on from what is stored, so that one fault is
// told once and not again for all that follow.
func (v *runVerifier) event(e link, stored []byte) {
	v.report.Events++
	switch {
	case e.seq != v.seq+1:
		v.fault(FaultMissing, e.seq, "after event %d comes event %d", v.seq, e.seq)
	case !bytes.Equal(e.prev, v.prev):
		v.fault(FaultLink, e.seq, "event %d does not follow on the one before it", e.seq)
	}
	if !bytes.Equal(e.sum(), stored) {
		v.fault(FaultChanged, e.seq, "event %d (%s) is not what was recorded", e.seq, e.kind)
	}
	v.seq, v.prev = e.seq, stored
}

// head compares the end of the chain with what the run's head says.
func (v *runVerifier) head() error {
	var runs int64
	if err := v.tx.QueryRowContext(v.ctx, `SELECT count(*) FROM runs WHERE run_id = ?`, v.runID).Scan(&runs); err != nil {
		return err
	}
	if runs == 0 {
		v.fault(FaultRun, 0, "the run's own row is missing")
	}
	var seq int64
	var hash []byte
	err := v.tx.QueryRowContext(v.ctx, `SELECT seq, hash FROM run_heads WHERE run_id = ?`, v.runID).Scan(&seq, &hash)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		v.fault(FaultRun, 0, "the run's head is missing")
		return nil
	case err != nil:
		return err
	case seq != v.seq:
		v.fault(FaultTail, v.seq, "the chain ends with event %d and was recorded up to event %d", v.seq, seq)
	case !bytes.Equal(hash, v.prev):
		v.fault(FaultTail, v.seq, "the last event is not the one that was recorded last")
	}
	return nil
}

// callChecks compare calls with events; each query yields what disagrees.
var callChecks = [...]struct{ query, what string }{
	{`SELECT c.call_id, c.request_seq FROM calls c LEFT JOIN events e
		ON e.run_id = c.run_id AND e.seq = c.request_seq AND e.call_id = c.call_id AND e.kind = ?2
		WHERE c.run_id = ?1 AND e.id IS NULL AND ?3 <> ''`,
		"its request is not in the chain"},
	{`SELECT c.call_id, coalesce(c.result_seq, 0) FROM calls c LEFT JOIN events e
		ON e.run_id = c.run_id AND e.seq = c.result_seq AND e.call_id = c.call_id AND e.kind = ?3
		WHERE c.run_id = ?1 AND c.state = 'DONE' AND (e.id IS NULL OR e.data IS NOT c.result) AND ?2 <> ''`,
		"its result is not the one in the chain"},
	{`SELECT e.call_id, e.seq FROM events e LEFT JOIN calls c
		ON c.call_id = e.call_id AND c.run_id = e.run_id AND c.request_seq = e.seq
		WHERE e.run_id = ?1 AND e.kind = ?2 AND c.id IS NULL AND ?3 <> ''`,
		"the chain has a request that no call tells of"},
	{`SELECT e.call_id, e.seq FROM events e LEFT JOIN calls c
		ON c.call_id = e.call_id AND c.run_id = e.run_id AND c.result_seq = e.seq
		WHERE e.run_id = ?1 AND e.kind = ?3 AND c.id IS NULL AND ?2 <> ''`,
		"the chain has a result that no call tells of"},
}

func (v *runVerifier) calls() error {
	var calls int64
	if err := v.tx.QueryRowContext(v.ctx, `SELECT count(*) FROM calls WHERE run_id = ?`, v.runID).Scan(&calls); err != nil {
		return err
	}
	v.report.Calls += calls
	for _, check := range callChecks {
		rows, err := v.tx.QueryContext(v.ctx, check.query, v.runID,
			string(runtime.CallRequested), string(runtime.CallResulted))
		if err != nil {
			return err
		}
		err = v.callFaults(rows, check.what)
		if err != nil {
			return err
		}
	}
	return nil
}

func (v *runVerifier) callFaults(rows *sql.Rows, what string) error {
	defer func() { _ = rows.Close() }() // Err below tells what went wrong
	for rows.Next() {
		var callID string
		var seq int64
		if err := rows.Scan(&callID, &seq); err != nil {
			return err
		}
		v.fault(FaultCall, seq, "call %s: %s", callID, what)
	}
	return rows.Err()
}
