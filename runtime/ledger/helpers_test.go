package ledger_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sandboxd/sandboxd/runtime/ledger"
)

// testMain fails the package when a test leaves a goroutine behind.
func testMain(m *testing.M) { goleak.VerifyTestMain(m) }

func mkdir(file string) error { return os.MkdirAll(filepath.Dir(file), 0o700) }

func migrationNames(t *testing.T) []string {
	t.Helper()
	names, err := fs.Glob(ledger.MigrationFiles(), "migrations/*.sql")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	return names
}

func readFile(dir fs.FS, name string) ([]byte, error) { return fs.ReadFile(dir, name) }
