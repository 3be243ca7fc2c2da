package ledger_test

import (
	"database/sql"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/runtime/ledger"
)

func TestADatabaseOfANewerProgramIsRefused(t *testing.T) {
	l, path := fresh(t)
	require.NoError(t, l.Close())
	_, err := raw(t, path).Exec("PRAGMA user_version = 99")
	require.NoError(t, err)
	for _, readOnly := range []bool{true, false} {
		_, err = ledger.Open(t.Context(), ledger.Config{Path: path, ReadOnly: readOnly})
		require.ErrorContains(t, err, "schema version 99")
	}
	_, err = ledger.Open(t.Context(), ledger.Config{Path: path + ".no", ReadOnly: true})
	require.Error(t, err)
}

func TestADatabaseOfAnotherProgramIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other.db")
	db := raw(t, path)
	_, err := db.Exec("CREATE TABLE theirs (a)")
	require.NoError(t, err)
	_, err = ledger.Open(t.Context(), ledger.Config{Path: path})
	require.ErrorContains(t, err, "another program")
	require.NoError(t, os.WriteFile(path+"2", []byte(strings.Repeat("not a database ", 100)), 0o600))
	_, err = ledger.Open(t.Context(), ledger.Config{Path: path + "2"})
	require.Error(t, err)
}

// TestEveryOlderSchemaIsBroughtUpToDate opens a database as each earlier
// version of the program left it.
func TestEveryOlderSchemaIsBroughtUpToDate(t *testing.T) {
	files := ledger.MigrationFiles()
	names := migrationNames(t)
	for version := range len(names) {
		path := filepath.Join(t.TempDir(), "old.db")
		older := fstest.MapFS{}
		for _, n := range names[:version] {
			b, err := fs.ReadFile(files, n)
			require.NoError(t, err)
			older[n] = &fstest.MapFile{Data: b}
		}
		require.NoError(t, ledger.Migrate(t.Context(), path, older))
		l := open(t, path)
		require.NoError(t, l.CreateRun(t.Context(), newRun("run_1")))
		require.NoError(t, whole(t.Context(), l, "run_1", "call_1"))
	}
}

func TestAFailedMigrationLeavesTheStepBeforeIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l.db")
	dir := fstest.MapFS{
		"migrations/0001_a.sql": {Data: []byte("CREATE TABLE a (x)")},
		"migrations/0002_b.sql": {Data: []byte("CREATE TABLE b (x); INSERT INTO nowhere VALUES (1)")},
	}
	require.Error(t, ledger.Migrate(t.Context(), path, dir))
	require.Equal(t, []string{"a"}, tables(t, raw(t, path)))
	dir["migrations/0002_b.sql"] = &fstest.MapFile{Data: []byte("CREATE TABLE b (x)")}
	require.NoError(t, ledger.Migrate(t.Context(), path, dir))
	require.NoError(t, ledger.Migrate(t.Context(), path, dir), "again does nothing")
	require.Equal(t, []string{"a", "b"}, tables(t, raw(t, path)))
	dir["migrations/0004_c.sql"] = &fstest.MapFile{Data: []byte("CREATE TABLE c (x)")}
	require.ErrorContains(t, ledger.Migrate(t.Context(), path, dir), "number 3")
}

func tables(t *testing.T, db *sql.DB) (names []string) {
	t.Helper()
	rows, err := db.Query("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	for rows.Next() {
		var n string
		require.NoError(t, rows.Scan(&n))
		names = append(names, n)
	}
	require.NoError(t, rows.Err())
	return names
}

func migrationNames(t *testing.T) []string {
	t.Helper()
	names, err := fs.Glob(ledger.MigrationFiles(), "migrations/*.sql")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	return names
}
