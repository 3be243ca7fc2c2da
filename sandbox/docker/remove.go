package docker

import (
	"context"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
)

// removeContainer kills and removes a container with its anonymous volumes. One
// that is gone is removed.
func (d *Driver) removeContainer(ctx context.Context, id string) error {
	err := d.engine.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
	switch {
	case err == nil || errdefs.IsNotFound(err):
		return nil
	case errdefs.IsConflict(err):
		// Somebody else is removing it.
		return d.awaitRemoved(ctx, id)
	}
	return err
}

func (d *Driver) awaitRemoved(ctx context.Context, id string) error {
	removed, failed := d.engine.ContainerWait(ctx, id, container.WaitConditionRemoved)
	select {
	case <-removed:
		return nil
	case err := <-failed:
		if errdefs.IsNotFound(err) {
			return nil
		}
		return err
	}
}

// removeVolume removes a volume. One that is gone is removed.
func (d *Driver) removeVolume(ctx context.Context, name string) error {
	if err := d.engine.VolumeRemove(ctx, name, true); err != nil && !errdefs.IsNotFound(err) {
		return err
	}
	return nil
}
