package docker

import "path"

// Labels of every container and volume of ours. An owner is one service: two
// services on one engine leave each other's boxes alone.
const (
	labelOwner = "io.sandboxd.owner"
	labelRun   = "io.sandboxd.run"
)

// agentUser is the agent's user inside the box.
const agentUser = "0:0"

// DefaultImage is the image of a box whose spec names none.
const DefaultImage = "sandboxd/base"

const (
	maxShmBytes = 64 << 20
	// shmTarget is where POSIX shared memory is.
	shmTarget = "/dev/shm"
	// emptyBytes bounds a tmpfs that only takes a place.
	emptyBytes = 64 << 10
)

// containerName names a run's container. One run has one container: a second
// create of the same run is refused by the engine itself.
func containerName(owner, run string) string { return "sandboxd-" + owner + "-" + run }

// cgroupParent is the end of the path of a box's own cgroup, in every hierarchy.
func cgroupParent(owner, run string) string { return path.Join("/sandboxd-"+owner, run) }

// agentCapabilities are what the agent starts commands as another user with,
// and kills them.
func agentCapabilities() []string { return []string{"SETUID", "SETGID", "KILL"} }
