// Package docker makes boxes with a Docker engine. It is the only place where
// the engine's client is used.
//
// # A box's life
//
// [Driver.Create] looks the image up, makes the run's directories and cgroup,
// builds one create request from all that (a pure function, body.go), has
// [AssertHardened] check it, creates and starts the container, and opens the
// session with the agent, which is the container's first process. Each step
// puts its reversal on an undo stack: on an error the stack is run, on success
// it becomes the box's removal. From then on the engine is needed only to watch
// for the container's end and to remove it: commands and file work go over the
// session.
//
// # What the engine is not trusted with
//
// Its built-in system call profile (older than the engine), its log files (not
// bounded), its health checks (run as root), its init (the agent is PID 1),
// docker exec (slow, and its children outlive it) and the image's own ideas of
// entrypoint, user, volumes and directory. Nothing secret is in the create
// request, which everyone who may inspect the container can read.
//
// # Two ways to the agent
//
// Where service and engine share a host (checked with a file that the engine
// is asked to read back, not guessed), the agent listens on a unix socket in a
// directory that only root may enter, and the box has a cgroup for each command
// in a tree that belongs to the run alone. Elsewhere the session runs over the
// container's attached standard input and output, agent and workspace are named
// volumes, and commands are killed by walking their tree; [sandbox.Facts] says
// so.
//
// # Invariants
//
//   - No create request is sent that AssertHardened has not passed.
//   - What Create made is found again by its labels, names and directory alone,
//     so [Driver.Reconcile] can clean up after a service that was killed.
//   - Containers, volumes, cgroups and directories of another owner are never
//     touched.
package docker
