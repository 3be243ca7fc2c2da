package ledger

import (
	"context"
	"database/sql"
)

// statements are the writer's prepared statements on its connection. They are
// closed with it.
type statements struct {
	beginTx, commitTx, rollbackTx *sql.Stmt

	head, newHead, saveHead, insertEvent *sql.Stmt

	insertRun, updateRun, dropLabels, insertLabel *sql.Stmt

	insertCall, boundCall, updateCall, finishCall, callState, insertArtifact *sql.Stmt
}

func prepareStatements(ctx context.Context, conn *sql.Conn) (*statements, error) {
	s := &statements{}
	for _, p := range []struct {
		stmt **sql.Stmt
		text string
	}{
		{&s.beginTx, `BEGIN IMMEDIATE`},
		{&s.commitTx, `COMMIT`},
		{&s.rollbackTx, `ROLLBACK`},
		{&s.head, `SELECT seq, hash, calls, failed_calls, output_bytes, cpu_ms, wall_ms
			FROM run_heads WHERE run_id = ?`},
		{&s.newHead, `INSERT INTO run_heads
			(run_id, seq, hash, calls, failed_calls, output_bytes, cpu_ms, wall_ms)
			VALUES (?, 0, ?, 0, 0, 0, 0, 0)`},
		{&s.saveHead, `UPDATE run_heads SET seq = ?, hash = ?, calls = ?, failed_calls = ?,
			output_bytes = ?, cpu_ms = ?, wall_ms = ? WHERE run_id = ?`},
		{&s.insertEvent, `INSERT INTO events
			(run_id, seq, kind, time_ns, call_id, trace, data, prev_hash, hash)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`},
		{&s.insertRun, `INSERT OR IGNORE INTO runs (run_id, tenant, state, status, open, doc)
			VALUES (?, ?, ?, ?, ?, ?)`},
		{&s.updateRun, `UPDATE runs SET tenant = ?, state = ?, status = ?, open = ?, doc = ?
			WHERE run_id = ?`},
		{&s.dropLabels, `DELETE FROM run_labels WHERE run_id = ?`},
		{&s.insertLabel, `INSERT INTO run_labels (key, value, run_id) VALUES (?, ?, ?)`},
		// OR IGNORE: a taken id or a bound key inserts nothing; the caller then
		// looks which of the two it was, and only then.
		{&s.insertCall, `INSERT OR IGNORE INTO calls
			(call_id, run_id, step_id, parent_call_id, tool_name, tool_version, arguments,
			 effective_arguments, arguments_hash, idempotency_key, requested_ns, requested_by,
			 trace, state, started, bound, decision, result, request_seq, result_seq)
			VALUES (?, ?, ?, ?, ?, ?, ?, NULL, ?, ?, ?, ?, ?, ?, 0, ?, NULL, NULL, ?, NULL)`},
		{&s.boundCall, `SELECT ` + callColumns + ` FROM calls
			WHERE run_id = ? AND tool_name = ? AND idempotency_key = ? AND bound = 1`},
		{&s.updateCall, `UPDATE calls SET
			state = coalesce(?, state), tool_version = coalesce(?, tool_version),
			effective_arguments = coalesce(?, effective_arguments),
			decision = coalesce(?, decision), started = max(started, ?)
			WHERE call_id = ? AND state <> 'DONE'`},
		{&s.finishCall, `UPDATE calls SET state = 'DONE', tool_version = ?,
			effective_arguments = coalesce(?, effective_arguments),
			decision = coalesce(?, decision), result = ?, result_seq = ?,
			bound = bound AND (started OR ?), started = started OR ?
			WHERE call_id = ? AND run_id = ? AND state <> 'DONE'`},
		{&s.callState, `SELECT state FROM calls WHERE call_id = ? AND run_id = ?`},
		{&s.insertArtifact, `INSERT INTO artifacts
			(artifact_id, run_id, call_id, type, name, bytes, sha256, description, created_ns)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`},
	} {
		stmt, err := conn.PrepareContext(ctx, p.text) //nolint:sqlclosecheck // it is closed with its connection
		if err != nil {
			return nil, err
		}
		*p.stmt = stmt
	}
	return s, nil
}

func (s *statements) begin(ctx context.Context) error {
	_, err := s.beginTx.ExecContext(ctx)
	return err
}

func (s *statements) commit(ctx context.Context) error {
	_, err := s.commitTx.ExecContext(ctx)
	return err
}

func (s *statements) rollback(ctx context.Context) error {
	_, err := s.rollbackTx.ExecContext(ctx)
	return err
}

// changed executes and tells whether a row was written.
func changed(ctx context.Context, stmt *sql.Stmt, args ...any) (bool, error) {
	res, err := stmt.ExecContext(ctx, args...)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}
