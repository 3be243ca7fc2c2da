package ledger

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// applicationID marks the file as ours (PRAGMA application_id): "sbxl".
const applicationID = 0x7362786c

// migration is one step of the schema. Its number is the user_version that the
// database has after it.
type migration struct {
	number int
	name   string
	script string
}

// migrations reads the steps of a directory. Their numbers count from 1
// without gaps, so that a number says how many were applied.
func migrations(dir fs.FS) ([]migration, error) {
	names, err := fs.Glob(dir, "migrations/*.sql") // sorted
	if err != nil {
		return nil, err
	}
	var out []migration
	for i, path := range names {
		name := strings.TrimPrefix(path, "migrations/")
		head, _, _ := strings.Cut(name, "_")
		n, err := strconv.Atoi(head)
		if err != nil || n != i+1 {
			return nil, fmt.Errorf("ledger: migration %q should have number %d", name, i+1)
		}
		script, err := fs.ReadFile(dir, path)
		if err != nil {
			return nil, err
		}
		out = append(out, migration{number: n, name: name, script: string(script)})
	}
	return out, nil
}

// migrate brings the database to the newest schema, each step in a transaction
// of its own together with its number: a crash leaves a whole step or none.
func migrate(ctx context.Context, conn *sql.Conn, dir fs.FS) error {
	steps, err := migrations(dir)
	if err != nil {
		return err
	}
	have, err := schemaVersion(ctx, conn)
	if err != nil {
		return err
	}
	if err := checkVersion(have, len(steps)); err != nil {
		return err
	}
	for _, m := range steps[have:] {
		if err := applyMigration(ctx, conn, m); err != nil {
			return fmt.Errorf("ledger: migration %s: %w", m.name, err)
		}
	}
	return nil
}

func applyMigration(ctx context.Context, conn *sql.Conn, m migration) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing
	if _, err := tx.ExecContext(ctx, m.script); err != nil {
		return err
	}
	// Pragmas take no parameters; both values are integers of ours.
	stamp := fmt.Sprintf("PRAGMA user_version = %d; PRAGMA application_id = %d", m.number, applicationID)
	if _, err := tx.ExecContext(ctx, stamp); err != nil {
		return err
	}
	return tx.Commit()
}

// schemaVersion reads how many steps the database has seen, and refuses a file
// that belongs to another program.
func schemaVersion(ctx context.Context, conn *sql.Conn) (int, error) {
	var version, owner, tables int
	row := conn.QueryRowContext(ctx, `SELECT
		(SELECT user_version FROM pragma_user_version),
		(SELECT application_id FROM pragma_application_id),
		(SELECT count(*) FROM sqlite_schema)`)
	if err := row.Scan(&version, &owner, &tables); err != nil {
		return 0, err
	}
	if owner != applicationID && (owner != 0 || version != 0 || tables != 0) {
		return 0, fmt.Errorf("ledger: the file is a database of another program; name another path")
	}
	return version, nil
}

func checkVersion(have, known int) error {
	if have > known {
		return fmt.Errorf("ledger: the database has schema version %d and this program knows %d; "+
			"start the newer program, or give this one another data directory", have, known)
	}
	return nil
}
