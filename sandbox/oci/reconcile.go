package oci

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/sandboxd/sandboxd/sandbox"
)

// Reconcile removes what boxes of this owner left behind: containers by the
// runtime's state, cgroups and directories by name.
func (d *Driver) Reconcile(ctx context.Context, keep map[string]bool) ([]string, error) {
	runs, err := d.remains()
	if err != nil {
		return nil, err
	}
	var gone []string
	var errs []error
	for _, run := range runs {
		if keep[run] {
			continue
		}
		if err := d.removeRemains(ctx, run); err != nil {
			errs = append(errs, err)
			continue
		}
		gone = append(gone, run)
	}
	if len(runs) == len(gone) {
		errs = append(errs, d.pruneShared())
	}
	return gone, errors.Join(errs...)
}

// remains lists the runs of which anything is there, sorted.
func (d *Driver) remains() ([]string, error) {
	runs, err := d.tree.Runs()
	if err != nil {
		return nil, err
	}
	dirs := []string{d.boxesDir()}
	for name := range dialects() {
		dirs = append(dirs, d.stateOf(name))
	}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.IsDir() && sandbox.ValidName(e.Name()) {
				runs = append(runs, e.Name())
			}
		}
	}
	slices.Sort(runs)
	return slices.Compact(runs), nil
}

// removeRemains removes a run's box from the outside: everything in its
// cgroups is killed first, which takes the container's first process along.
func (d *Driver) removeRemains(ctx context.Context, run string) error {
	errs := []error{d.tree.Destroy(ctx, run)}
	for name := range dialects() {
		errs = append(errs, d.removeRecord(ctx, name, run))
	}
	return errors.Join(append(errs, os.RemoveAll(d.dirsOf(run).bundle))...)
}

// removeRecord removes a runtime's record of a run that has no processes. A
// runtime that was uninstalled meanwhile is not needed for that.
func (d *Driver) removeRecord(ctx context.Context, name, run string) error {
	record := filepath.Join(d.stateOf(name), run)
	if _, err := os.Lstat(record); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	rt, err := findRuntime(ctx, name)
	if err != nil {
		return os.RemoveAll(record)
	}
	return rt.remove(ctx, d.stateOf(name), run)
}

// remove removes the runtime's record of a container, killing what lives of
// it. One that the runtime does not know is removed.
func (r runtime) remove(ctx context.Context, state, id string) error {
	record := filepath.Join(state, id)
	if _, err := os.Lstat(record); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := r.call(ctx, state, nil, "delete", "--force", id); err != nil {
		return err
	}
	// A record that the runtime could not read stays there.
	return os.RemoveAll(record)
}

// pruneShared removes what boxes that are gone shared. It is made again for the
// next one.
func (d *Driver) pruneShared() error {
	d.etc.mu.Lock()
	defer d.etc.mu.Unlock()
	var errs []error
	for _, dir := range []string{d.etcDir(), d.rootsDir()} {
		entries, err := os.ReadDir(dir)
		errs = append(errs, err)
		for _, e := range entries {
			errs = append(errs, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}
