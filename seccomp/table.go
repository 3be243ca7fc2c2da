package seccomp

import (
	"github.com/opencontainers/runtime-spec/specs-go"
)

// The profiles' names.
const (
	// Strict is for code that nobody has read; every run has it unless told
	// otherwise. Compilers, interpreters and package managers run under it.
	Strict = "strict"
	// Default adds what debuggers, sanitizers and databases need.
	Default = "default"
	// Debug adds address space layout control to Default, and nothing else.
	Debug = "debug"
)

// Names lists the profiles from the narrowest to the widest.
func Names() []string { return []string{Strict, Default, Debug} }

// a table says how one profile differs from the base list.
type table struct {
	// add names calls that are allowed beyond the narrowest profile.
	add []string
	// personalities are the further values that personality(2) takes.
	personalities []uint64
	// anyInetProtocol allows ICMP, SCTP, MPTCP and so on, not just TCP and UDP.
	anyInetProtocol bool
}

func tableOf(name string) (table, bool) {
	wide := []string{
		// One process looking into another of the same user: gdb, strace,
		// delve, and the leak sanitizer at the end of every test binary.
		"ptrace", "process_vm_readv", "process_vm_writev",
		// Kernel AIO and message queues: databases and their tests.
		"io_cancel", "io_destroy", "io_getevents", "io_pgetevents", "io_pgetevents_time64",
		"io_setup", "io_submit",
		"mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive", "mq_timedreceive_time64",
		"mq_timedsend", "mq_timedsend_time64", "mq_unlink",
		"msgctl", "msgget", "msgrcv", "msgsnd",
		"modify_ldt", "name_to_handle_at",
	}
	switch name {
	case Strict:
		return table{}, true
	case Default:
		return table{add: wide, anyInetProtocol: true}, true
	case Debug:
		return table{
			add:             append(wide, "kcmp", "pidfd_getfd"),
			personalities:   []uint64{addrNoRandomize},
			anyInetProtocol: true,
		}, true
	}
	return table{}, false
}

// Values of personality(2), from linux/personality.h.
const (
	perLinux32      = 0x0008
	uname26         = 0x20000
	addrNoRandomize = 0x40000
)

// withheld are calls of the base list that no profile allows unless its table
// adds them back.
func withheld() []string {
	return []string{
		// Reading, writing and advising other processes' memory.
		"ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp", "pidfd_getfd",
		// Queues and asynchronous I/O: large, rarely used, often broken.
		"io_cancel", "io_destroy", "io_getevents", "io_pgetevents", "io_pgetevents_time64",
		"io_setup", "io_submit",
		"mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive", "mq_timedreceive_time64",
		"mq_timedsend", "mq_timedsend_time64", "mq_unlink",
		"msgctl", "msgget", "msgrcv", "msgsnd",
		// Page games: vmsplice lends user pages to a pipe, remap_file_pages is
		// emulated since Linux 4.0.
		"vmsplice", "remap_file_pages",
		// File handles go round path checks; fanotify marks watch whole mounts.
		"name_to_handle_at", "fanotify_mark",
		// x86 segment descriptors.
		"modify_ldt",
		// Clock discipline: reading needs adjtimex only as root.
		"adjtimex", "clock_adjtime", "clock_adjtime64",
		// Multiplexers whose arguments cannot be seen; only foreign
		// architectures have them.
		"socketcall", "ipc",
		// Obsolete, and out of use.
		"uselib", "ustat", "sysfs", "_sysctl", "epoll_ctl_old", "epoll_wait_old",
		// Filtered by argument below.
		"socket", "socketpair", "personality",
	}
}

// absent are calls that answer ENOSYS: programs probe for them and carry on.
// clone3 is the one that the container layer allows.
func absent() []string {
	return []string{
		"clone3",
		"io_uring_enter", "io_uring_register", "io_uring_setup",
		"listmount", "statmount",
		"lsm_get_self_attr", "lsm_list_modules", "lsm_set_self_attr",
		"memfd_secret",
		"userfaultfd",
	}
}

// personalities are the values that every profile allows: Linux, 32-bit Linux,
// both with UNAME26, and the query.
func personalities() []uint64 {
	return []uint64{0, perLinux32, uname26, uname26 | perLinux32, 0xffffffff}
}

// architectures are those that a box can have, without their sub-architectures.
func architectures() []specs.Arch {
	return []specs.Arch{specs.ArchX86_64, specs.ArchAARCH64}
}
