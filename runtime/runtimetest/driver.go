package runtimetest

import (
	"context"
	"sync"
	"testing"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/sandboxtest"
)

// localDriver hands out boxes without a container.
type localDriver struct {
	t testing.TB

	mu     sync.Mutex
	boxes  map[string]sandbox.Box
	before func(context.Context) error
}

var _ sandbox.Driver = (*localDriver)(nil)

// Name implements sandbox.Driver.
func (d *localDriver) Name() string { return "local" }

// Create implements sandbox.Driver.
func (d *localDriver) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	d.mu.Lock()
	before := d.before
	d.mu.Unlock()
	if before != nil {
		if err := before(ctx); err != nil {
			return nil, err
		}
	}
	box := sandboxtest.NewLocal(d.t)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.boxes[spec.RunID] = box
	return box, nil
}

// Reconcile implements sandbox.Driver: local boxes end with their process.
func (d *localDriver) Reconcile(context.Context, map[string]bool) ([]string, error) {
	return nil, nil
}

// Close implements sandbox.Driver.
func (d *localDriver) Close() error { return nil }

func (d *localDriver) box(runID string) sandbox.Box {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.boxes[runID]
}

// BeforeBox is called before each box that is made from now on; its error is
// the driver's.
func (b *Bench) BeforeBox(hook func(context.Context) error) {
	b.driver.mu.Lock()
	defer b.driver.mu.Unlock()
	b.driver.before = hook
}
