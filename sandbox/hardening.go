package sandbox

import (
	"slices"
	"strings"
)

// What every box looks like, whichever driver makes it.
const (
	// HomePath is HOME of commands and ScratchPath the place for temporary
	// files; both are writable, empty at first, and in memory.
	HomePath    = "/home/sandbox"
	ScratchPath = "/tmp"
	// CommandUser is the uid and gid of commands.
	CommandUser = 1000
)

// MaskedPaths are unreadable in a box: what every engine masks by now, so that
// an old one masks as much as a new one, and what tells about the kernel.
func MaskedPaths() []string {
	return []string{
		"/proc/acpi", "/proc/asound", "/proc/config.gz", "/proc/interrupts",
		"/proc/kallsyms", "/proc/kcore", "/proc/keys", "/proc/kmsg",
		"/proc/latency_stats", "/proc/sched_debug", "/proc/scsi",
		"/proc/timer_list", "/proc/timer_stats", "/proc/vmallocinfo",
		"/sys/devices/virtual/powercap", "/sys/firmware", "/sys/kernel",
	}
}

// ReadonlyPaths hold switches of the kernel.
func ReadonlyPaths() []string {
	return []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
}

// systemPaths are places in a box that no mount of a caller may cover: what the
// agent and the loader trust, and what the runtime mounts.
func systemPaths() []string {
	return []string{"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/root", "/run", "/sbin", "/sys", "/usr"}
}

// SystemPath tells whether a mount at the clean absolute path p would hide a
// part of the system: at such a place, below it, or above it.
func SystemPath(p string) bool {
	return p != HomePath && Under(HomePath, p) ||
		slices.ContainsFunc(systemPaths(), func(s string) bool { return Under(p, s) || Under(s, p) })
}

// Under tells whether p is dir or below it; both are clean absolute paths.
func Under(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}
