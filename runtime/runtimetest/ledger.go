package runtimetest

import (
	"context"
	"sync"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/runtime/ledger"
)

// brittleLedger is the real ledger on a disk that can be full.
type brittleLedger struct {
	*ledger.Ledger

	mu  sync.Mutex
	err error
}

// FailEnds makes the ledger refuse with err to record the ends of calls and
// runs, until it is called with nil.
func (b *Bench) FailEnds(err error) {
	b.brittle.mu.Lock()
	defer b.brittle.mu.Unlock()
	b.brittle.err = err
}

func (l *brittleLedger) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Result implements runtime.CallJournal.
func (l *brittleLedger) Result(ctx context.Context, call runtime.Call, usage runtime.RunUsage, drafts ...runtime.Draft) error {
	if err := l.failure(); err != nil {
		return err
	}
	return l.Ledger.Result(ctx, call, usage, drafts...)
}

// SaveRun implements runtime.RunJournal.
func (l *brittleLedger) SaveRun(ctx context.Context, run runtime.Run, drafts ...runtime.Draft) error {
	if err := l.failure(); err != nil && !run.EndedAt.IsZero() {
		return err
	}
	return l.Ledger.SaveRun(ctx, run, drafts...)
}
