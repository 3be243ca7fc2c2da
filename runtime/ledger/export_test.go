package ledger

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
)

// PragmaInGroup commits an operation of the given durability and tells what
// the writer's connection says of a pragma within that commit.
func (l *Ledger) PragmaInGroup(ctx context.Context, name string, synced bool) (string, error) {
	op := &probe{l: l, name: name}
	err := l.queue.do(ctx, op, synced, 0)
	return op.value, err
}

// ExecOnWriter executes a statement on the writer's connection, between groups
// of others.
func (l *Ledger) ExecOnWriter(ctx context.Context, statement string) error {
	return l.queue.do(ctx, &probe{l: l, statement: statement}, true, 0)
}

type probe struct {
	l                      *Ledger
	name, statement, value string
}

func (p *probe) apply(tx *transaction) error {
	if p.statement != "" {
		_, err := p.l.writer.conn.ExecContext(tx.ctx, p.statement)
		return err
	}
	return p.l.writer.conn.QueryRowContext(tx.ctx, "PRAGMA "+p.name).Scan(&p.value)
}

// Migrate applies the migrations of a directory to a database.
func Migrate(ctx context.Context, path string, dir fs.FS) (err error) {
	db, err := sql.Open("sqlite", dsn(path, "_txlock=immediate"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return migrate(ctx, conn, dir)
}

// MigrationFiles are the real migrations.
func MigrationFiles() fs.FS { return migrationFiles }

// Queries that must be answered from an index.
func Queries() map[string]string {
	return map[string]string{"events": eventsQuery, "calls": callsQuery, "artifacts": artifactsQuery}
}
