package docker

import (
	"context"
	"fmt"

	"github.com/docker/docker/api/types/container"
)

// death tells of a container's end. ch is closed when the engine says so, and
// never when the engine goes away first.
type death struct {
	ch    chan struct{}
	cause error // set before ch is closed
}

// watchDeath asks before the container is started, so that an agent that dies
// at once is noticed too. stop ends the watch.
func (d *Driver) watchDeath(ctx context.Context, id string) (seen *death, stop context.CancelFunc) {
	ctx, stop = context.WithCancel(context.WithoutCancel(ctx))
	ended, lost := d.engine.ContainerWait(ctx, id, container.WaitConditionNextExit)
	seen = &death{ch: make(chan struct{})}
	go func() {
		select {
		case r := <-ended:
			seen.cause = fmt.Errorf("the agent ended with status %d", r.StatusCode)
			close(seen.ch)
		case <-lost:
		}
	}()
	return seen, stop
}
