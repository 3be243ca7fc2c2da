package docker

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"
)

// Reconcile removes what boxes of this owner left behind: containers and
// volumes by label, directories and cgroups by name. A run in keep is left
// alone in all four.
func (d *Driver) Reconcile(ctx context.Context, keep map[string]bool) ([]string, error) {
	gone := map[string]bool{}
	var errs []error
	for _, sweep := range []func(context.Context, map[string]bool, map[string]bool) error{
		// In this order: cgroups and directories are in use by containers.
		d.sweepContainers, d.sweepVolumes, d.sweepCgroups, d.sweepDirs, d.sweepAgents,
	} {
		if err := sweep(ctx, keep, gone); err != nil {
			errs = append(errs, err)
		}
	}
	return slices.Sorted(maps.Keys(gone)), errors.Join(errs...)
}

func (d *Driver) ownFilter() filters.Args {
	return filters.NewArgs(filters.Arg("label", labelOwner+"="+d.cfg.OwnerID))
}

func (d *Driver) sweepContainers(ctx context.Context, keep, gone map[string]bool) error {
	all, err := d.engine.ContainerList(ctx, container.ListOptions{All: true, Filters: d.ownFilter()})
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range all {
		// The filter is the engine's; what is removed is checked here.
		run := c.Labels[labelRun]
		if c.Labels[labelOwner] != d.cfg.OwnerID || run == "" || keep[run] {
			continue
		}
		if err := d.removeContainer(ctx, c.ID); err != nil {
			errs = append(errs, err)
			continue
		}
		if run != fillRun {
			gone[run] = true
		}
	}
	return errors.Join(errs...)
}

func (d *Driver) sweepVolumes(ctx context.Context, keep, gone map[string]bool) error {
	all, err := d.engine.VolumeList(ctx, volume.ListOptions{Filters: d.ownFilter()})
	if err != nil {
		return err
	}
	var errs []error
	for _, v := range all.Volumes {
		run, ours := v.Labels[labelRun], v.Labels[labelOwner] == d.cfg.OwnerID
		switch {
		case !ours || keep[run]:
		case run == "":
			// The agent of another build. While a box uses it the engine refuses.
			if v.Name != d.agentVolumeInUse() {
				_ = d.engine.VolumeRemove(ctx, v.Name, false)
			}
		default:
			if err := d.removeVolume(ctx, v.Name); err != nil {
				errs = append(errs, err)
				continue
			}
			gone[run] = true
		}
	}
	return errors.Join(errs...)
}

func (d *Driver) agentVolumeInUse() string {
	d.agentVolume.Lock()
	defer d.agentVolume.Unlock()
	return d.agentVolumeMade
}

func (d *Driver) sweepCgroups(ctx context.Context, keep, gone map[string]bool) error {
	if d.cgroups == nil {
		return nil
	}
	runs, err := d.cgroups.Runs()
	if err != nil {
		return err
	}
	var errs []error
	for _, run := range runs {
		if keep[run] {
			continue
		}
		if err := d.cgroups.Destroy(ctx, run); err != nil {
			errs = append(errs, err)
			continue
		}
		gone[run] = true
	}
	return errors.Join(errs...)
}

func (d *Driver) sweepDirs(_ context.Context, keep, gone map[string]bool) error {
	entries, err := os.ReadDir(d.boxes)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if keep[e.Name()] || !e.IsDir() {
			continue
		}
		if err := os.RemoveAll(filepath.Join(d.boxes, e.Name())); err != nil {
			errs = append(errs, err)
			continue
		}
		gone[e.Name()] = true
	}
	return errors.Join(errs...)
}

// sweepAgents removes the copies of other builds' agents. A box that runs one
// keeps it until it ends.
func (d *Driver) sweepAgents(context.Context, map[string]bool, map[string]bool) error {
	copies, err := os.ReadDir(filepath.Dir(d.agent))
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range copies {
		if e.Name() != filepath.Base(d.agent) {
			errs = append(errs, os.Remove(filepath.Join(filepath.Dir(d.agent), e.Name())))
		}
	}
	return errors.Join(errs...)
}
