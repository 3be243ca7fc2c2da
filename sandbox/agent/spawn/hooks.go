package spawn

import _ "unsafe" // for go:linkname

// The runtime's hooks around a fork, which package syscall uses in the same
// way: they block signals, forbid the stack to grow, and reset the child's
// signal handlers.

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()
