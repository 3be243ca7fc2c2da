package agent

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A user is whom commands and file work run as; nil is the agent's own.
type user struct{ uid, gid int }

// workers are the threads that do file work with the user's rights.
type workers struct{ jobs chan func() }

// newWorkers starts n threads. Their goroutines stay locked: a thread that has
// changed its fsuid must never run anything else, and ends with its goroutine.
func newWorkers(n int, u *user) (*workers, error) {
	w := &workers{jobs: make(chan func())}
	ready := make(chan error, n)
	for range n {
		go w.run(u, ready)
	}
	for range n {
		if err := <-ready; err != nil {
			w.close()
			return nil, err
		}
	}
	return w, nil
}

func (w *workers) run(u *user, ready chan<- error) {
	runtime.LockOSThread() // never unlocked
	if err := u.assume(); err != nil {
		ready <- err
		return
	}
	ready <- nil
	for job := range w.jobs {
		job()
	}
}

// assume gives the calling thread the user's rights to files. The raw calls
// change one thread only; glibc's and Go's wrappers would change all.
func (u *user) assume() error {
	if u == nil {
		return nil
	}
	if err := setgroups(nil); err != nil {
		return err
	}
	for _, call := range []struct {
		nr uintptr
		id int
	}{{unix.SYS_SETFSGID, u.gid}, {unix.SYS_SETFSUID, u.uid}} {
		// These calls return the previous id and never fail; a second call
		// with an impossible one tells what is in force.
		_, _, _ = unix.RawSyscall(call.nr, uintptr(call.id), 0, 0)
		if now, _, _ := unix.RawSyscall(call.nr, ^uintptr(0), 0, 0); int(now) != call.id {
			return fmt.Errorf("file work cannot be done as user %d, group %d", u.uid, u.gid)
		}
	}
	return nil
}

// do runs f on one of the threads and waits for it.
func (w *workers) do(f func()) {
	done := make(chan struct{})
	w.jobs <- func() {
		defer close(done)
		f()
	}
	<-done
}

func (w *workers) close() { close(w.jobs) }

// own runs f, which makes raw system calls only, so that what it creates
// belongs to the user, and has the thread be the agent's again.
func (u *user) own(f func()) {
	if u == nil {
		f()
		return
	}
	runtime.LockOSThread()
	_, _, _ = unix.RawSyscall(unix.SYS_SETFSUID, uintptr(u.uid), 0, 0)
	f()
	// Back to the effective user id, which is always allowed.
	_, _, _ = unix.RawSyscall(unix.SYS_SETFSUID, uintptr(unix.Geteuid()), 0, 0)
	runtime.UnlockOSThread()
}

// setgroups changes the supplementary groups of the calling thread only.
func setgroups(list []uint32) error {
	var p unsafe.Pointer
	if len(list) > 0 {
		p = unsafe.Pointer(&list[0])
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(list)), uintptr(p), 0); e != 0 {
		return fmt.Errorf("setgroups: %w", e)
	}
	return nil
}
