package ledger

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/runtime"
)

// The sizes of a page: what 0 means, and the most that is given.
const (
	defaultPage = 100
	maxPage     = 1000
)

// Call implements runtime.CallJournal.
func (l *Ledger) Call(ctx context.Context, runID, callID string) (runtime.Call, error) {
	row := l.readers.QueryRowContext(ctx,
		`SELECT `+callColumns+` FROM calls WHERE call_id = ? AND run_id = ?`, callID, runID)
	call, err := scanCall(row)
	return call, found(err, "There is no call %q in run %q.", callID, runID)
}

// Bound implements runtime.CallJournal.
func (l *Ledger) Bound(ctx context.Context, runID, toolName, key string) (runtime.Call, error) {
	row := l.readers.QueryRowContext(ctx,
		`SELECT `+callColumns+` FROM calls WHERE run_id = ? AND tool_name = ? AND idempotency_key = ? AND bound = 1`,
		runID, toolName, key)
	call, err := scanCall(row)
	return call, found(err, "No call of run %q has bound that key.", runID)
}

// Run implements runtime.RunJournal.
func (l *Ledger) Run(ctx context.Context, runID string) (runtime.Run, error) {
	row := l.readers.QueryRowContext(ctx, `SELECT `+runColumns+`
		FROM runs r JOIN run_heads h USING (run_id) WHERE r.run_id = ?`, runID)
	run, err := scanRun(row)
	return run, found(err, "There is no run %q.", runID)
}

// found makes the answer to a look-up of one row.
func found(err error, format string, args ...any) error {
	if errors.Is(err, sql.ErrNoRows) {
		return runtime.Problemf(runtime.ProblemNotFound, format, args...)
	}
	return problemOf(err)
}

// OpenRuns implements runtime.RunJournal: every run whose status is neither
// ended nor failed, in the order of their creation.
func (l *Ledger) OpenRuns(ctx context.Context) ([]runtime.Run, error) {
	return rowsOf(ctx, l.readers, func(r scanner) (runtime.Run, error) { return scanRun(r) },
		`SELECT `+runColumns+` FROM runs r JOIN run_heads h USING (run_id)
		WHERE r.open = 1 ORDER BY r.id`)
}

// OpenCalls implements runtime.RunJournal, in the order of the requests.
func (l *Ledger) OpenCalls(ctx context.Context) ([]runtime.Call, error) {
	return rowsOf(ctx, l.readers, func(r scanner) (runtime.Call, error) { return scanCall(r) },
		`SELECT `+callColumns+` FROM calls WHERE state <> 'DONE' ORDER BY id`)
}

// Events returns events of a run with seq greater than after, in order: at
// most limit (0 is 100, at most 1,000). A run without events has none, whether
// it exists or not.
func (l *Ledger) Events(ctx context.Context, runID string, after int64, limit int) ([]runtime.Event, error) {
	limit, err := pageSize(limit)
	if err != nil {
		return nil, err
	}
	return rowsOf(ctx, l.readers, scanEvent, eventsQuery, runID, after, limit)
}

const eventsQuery = `SELECT run_id, seq, kind, time_ns, call_id, trace, data, prev_hash, hash
	FROM events WHERE run_id = ? AND seq > ? ORDER BY seq LIMIT ?`

func scanEvent(row scanner) (runtime.Event, error) {
	var e runtime.Event
	var ns int64
	var data, prev, hash []byte
	err := row.Scan(&e.RunID, &e.Seq, &e.Kind, &ns, &e.ToolCallID, &e.Trace, &data, &prev, &hash)
	e.Time, e.Data = time.Unix(0, ns).UTC(), data
	e.PrevHash, e.Hash = hex.EncodeToString(prev), hex.EncodeToString(hash)
	return e, err
}

// Calls returns a page of a run's calls in the order of their requests, and
// the cursor of the next page, or "".
func (l *Ledger) Calls(ctx context.Context, runID string, page runtime.Page) ([]runtime.Call, string, error) {
	p, err := openPage(page, 0)
	if err != nil {
		return nil, "", err
	}
	calls, err := rowsOf(ctx, l.readers, p.wrapCall, callsQuery, runID, p.from, p.limit+1)
	return cut(p, calls, err)
}

const callsQuery = `SELECT ` + callColumns + `, id FROM calls WHERE run_id = ? AND id > ? ORDER BY id LIMIT ?`

// Artifacts returns a page of a run's artifacts in the order of the results
// that brought them, and the cursor of the next page, or "".
func (l *Ledger) Artifacts(ctx context.Context, runID string, page runtime.Page) ([]runtime.ArtifactRef, string, error) {
	p, err := openPage(page, 0)
	if err != nil {
		return nil, "", err
	}
	refs, err := rowsOf(ctx, l.readers, p.wrapArtifact, artifactsQuery, runID, p.from, p.limit+1)
	return cut(p, refs, err)
}

const artifactColumns = `artifact_id, run_id, call_id, type, name, bytes, sha256, description, created_ns`

