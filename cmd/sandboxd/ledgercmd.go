package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sandboxd/sandboxd/runtime/ledger"
)

// ledgerCmd looks into a ledger, also beside a live service.
type ledgerCmd struct {
	Verify verifyCmd `cmd:"" help:"Check every hash chain; exit 1 on any fault."`
}

type verifyCmd struct {
	Data string `default:"/var/lib/sandboxd" env:"SANDBOXD_DATA" help:"The service's data directory."`
}

// Run verifies the ledger and prints what it found.
func (c verifyCmd) Run(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(c.Data, "ledger.db")); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no ledger in %s; name the service's data directory with --data", c.Data)
	}
	l, err := ledger.Open(ctx, ledger.Config{Path: filepath.Join(c.Data, "ledger.db"), ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }() // nothing was written
	report, err := l.Verify(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%d runs, %d events\n", report.Runs, report.Events)
	for _, fault := range report.Faults {
		fmt.Println("FAULT", fault)
	}
	if len(report.Faults) > 0 {
		return errSaid
	}
	fmt.Println("the ledger is whole: every event follows from the one before it")
	return nil
}
