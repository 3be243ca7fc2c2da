package ledger

import "sync"

// followers are those who want to know when a run has new events. A signal
// says "look again", never what happened: it is coalesced, and nobody holds
// the writer back.
type followers struct {
	mu   sync.Mutex
	runs map[string]map[chan struct{}]struct{}
}

func (f *followers) add(runID string) (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.runs == nil {
		f.runs = make(map[string]map[chan struct{}]struct{})
	}
	if f.runs[runID] == nil {
		f.runs[runID] = make(map[chan struct{}]struct{})
	}
	f.runs[runID][ch] = struct{}{}
	return ch, func() { f.remove(runID, ch) }
}

func (f *followers) remove(runID string, ch chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.runs[runID], ch)
	if len(f.runs[runID]) == 0 {
		delete(f.runs, runID)
	}
}

func (f *followers) any(runID string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.runs[runID]) > 0
}

func (f *followers) wake(runID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for ch := range f.runs[runID] {
		select {
		case ch <- struct{}{}:
		default: // it has not looked since the last signal
		}
	}
}

// Follow returns a channel that gets a signal after commits that hold events
// of the run. Signals are coalesced: read the events after the last seq seen,
// then wait again; start by reading once, because what was committed before
// Follow gives no signal. The channel is never closed. stop ends it and may be
// called more than once. Notes of a followed run are written at once.
func (l *Ledger) Follow(runID string) (signal <-chan struct{}, stop func()) {
	return l.followers.add(runID)
}
