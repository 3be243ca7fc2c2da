package runtime

import (
	"context"
	"time"

	"github.com/sandboxd/sandboxd/sandbox"
)

// watch ends a run whose box died or whose time is over.
func (k *Kernel) watch(r *liveRun, box sandbox.Box) {
	expiry := time.NewTimer(time.Until(r.snapshot().ExpiresAt))
	defer expiry.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-box.Done():
			if r.ctx.Err() == nil {
				k.loseBox(r, "the box's agent or container went away")
			}
			return
		case <-r.expires:
			expiry.Reset(time.Until(r.snapshot().ExpiresAt))
		case <-expiry.C:
			if left := time.Until(r.snapshot().ExpiresAt); left > 0 {
				expiry.Reset(left)
				continue
			}
			k.tasks.Go(func() { k.finishRun(r, RunEnded, "expired", &CancelCause{Reason: ReasonTimeout, Grace: -1}) })
			return
		}
	}
}

// loseBox ends a run whose box cannot be used any more: its calls are answered
// at once with SANDBOX_UNAVAILABLE.
func (k *Kernel) loseBox(r *liveRun, why string) {
	k.tasks.Go(func() { k.finishRun(r, RunFailed, why, &CancelCause{Reason: ReasonBoxLost, Grace: 0}) })
}

// EndRun cancels the run's calls and removes its box; ledger and artifacts
// stay. It is idempotent.
func (k *Kernel) EndRun(ctx context.Context, runID, by string) error {
	r := k.liveRun(runID)
	if r == nil {
		_, err := k.journal.Run(ctx, runID)
		return err
	}
	k.finishRun(r, RunEnded, "ended by "+by, &CancelCause{Reason: ReasonRunEnded, Grace: 0})
	return nil
}

func (k *Kernel) shutRun(ctx context.Context, r *liveRun) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.finishRun(r, RunEnded, "the service was shut down", &CancelCause{Reason: ReasonShutdown, Grace: 0})
	}()
	select {
	case <-done:
	case <-ctx.Done():
		k.log.Error("run not ended in time", "runId", r.id)
	}
}

// finishRun ends a run once; later callers wait for the first. The box goes
// first when it is lost, so that nothing waits for it.
func (k *Kernel) finishRun(r *liveRun, status RunStatus, reason string, cause *CancelCause) {
	r.end.Do(func() {
		idle := r.close(cause)
		select {
		case <-r.ready:
		default:
			r.cancel(cause) // its box is not waited for
			<-r.ready
		}
		if r.failure != nil {
			<-r.gone // failRun records it
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), endTimeout)
		defer cancel()
		if cause.Reason == ReasonBoxLost {
			k.removeBox(ctx, r)
		}
		select {
		case <-idle:
		case <-time.After(endAfter):
			k.removeBox(ctx, r)
			<-idle
		}
		k.removeBox(ctx, r)
		kind := RunEndedEvent
		if status == RunFailed {
			kind = RunBecameFailed
		}
		k.closeRecord(ctx, r, status, kind, reason)
		r.cancel(cause)
		k.forget(r)
	})
}

const (
	// endAfter is how long the calls of a run that ends may take to come back:
	// its box goes in any case, and well within the time that a stop has.
	endAfter = 10 * time.Second
	// endTimeout bounds the ending of a run.
	endTimeout = 2 * time.Minute
)

func (k *Kernel) removeBox(ctx context.Context, r *liveRun) {
	if err := r.box.Remove(ctx); err != nil {
		k.log.Error("box not removed; the next reconcile will", "runId", r.id, "err", err)
	}
}

// forget takes a run that has ended out of memory, once.
func (k *Kernel) forget(r *liveRun) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.runs, r.id)
	close(r.gone)
}
