package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"modernc.org/sqlite" // it also registers the driver "sqlite"
)

// retryDelay is how long notes wait after the database failed, when nothing
// else makes the writer try again.
const retryDelay = time.Second

// writer owns the one connection that writes. After start all of it belongs to
// whoever has the turn.
type writer struct {
	turn      sync.Mutex
	delay     time.Duration // how long a note may wait, longer after a failure
	config    Config
	log       *slog.Logger
	followers *followers
	db        *sql.DB
	conn      *sql.Conn // nil after a failure, until the next group
	stmts     *statements
	synced    bool // PRAGMA synchronous is FULL, else NORMAL
	heads     map[string]*head
	done      chan struct{}
	failed    error // notes that were lost at close
	ckpt      *checkpointer
}

// maxHeads bounds the cache of chain ends.
const maxHeads = 4096

func openWriter(ctx context.Context, l *Ledger) (*writer, error) {
	w := &writer{
		config: l.config, log: l.config.Logger, followers: &l.followers,
		heads: make(map[string]*head), done: make(chan struct{}),
	}
	// fdatasync writes all that a commit needs and spares the journal of the file
	// system a timestamp. Systems that do not have it keep fsync.
	if _, err := sqlite.Fdatasync(true); err != nil && !errors.Is(err, sqlite.ErrFdatasyncUnavailable) {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	// The file is made here for its mode; SQLite gives -wal and -shm the same.
	f, err := os.OpenFile(w.config.Path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	w.db, err = sql.Open("sqlite", dsn(w.config.Path, "_txlock=immediate",
		"_pragma=journal_mode(WAL)", "_pragma=synchronous(FULL)",
		"_pragma=wal_autocheckpoint(0)", "_pragma=foreign_keys(0)"))
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	w.db.SetMaxOpenConns(2) // this one and the checkpointer's
	if err := w.connect(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("ledger: open %s: %w", w.config.Path, err), w.db.Close())
	}
	if err := w.prepareSchema(ctx); err != nil {
		return nil, errors.Join(err, w.shut())
	}
	w.ckpt = newCheckpointer(w.db, w.config.CheckpointOps, w.log)
	return w, nil
}

func (w *writer) prepareSchema(ctx context.Context) error {
	if err := migrate(ctx, w.conn, migrationFiles); err != nil {
		return err
	}
	return w.prepare(ctx)
}

// connect opens the connection. A fresh one is at synchronous=FULL.
func (w *writer) connect(ctx context.Context) error {
	conn, err := w.db.Conn(ctx)
	if err != nil {
		return err
	}
	w.conn, w.synced = conn, true
	return nil
}

func (w *writer) prepare(ctx context.Context) error {
	s, err := prepareStatements(ctx, w.conn)
	if err != nil {
		return err
	}
	w.stmts = s
	return nil
}

// reconnect follows a failure: after a failed write or sync the old
// connection's view of the file is not to be trusted.
func (w *writer) reconnect(ctx context.Context) error {
	if w.conn != nil {
		return nil
	}
	if err := w.connect(ctx); err != nil {
		return err
	}
	if err := w.prepare(ctx); err != nil {
		w.drop()
		return err
	}
	return nil
}

// drop gives the connection up; driver.ErrBadConn makes the pool close it
// rather than keep it.
func (w *writer) drop() {
	if w.conn == nil {
		return
	}
	_ = w.conn.Raw(func(any) error { return errBadConn }) // its answer is the error given
	_ = w.conn.Close()                                    // already returned to the pool as bad
	w.conn, w.stmts = nil, nil
	clear(w.heads)
}

func (w *writer) start(q *queue) {
	w.delay = w.config.NoteDelay
	q.lead = func() { w.lead(q) }
	w.ckpt.start()
	go func() {
		defer close(w.done)
		w.run(q)
	}()
}

// lead writes a group in the goroutine of whoever waits for it: two switches
// between threads cost more than most of what is written. While somebody else
// writes, the caller's operation waits for company, and the writer's own
// goroutine takes the group up: that is the group commit.
func (w *writer) lead(q *queue) {
	if w.turn.TryLock() {
		w.step(q)
		w.turn.Unlock()
		if !q.pending() {
			return
		}
	}
	q.signal()
}

// run takes what nobody leads, until the queue is closed and empty.
func (w *writer) run(q *queue) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		w.turn.Lock()
		wait, closed := w.step(q)
		w.turn.Unlock()
		switch {
		case wait < 0 && closed:
			return
		case wait < 0:
			<-q.wake
		case wait > 0:
			timer.Reset(wait)
			select {
			case <-q.wake:
			case <-timer.C:
			}
		}
	}
}

