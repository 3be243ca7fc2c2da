// Package agent is the program inside every box: it starts commands, kills
// their trees, and does file work, for one authenticated session at a time.
//
// In a box it is PID 1 and root with three capabilities only (SETUID, SETGID,
// KILL); commands run as the box's unprivileged user, so that nothing they do
// reaches the agent's memory, descriptors or socket. The launch contract and
// the protocol are described in package agentproto.
//
// # A command's way
//
// A command waits for a slot. A slot is an operating system thread of its own
// that has once joined the slot's v1 pids cgroup, where there is one; what it
// clones inherits that limit, and the sum of all slots' limits leaves room for
// the agent's own threads. The thread clones the command straight into the
// slot's cgroup2 directory (package spawn) and then waits for it, so exits
// need no signal and no dispatcher. Orphans come to the main thread, which
// reaps them ([Reap]); the two never wait for each other's children.
//
// When a command ends, what it left behind is killed and counted; a kill asked
// for goes up the ladder: SIGTERM to all, the grace, then cgroup.kill, or,
// without cgroup2, SIGSTOP to every member until none is new, then SIGKILL.
// Members are then known by a supplementary group that each command gets for
// itself and that no unprivileged process can shed.
//
// # File work
//
// A few locked threads carry the user's fsuid, fsgid and groups and are never
// given back; package workspace does the work on them.
package agent
