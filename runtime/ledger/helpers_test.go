package ledger_test

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// testMain fails the package when a test leaves a goroutine behind.
func testMain(m *testing.M) { goleak.VerifyTestMain(m) }

func mkdir(file string) error { return os.MkdirAll(filepath.Dir(file), 0o700) }