// step writes the next group, if there is one. It needs the turn.
func (w *writer) step(q *queue) (wait time.Duration, closed bool) {
	group, wait, closed := q.take(w.delay)
	if len(group) == 0 {
		return wait, closed
	}
	lost := w.commit(group, closed)
	if w.conn != nil {
		w.ckpt.wrote(context.Background(), w.conn, len(group))
	}
	w.delay = w.config.NoteDelay
	switch {
	case closed && len(lost) > 0:
		w.failed = fmt.Errorf("ledger: %d notes could not be written", len(lost))
	case len(lost) > 0:
		w.delay = retryDelay
		q.putBack(lost)
	}
	return 0, closed
}

// commit writes a group and answers all who wait. It returns the notes that
// the database did not take. last makes the group synced whatever is in it.
func (w *writer) commit(group []*item, last bool) (unwritten []*item) {
	answers, err := w.attempt(group, last)
	if err != nil && len(group) > 1 && ownFault(err) {
		// One of them asked for the impossible: find it by writing each alone.
		for _, it := range group {
			unwritten = append(unwritten, w.commit([]*item{it}, last)...)
		}
		return unwritten
	}
	for i, it := range group {
		answer := err
		if err == nil {
			answer = answers[i]
		}
		switch {
		case !it.isNote():
			it.done <- answer
		case err != nil && !ownFault(err):
			unwritten = append(unwritten, it)
		case answer != nil:
			w.log.Error("ledger refused a note", "error", answer)
		}
	}
	if err != nil {
		w.log.Error("ledger could not commit", "operations", len(group), "error", err)
	}
	return unwritten
}

// attempt applies a group in one transaction. Refusals are single answers; any
// other error means that nothing of the group was written.
func (w *writer) attempt(group []*item, last bool) ([]error, error) {
	ctx := context.Background() // what was taken is written, whoever has gone
	if err := w.reconnect(ctx); err != nil {
		return nil, err
	}
	synced := last
	for _, it := range group {
		synced = synced || it.synced
	}
	if err := w.setSynced(ctx, synced); err != nil {
		w.drop()
		return nil, err
	}
	tx := newTransaction(ctx, w.stmts, w.heads, group)
	answers, err := w.apply(tx, group)
	if err != nil {
		w.abandon(ctx, err)
		return nil, err
	}
	w.adopt(tx)
	return answers, nil
}

func (w *writer) apply(tx *transaction, group []*item) ([]error, error) {
	if err := w.stmts.begin(tx.ctx); err != nil {
		return nil, err
	}
	answers := make([]error, len(group))
	for i, it := range group {
		tx.at = it.at
		err := it.op.apply(tx)
		if _, refused := errors.AsType[*refusal](err); refused {
			answers[i] = err
			continue
		}
		if err != nil {
			return nil, err
		}
	}
	if err := tx.saveHeads(); err != nil {
		return nil, err
	}
	return answers, w.stmts.commit(tx.ctx)
}

// abandon ends a failed transaction. After any failure but an operation's own
// fault, the connection is given up.
func (w *writer) abandon(ctx context.Context, cause error) {
	err := w.stmts.rollback(ctx)
	if err != nil || !ownFault(cause) {
		w.drop()
	}
}

// adopt takes over what a committed transaction left, and wakes followers.
func (w *writer) adopt(tx *transaction) {
	if len(w.heads)+len(tx.heads) > maxHeads {
		clear(w.heads)
	}
	for id, h := range tx.heads {
		w.heads[id] = h
		if h.dirty {
			h.dirty = false
			w.followers.wake(id)
		}
	}
}

// setSynced switches whether a commit is synced. The pragma acts when it is
// compiled, so it is never a prepared statement.
func (w *writer) setSynced(ctx context.Context, synced bool) error {
	if synced == w.synced {
		return nil
	}
	pragma := "PRAGMA synchronous=NORMAL"
	if synced {
		pragma = "PRAGMA synchronous=FULL"
	}
	if _, err := w.conn.ExecContext(ctx, pragma); err != nil {
		return err
	}
	w.synced = synced
	return nil
}

// wait returns when all that was queued has been written or has failed.
func (w *writer) wait() error {
	<-w.done
	w.ckpt.stop()
	return w.failed
}

// shut closes the connections.
func (w *writer) shut() error {
	var err error
	if w.conn != nil {
		err = w.conn.Close()
	}
	return errors.Join(err, w.db.Close())
}
