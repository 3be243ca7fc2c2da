package agent

import (
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A tree is the processes of one command, however they are known.
type tree interface {
	// empty says whether no member lives.
	empty() bool
	// members lists the living ones.
	members() []int
	// await waits for empty, until a time or until the eventfd wake is
	// written to (-1: none); it says whether the tree is empty.
	await(until time.Time, wake int) bool
	// kill sends SIGKILL to all and says by which step.
	kill() (step string, err error)
}

// killRounds and killWait bound the last step: a process in an uninterruptible
// wait ends only later, and then dies of the signal that it has.
const (
	killRounds = 10
	killWait   = time.Second
)

// destroy kills the tree for good and returns how many processes it killed.
// Some may be left only if the kernel holds them in an uninterruptible wait.
func destroy(t tree, seen map[int]bool) (step string) {
	for range killRounds {
		for _, pid := range t.members() {
			seen[pid] = true
		}
		var err error
		if step, err = t.kill(); err != nil {
			for _, pid := range t.members() {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
			step = "stop-walk"
		}
		if t.await(time.Now().Add(killWait), -1) {
			break
		}
	}
	return step
}

// A killer takes one command's tree up the ladder.
type killer struct {
	tree tree
	done chan struct{}

	mu       sync.Mutex
	deadline time.Time
	wake     int // eventfd; closed with done

	// Valid after done.
	killed int
	step   string
}

// startKill begins the ladder: SIGTERM now, SIGKILL after grace.
func startKill(t tree, grace time.Duration) *killer {
	k := &killer{tree: t, done: make(chan struct{}), deadline: time.Now().Add(grace), wake: -1}
	if fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err == nil {
		k.wake = fd
	}
	go k.run(grace > 0)
	return k
}

// hurry shortens the grace.
func (k *killer) hurry(grace time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if until := time.Now().Add(grace); until.Before(k.deadline) {
		k.deadline = until
		if k.wake >= 0 {
			// The counter is far from full; a reader polls it.
			_, _ = unix.Write(k.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		}
	}
}

func (k *killer) run(polite bool) {
	defer k.finish()
	seen := map[int]bool{}
	for _, pid := range k.tree.members() {
		seen[pid] = true
	}
	if polite && k.terminate(seen) {
		k.step, k.killed = "term", len(seen)
		return
	}
	k.step = destroy(k.tree, seen)
	k.killed = len(seen)
}

// terminate asks all to end and waits for the grace. A stopped process is
// continued, or it could not hear.
func (k *killer) terminate(seen map[int]bool) bool {
	// Parents first, who as a rule have the lower number: a shell whose child ends
	// before its own signal comes would go on to the next line of its script.
	for _, pid := range slices.Sorted(maps.Keys(seen)) {
		_ = unix.Kill(pid, unix.SIGTERM)
		_ = unix.Kill(pid, unix.SIGCONT)
	}
	for {
		k.mu.Lock()
		until := k.deadline
		k.mu.Unlock()
		if k.tree.await(until, k.wake) {
			return true
		}
		k.mu.Lock()
		same := k.deadline.Equal(until)
		k.mu.Unlock()
		if same || time.Until(until) <= 0 {
			return false
		}
		k.drainWake()
	}
}

func (k *killer) drainWake() {
	var b [8]byte
	_, _ = unix.Read(k.wake, b[:])
}

func (k *killer) finish() {
	k.mu.Lock()
	if k.wake >= 0 {
		_ = unix.Close(k.wake)
		k.wake = -1
	}
	k.mu.Unlock()
	close(k.done)
}
