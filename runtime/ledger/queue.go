package ledger

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandboxd/sandboxd/runtime"
)

// The bounds of one group and of what may wait.
const (
	maxGroupOps   = 512
	maxGroupBytes = 8 << 20
	// maxNoteBytes bounds notes that wait for a database that does not work.
	maxNoteBytes = 64 << 20
)

// An operation changes the ledger within the writer's transaction. It checks
// first and writes then: when its error is a *refusal, it wrote nothing.
type operation interface {
	apply(tx *transaction) error
}

// The states of an item: a waiter may withdraw it until the writer took it.
const (
	itemQueued int32 = iota
	itemTaken
	itemWithdrawn
)

// item is an operation in the queue.
type item struct {
	op     operation
	at     time.Time // the time of its events
	synced bool      // on disk before it is answered
	bytes  int
	state  atomic.Int32
	// done gets the answer; nil for notes, which nobody waits for.
	done chan error
}

func (it *item) isNote() bool { return it.done == nil }

// queue holds operations in the order in which they will happen.
type queue struct {
	now  func() time.Time
	wake chan struct{} // a signal for the writer, capacity 1
	// lead writes the next group in the caller's own goroutine, unless one is
	// being written: then the writer takes it up after that.
	lead func()

	mu        sync.Mutex
	items     []*item
	urgent    bool      // something in it must not wait
	noteSince time.Time // since when the oldest note waits, on the real clock
	noteBytes int
	last      time.Time
	closed    bool
}

func newQueue(now func() time.Time) *queue {
	q := &queue{now: now, wake: make(chan struct{}, 1)}
	q.lead = q.signal
	return q
}

// note appends an operation that nobody waits for.
func (q *queue) note(it *item, urgent bool) error {
	news, err := q.put(it, urgent)
	if news {
		q.signal()
	}
	return err
}

// put appends an operation, and tells whether the writer has to know. The time
// of its events is taken here, so that it never runs backwards along a chain.
func (q *queue) put(it *item, urgent bool) (news bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false, closedProblem()
	}
	news = urgent
	if it.isNote() {
		if q.noteBytes+it.bytes > maxNoteBytes {
			return false, runtime.Problemf(runtime.ProblemUnavailable,
				"The ledger cannot write and too much waits for it.")
		}
		q.noteBytes += it.bytes
		// The writer knows of the first note and when it is due; further ones
		// that may wait as well need not wake it.
		if q.noteSince.IsZero() {
			q.noteSince, news = time.Now(), true
		}
	}
	if now := q.now().UTC(); now.After(q.last) {
		q.last = now
	}
	it.at = q.last
	q.items = append(q.items, it)
	q.urgent = q.urgent || urgent
	return news, nil
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// do puts an operation and waits for its answer. When ctx ends before the
// writer took the operation, it never happens; after that the answer is waited
// for, so that the outcome is always known.
func (q *queue) do(ctx context.Context, op operation, synced bool, bytes int) error {
	if err := ctx.Err(); err != nil {
		return problemOf(err)
	}
	it := &item{op: op, synced: synced, bytes: bytes, done: make(chan error, 1)}
	if _, err := q.put(it, true); err != nil {
		return err
	}
	q.lead()
	select {
	case err := <-it.done:
		return problemOf(err)
	case <-ctx.Done():
		if it.state.CompareAndSwap(itemQueued, itemWithdrawn) {
			return problemOf(context.Cause(ctx))
		}
		return problemOf(<-it.done)
	}
}

// take removes the next group. When there is none yet, wait says how long the
// oldest note may still wait; it is negative when nothing waits at all.
func (q *queue) take(delay time.Duration) (group []*item, wait time.Duration, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 {
		return nil, -1, q.closed
	}
	if !q.urgent && !q.closed {
		if wait := delay - time.Since(q.noteSince); wait > 0 {
			return nil, wait, false
		}
	}
	n, bytes := 0, 0
	for n < len(q.items) && n < maxGroupOps && bytes < maxGroupBytes {
		it := q.items[n]
		n++
		if !it.state.CompareAndSwap(itemQueued, itemTaken) && !it.isNote() {
			continue // withdrawn
		}
		bytes += it.bytes
		group = append(group, it)
	}
	q.items = append([]*item(nil), q.items[n:]...)
	q.settle(group)
	return group, 0, q.closed
}

// settle brings the counters up to date after a group was taken.
func (q *queue) settle(group []*item) {
	for _, it := range group {
		if it.isNote() {
			q.noteBytes -= it.bytes
		}
	}
	if len(q.items) == 0 {
		q.urgent, q.noteSince = false, time.Time{}
	}
}

// putBack returns notes that could not be written to the head of the queue, to
// be tried again with the next group or after the delay.
func (q *queue) putBack(notes []*item) {
	if len(notes) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, it := range notes {
		q.noteBytes += it.bytes
	}
	q.items = append(notes, q.items...)
	if q.noteSince.IsZero() {
		q.noteSince = time.Now()
	}
}

// pending tells whether something is queued that must not wait.
func (q *queue) pending() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.urgent && len(q.items) > 0
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.signal()
}
