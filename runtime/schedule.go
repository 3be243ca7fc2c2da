package runtime

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// lanes are a run's concurrency groups: a call waits in its lane, first come
// first served, and leaves it when it is done. A mutation may run beside a
// command, because a base hash and an atomic replace make that safe.
type lanes map[Group]*semaphore.Weighted

// readers is how many read-only calls of one run may run side by side.
const readers = 16

func newLanes(commands int) lanes {
	return lanes{
		GroupReadOnly:  semaphore.NewWeighted(readers),
		GroupCommand:   semaphore.NewWeighted(int64(max(commands, 1))),
		GroupWorkspace: semaphore.NewWeighted(1),
		GroupExternal:  semaphore.NewWeighted(1),
	}
}

// schedule waits until the box is ready and the call's lane has room. A cancel
// while waiting means that the call never starts.
func (k *Kernel) schedule(f *flight, g *Grant) (leave func(), err error) {
	box, err := f.run.awaitBox(f.ctx)
	if err != nil {
		return nil, err
	}
	g.box = box
	lane := f.run.lanes[g.tool.group(g.meaning)]
	if err := lane.Acquire(f.ctx, 1); err != nil {
		return nil, context.Cause(f.ctx)
	}
	return func() { lane.Release(1) }, nil
}
