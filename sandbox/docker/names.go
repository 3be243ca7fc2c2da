package docker

import "path"

// Where things are in a box; those of the agent are in its launch contract.
const (
	homeTarget = "/home/sandbox"
	scratch    = "/tmp"
)

// Labels of every container and volume of ours. An owner is one service: two
// services on one engine leave each other's boxes alone.
const (
	labelOwner = "io.sandboxd.owner"
	labelRun   = "io.sandboxd.run"
)

// agentUser is the agent's user inside the box; commands get commandUser.
const (
	agentUser   = "0:0"
	commandUser = 1000
)

// DefaultImage is the image of a box whose spec names none.
const DefaultImage = "sandboxd/base"

const (
	maxShmBytes = 64 << 20
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

// maskedPaths are unreadable in a box: the engine's own list up to now, so that
// an old engine masks as much as a new one, and what tells about the kernel.
func maskedPaths() []string {
	return []string{
		"/proc/acpi", "/proc/asound", "/proc/config.gz", "/proc/interrupts",
		"/proc/kallsyms", "/proc/kcore", "/proc/keys", "/proc/kmsg",
		"/proc/latency_stats", "/proc/sched_debug", "/proc/scsi",
		"/proc/timer_list", "/proc/timer_stats", "/proc/vmallocinfo",
		"/sys/devices/virtual/powercap", "/sys/firmware", "/sys/kernel",
	}
}

// readonlyPaths are the engine's own list.
func readonlyPaths() []string {
	return []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
}
