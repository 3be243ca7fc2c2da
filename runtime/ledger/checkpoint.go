package ledger

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"log/slog"
	"sync/atomic"
)

// errBadConn makes database/sql throw a connection away.
var errBadConn = driver.ErrBadConn

// checkpointer moves the write-ahead log into the database beside the writer,
// so that no call waits for it: SQLite's own automatic checkpoint would run
// within somebody's commit. It is passive, that is, it hinders neither writer
// nor readers. Because a busy writer appends while it moves, the writer moves
// the short rest between two groups; only then does the log start over, which
// keeps it small and its file from growing.
type checkpointer struct {
	db    *sql.DB
	log   *slog.Logger
	every int
	since int         // operations since the last signal; the writer's
	rest  atomic.Bool // the writer is to move the rest
	wake  chan struct{}
	done  chan struct{}
}

func newCheckpointer(db *sql.DB, every int, log *slog.Logger) *checkpointer {
	return &checkpointer{
		db: db, log: log, every: every,
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
}

func (c *checkpointer) start() {
	go func() {
		defer close(c.done)
		for range c.wake {
			c.run(context.Background(), c.db)
			c.rest.Store(true) // it cannot tell what was appended meanwhile
		}
	}()
}

// wrote counts what the writer committed on conn.
func (c *checkpointer) wrote(ctx context.Context, conn *sql.Conn, operations int) {
	if c.rest.CompareAndSwap(true, false) {
		c.run(ctx, conn)
	}
	if c.since += operations; c.since < c.every {
		return
	}
	c.since = 0
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

type rowQuerier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// run moves what can be moved now. A failure loses nothing, as the log keeps
// what was not moved, and the next run tries again.
func (c *checkpointer) run(ctx context.Context, db rowQuerier) {
	var busy, pages, moved int
	row := db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)")
	if err := row.Scan(&busy, &pages, &moved); err != nil {
		c.log.Warn("ledger checkpoint failed", "error", err)
	}
}

func (c *checkpointer) stop() {
	close(c.wake)
	<-c.done
}
