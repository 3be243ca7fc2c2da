// Package oci makes boxes without a daemon: it writes an OCI bundle and calls
// an OCI runtime (runc, crun or runsc) found in PATH.
//
// A box takes these steps, each of which leaves its opposite on a stack that
// is unwound on failure and is the box's removal on success:
//
//	boxes/<run>/            the bundle, below the data directory and root's alone:
//	    run/                the agent's directory of the launch contract
//	    workspace/          the workspace, unless a host directory is bound
//	/sandboxd-<owner>/<run> the parent cgroup, in every hierarchy
//	runtime run --detach    the agent is PID 1; the runtime has exited again
//	session                 over the agent's socket
//
// The root is a skeleton of empty directories, read-only and shared by all boxes
// that mount at the same places. What fills it are read-only binds: either the machine's own /usr (and /bin, /lib
// where they are not links into it) with an /etc made of the few files that
// programs need, or the top level of an image that was unpacked below images/.
// Nothing is copied or downloaded for a box, and none of the machine's /home,
// /root, /var or /etc is in it.
//
// The configuration is a pure function of a plan (bundle.go), and whatever
// built it, [AssertHardened] is asked before the runtime sees it.
//
// The end of a box is heard, not polled for: the first process is held by a
// pidfd, whose readiness is an event.
package oci
