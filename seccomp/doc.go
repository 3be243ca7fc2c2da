// Package seccomp holds the system call profiles of the boxes and is their one
// source: strict.json, default.json and debug.json beside this file are
// generated from it (go generate), and a test fails when they differ.
//
// A profile starts from the Moby project's current list (never from the list
// that happens to be built into the engine), and takes away:
//
//   - everything that depends on a capability: boxes have none;
//   - every foreign architecture: an x86 binary could otherwise reach any
//     socket family through socketcall(2), whose arguments lie behind a pointer
//     and cannot be looked at;
//   - socket families but unix, inet, inet6 and netlink ROUTE;
//   - what only eases attacks on the kernel (table.go says what and why).
//
// What is refused answers EPERM; interfaces that programs try first and have a
// fallback for answer ENOSYS, so that the fallback is taken. Foreign
// architectures are killed by SIGSYS.
//
// There are two layers. The container runs under [Container], the run's profile
// plus clone3, because the agent creates commands right inside their cgroup
// (CLONE_INTO_CGROUP exists in clone3 only). Every command then gets
// [CommandFilter] on top before exec: clone3 keeps its flags behind a pointer
// and would let an unprivileged user make namespaces. Together the two are
// [Profile], and a command must never run with one of them alone.
package seccomp

//go:generate go test . -run TestGeneratedFilesAgreeWithTheSource -update