const artifactsQuery = `SELECT ` + artifactColumns + `, id FROM artifacts WHERE run_id = ? AND id > ? ORDER BY id LIMIT ?`

// Artifact returns what is known of an artifact, or a *runtime.Problem with
// ProblemNotFound.
func (l *Ledger) Artifact(ctx context.Context, artifactID string) (runtime.ArtifactRef, error) {
	row := l.readers.QueryRowContext(ctx,
		`SELECT `+artifactColumns+` FROM artifacts WHERE artifact_id = ?`, artifactID)
	a, err := scanArtifact(row)
	return a, found(err, "There is no artifact %q.", artifactID)
}

func scanArtifact(row scanner, more ...any) (runtime.ArtifactRef, error) {
	var a runtime.ArtifactRef
	var ns int64
	err := row.Scan(append([]any{
		&a.ID, &a.RunID, &a.ToolCallID, &a.Type, &a.Name, &a.Bytes, &a.SHA256, &a.Description, &ns,
	}, more...)...)
	a.CreatedAt = time.Unix(0, ns).UTC()
	return a, err
}

// Runs returns a page of the runs that the filter selects, newest first, and
// the cursor of the next page, or "".
func (l *Ledger) Runs(ctx context.Context, filter runtime.RunFilter, page runtime.Page) ([]runtime.Run, string, error) {
	p, err := openPage(page, 1<<62)
	if err != nil {
		return nil, "", err
	}
	query, args := runsQuery(filter, p)
	runs, err := rowsOf(ctx, l.readers, p.wrapRun, query, args...)
	return cut(p, runs, err)
}

func runsQuery(f runtime.RunFilter, p *openedPage) (string, []any) {
	var q strings.Builder
	q.WriteString(`SELECT ` + runColumns + `, r.id FROM runs r JOIN run_heads h USING (run_id) WHERE r.id < ?`)
	args := []any{p.from}
	for _, c := range []struct{ column, value string }{
		{"r.tenant", f.Tenant}, {"r.state", string(f.State)}, {"r.status", string(f.Status)},
	} {
		if c.value != "" {
			q.WriteString(` AND ` + c.column + ` = ?`)
			args = append(args, c.value)
		}
	}
	for key, value := range f.Labels {
		q.WriteString(` AND r.run_id IN (SELECT run_id FROM run_labels WHERE key = ? AND value = ?)`)
		args = append(args, key, value)
	}
	q.WriteString(` ORDER BY r.id DESC LIMIT ?`)
	return q.String(), append(args, p.limit+1)
}

// openedPage is a page being filled. One row more than asked for is read, to
// know whether there is a next page; ids holds the rows' keys.
type openedPage struct {
	limit int
	from  int64
	ids   []int64
}

func openPage(page runtime.Page, start int64) (*openedPage, error) {
	limit, err := pageSize(page.Limit)
	if err != nil {
		return nil, err
	}
	p := &openedPage{limit: limit, from: start}
	if page.Cursor == "" {
		return p, nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(page.Cursor)
	if err == nil {
		p.from, err = strconv.ParseInt(string(raw), 10, 64)
	}
	if err != nil {
		return nil, runtime.Problemf(runtime.ProblemBadRequest,
			"The cursor is not one that this service gave. Start again without a cursor.")
	}
	return p, nil
}

func pageSize(limit int) (int, error) {
	switch {
	case limit < 0 || limit > maxPage:
		return 0, runtime.Problemf(runtime.ProblemBadRequest, "The limit is %d; it may be 1 to %d.", limit, maxPage)
	case limit == 0:
		return defaultPage, nil
	}
	return limit, nil
}

func (p *openedPage) id() *int64 {
	p.ids = append(p.ids, 0)
	return &p.ids[len(p.ids)-1]
}

func (p *openedPage) wrapCall(r scanner) (runtime.Call, error) { return scanCall(r, p.id()) }
func (p *openedPage) wrapRun(r scanner) (runtime.Run, error)   { return scanRun(r, p.id()) }
func (p *openedPage) wrapArtifact(r scanner) (runtime.ArtifactRef, error) {
	return scanArtifact(r, p.id())
}

// cut takes the surplus row away and makes the next cursor.
func cut[T any](p *openedPage, rows []T, err error) ([]T, string, error) {
	if err != nil || len(rows) <= p.limit {
		return rows, "", err
	}
	last := strconv.FormatInt(p.ids[p.limit-1], 10)
	return slices.Clip(rows[:p.limit]), base64.RawURLEncoding.EncodeToString([]byte(last)), nil
}

// rowsOf reads all rows of a query; the slice is never nil, so that an empty
// list is a list.
func rowsOf[T any](ctx context.Context, db *sql.DB, scan func(scanner) (T, error), query string, args ...any) ([]T, error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, problemOf(err)
	}
	defer func() { _ = rows.Close() }() // Err below tells what went wrong
	out := []T{}
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, problemOf(err)
		}
		out = append(out, v)
	}
	return out, problemOf(rows.Err())
}
