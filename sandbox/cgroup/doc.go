// Package cgroup makes and removes the cgroups that boxes live in, and reads
// what happened in them.
//
// A service owns one directory, /sandboxd-<owner>, in every hierarchy of the
// machine; each run has a directory below it, the parent of its box's cgroup:
//
//	/sandboxd-<owner>/<run>                 made here, named to the engine or runtime
//	/sandboxd-<owner>/<run>/<container>     made by the runtime
//	/sandboxd-<owner>/<run>/<container>/…   made by the agent, a cgroup a command
//
// The run's directories are bound into the box ([Dirs]), so that the agent can
// make a cgroup for each command and end it with all its descendants. They have
// to exist before the box does, and nobody but the service removes them: the
// runtime removes its own level only. [Tree.Destroy] therefore works bottom-up
// and takes whatever it finds below, processes included.
//
// Three layouts exist (cgroups(7)). v1 has a hierarchy a controller; hybrid is
// v1 and beside it a cgroup2 tree without controllers, which still has
// cgroup.kill; v2 is one tree. By construction a [Tree] reaches nothing outside
// its owner's directory: callers name runs, not paths.
//
// It is the only package that imports containerd/cgroups.
package cgroup
