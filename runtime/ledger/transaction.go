package ledger

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/sandboxd/sandboxd/runtime"
)

// head is the end of a run's chain, with the run's usage.
type head struct {
	seq   int64
	hash  []byte
	usage runtime.RunUsage
	dirty bool // changed in this transaction
}

// transaction is one group being written. Chain ends that it moves are its own
// until it is committed.
type transaction struct {
	ctx   context.Context
	stmts *statements
	known map[string]*head // as of the last commit; not changed here
	heads map[string]*head
	at    time.Time // of the operation at hand
	// ending holds the calls whose results are in the group: what notes of the
	// same group say of their rows is written once, with the result.
	ending map[string]*said
}

// said is what notes said of a call's row.
type said struct {
	toolVersion         string
	effective, decision []byte
	started             bool
}

func (s *said) add(op *noteOp) {
	u := op.update
	if u.ToolVersion != "" {
		s.toolVersion = u.ToolVersion
	}
	if u.EffectiveArguments != nil {
		s.effective = u.EffectiveArguments
	}
	if op.decision != nil {
		s.decision = op.decision
	}
	s.started = s.started || u.Started
}

func newTransaction(ctx context.Context, s *statements, known map[string]*head, group []*item) *transaction {
	tx := &transaction{ctx: ctx, stmts: s, known: known, heads: make(map[string]*head), ending: make(map[string]*said)}
	for _, it := range group {
		if op, ok := it.op.(*resultOp); ok {
			tx.ending[op.call.ToolCallID] = &said{}
		}
	}
	return tx
}

// head returns the end of a run's chain, or refuses a run that is not there.
func (tx *transaction) head(runID string) (*head, error) {
	if h, ok := tx.heads[runID]; ok {
		return h, nil
	}
	if h, ok := tx.known[runID]; ok {
		own := *h
		tx.heads[runID] = &own
		return &own, nil
	}
	h := &head{}
	u := &h.usage
	err := tx.stmts.head.QueryRowContext(tx.ctx, runID).Scan(&h.seq, &h.hash,
		&u.Calls, &u.FailedCalls, &u.OutputBytes, &u.CPUMs, &u.WallMs)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, refuse(runtime.ProblemNotFound, "There is no run %q.", runID)
	}
	if err != nil {
		return nil, err
	}
	tx.heads[runID] = h
	return h, nil
}

// begin makes the chain of a new run.
func (tx *transaction) begin(runID string) (*head, error) {
	h := &head{hash: genesis(runID)}
	if _, err := tx.stmts.newHead.ExecContext(tx.ctx, runID, h.hash); err != nil {
		return nil, err
	}
	tx.heads[runID] = h
	return h, nil
}

// append adds events to the end of the run's chain.
func (tx *transaction) append(h *head, runID string, events ...encoded) error {
	for _, e := range events {
		l := link{
			seq: h.seq + 1, runID: runID, kind: string(e.kind), timeNs: tx.at.UnixNano(),
			callID: e.callID, trace: e.trace, data: e.data, prev: h.hash,
		}
		sum := l.sum()
		_, err := tx.stmts.insertEvent.ExecContext(tx.ctx,
			runID, l.seq, l.kind, l.timeNs, l.callID, l.trace, l.data, l.prev, sum)
		if err != nil {
			return err
		}
		h.seq, h.hash, h.dirty = l.seq, sum, true
	}
	return nil
}

// spend raises the run's usage. Its counters only grow, so that of two results
// that overtook each other on their way here the larger one stands.
func (h *head) spend(u runtime.RunUsage) {
	h.usage = runtime.RunUsage{
		Calls:       max(h.usage.Calls, u.Calls),
		FailedCalls: max(h.usage.FailedCalls, u.FailedCalls),
		OutputBytes: max(h.usage.OutputBytes, u.OutputBytes),
		CPUMs:       max(h.usage.CPUMs, u.CPUMs),
		WallMs:      max(h.usage.WallMs, u.WallMs),
	}
	h.dirty = true
}

// saveHeads writes the ends of the chains that moved, once a group.
func (tx *transaction) saveHeads() error {
	for runID, h := range tx.heads {
		if !h.dirty {
			continue
		}
		u := h.usage
		_, err := tx.stmts.saveHead.ExecContext(tx.ctx, h.seq, h.hash,
			u.Calls, u.FailedCalls, u.OutputBytes, u.CPUMs, u.WallMs, runID)
		if err != nil {
			return err
		}
	}
	return nil
}

// nanos is a time as it is stored; an unset one is the operation's.
func (tx *transaction) nanos(t time.Time) int64 {
	if t.IsZero() {
		t = tx.at
	}
	return t.UnixNano()
}
