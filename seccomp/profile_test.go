package seccomp_test

import (
	"encoding/json"
	"flag"
	"os"
	"slices"
	"testing"

	moby "github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/sandboxd/sandboxd/seccomp"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestGeneratedFilesAgreeWithTheSource(t *testing.T) {
	for _, name := range seccomp.Names() {
		want, err := seccomp.ProfileJSON(name)
		require.NoError(t, err)
		file := name + ".json"
		if *update {
			require.NoError(t, os.WriteFile(file, want, 0o644))
		}
		got, err := os.ReadFile(file)
		require.NoError(t, err, "run go generate ./seccomp")
		require.Equal(t, string(want), string(got), "%s is stale: run go generate ./seccomp", file)
	}
}

var update = flag.Bool("update", false, "write the generated profiles")

// forbiddenAlways may be allowed by no profile in any form.
var forbiddenAlways = []string{
	"acct", "add_key", "afs_syscall", "bpf", "chroot", "clock_settime", "clock_settime64",
	"delete_module", "fanotify_init", "fanotify_mark", "finit_module", "fsconfig", "fsmount",
	"fsopen", "fspick", "init_module", "io_uring_enter", "io_uring_register", "io_uring_setup",
	"ioperm", "iopl", "ipc", "kexec_file_load", "kexec_load", "keyctl", "listmount",
	"lookup_dcookie", "lsm_get_self_attr", "lsm_list_modules", "lsm_set_self_attr",
	"memfd_secret", "migrate_pages", "mount", "mount_setattr", "move_mount", "move_pages",
	"nfsservctl", "open_by_handle_at", "open_tree", "open_tree_attr", "perf_event_open",
	"pivot_root", "process_madvise", "quotactl", "quotactl_fd", "reboot", "remap_file_pages",
	"request_key", "setdomainname", "sethostname", "setns", "settimeofday", "socketcall",
	"statmount", "stime", "swapoff", "swapon", "syslog", "umount", "umount2", "unshare",
	"uselib", "userfaultfd", "ustat", "vhangup", "vm86", "vm86old", "vmsplice", "_sysctl",
	"adjtimex", "clock_adjtime",
}

// forbiddenStrict may further not be allowed by the strict profile.
var forbiddenStrict = []string{
	"kcmp", "modify_ldt", "mq_open", "msgget", "msgsnd", "name_to_handle_at", "pidfd_getfd",
	"process_vm_readv", "process_vm_writev", "ptrace", "io_setup", "io_submit",
}

func TestNoForbiddenCallIsAllowed(t *testing.T) {
	for _, name := range seccomp.Names() {
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile(name + ".json")
			require.NoError(t, err)
			var p moby.Seccomp
			require.NoError(t, json.Unmarshal(raw, &p))
			allowed := map[string]bool{}
			for _, rule := range p.Syscalls {
				if rule.Action == specs.ActAllow {
					for _, n := range rule.Names {
						allowed[n] = true
					}
				}
			}
			require.True(t, allowed["execve"], "control: the parser finds allowed calls")
			for _, n := range forbiddenAlways {
				require.False(t, allowed[n], "%s allows %s", name, n)
			}
			require.False(t, allowed["clone3"], "only the container layer has clone3")
			for _, n := range forbiddenStrict {
				if name == seccomp.Strict {
					require.False(t, allowed[n], "strict allows %s", n)
				}
			}
			require.Equal(t, name == seccomp.Debug, allowed["kcmp"])
			require.Equal(t, name != seccomp.Strict, allowed["ptrace"])
		})
	}
}

func TestNoRuleDependsOnCapabilitiesKernelOrForeignArchitectures(t *testing.T) {
	for _, name := range seccomp.Names() {
		raw, err := seccomp.DockerJSON(name)
		require.NoError(t, err)
		var p moby.Seccomp
		require.NoError(t, json.Unmarshal(raw, &p))
		require.Equal(t, specs.ActErrno, p.DefaultAction)
		require.EqualValues(t, unix.EPERM, *p.DefaultErrnoRet)
		require.Len(t, p.ArchMap, 2)
		for _, a := range p.ArchMap {
			require.Empty(t, a.SubArches)
		}
		for _, rule := range p.Syscalls {
			require.NotEmpty(t, rule.Names)
			require.Nil(t, rule.Excludes)
			if rule.Includes != nil {
				require.Empty(t, rule.Includes.Caps)
				require.Nil(t, rule.Includes.MinKernel)
			}
		}
	}
}

func TestContainerLayerIsTheProfilePlusClone3AndNothingElse(t *testing.T) {
	for _, name := range seccomp.Names() {
		inner, err := seccomp.Profile(name)
		require.NoError(t, err)
		outer, err := seccomp.Container(name)
		require.NoError(t, err)
		require.Len(t, outer.Architectures, 1)

		added := flat(outer)
		for rule := range flat(inner) {
			if slices.Contains([]string{"clone3 SCMP_ACT_ERRNO 38 null"}, rule) {
				continue
			}
			require.Contains(t, added, rule)
			delete(added, rule)
		}
		require.Equal(t, map[string]bool{"clone3 SCMP_ACT_ALLOW 0 null": true}, added)
	}
}

func TestContainerLayerAllowsWhatTheAgentNeeds(t *testing.T) {
	needs := []string{
		"setuid", "setgid", "setgroups", "setfsuid", "setfsgid", "kill", "prctl", "capset", "capget",
		"openat2", "renameat2", "linkat", "unlinkat", "mkdirat", "symlinkat", "readlinkat", "clone3",
		"clone", "vfork", "execve", "execveat", "epoll_create1", "epoll_ctl", "epoll_pwait", "eventfd2",
		"seccomp", "wait4", "waitid", "pidfd_open", "pidfd_send_signal", "setsid", "dup3", "prlimit64",
		"accept4", "bind", "listen", "connect", "shutdown", "getsockopt", "setsockopt", "sendmsg",
		"recvmsg", "fdatasync", "fsync", "fallocate", "ftruncate", "getdents64", "statx", "newfstatat",
		"copy_file_range", "splice", "utimensat", "fchmod", "fchmodat", "futex", "ioctl", "inotify_init1",
		"close_range", "memfd_create", "getrandom", "sched_getaffinity", "rt_sigaction", "tgkill", "mmap",
		"madvise", "nanosleep", "clock_nanosleep", "setrlimit", "umask", "getrusage", "pipe2",
	}
	for _, name := range seccomp.Names() {
		p, err := seccomp.Container(name)
		require.NoError(t, err)
		rules := flat(p)
		for _, n := range needs {
			if n == "clone" {
				continue // allowed by argument
			}
			require.Contains(t, rules, n+" SCMP_ACT_ALLOW 0 null", name)
		}
	}
}

func TestUnknownProfileIsRefusedByName(t *testing.T) {
	for _, name := range []string{"", "unconfined", "Strict", "../strict"} {
		_, err := seccomp.Profile(name)
		require.ErrorContains(t, err, "strict")
		_, err = seccomp.Container(name)
		require.Error(t, err)
		_, err = seccomp.DockerJSON(name)
		require.Error(t, err)
		_, err = seccomp.CommandFilter(name)
		require.Error(t, err)
	}
}

// flat gives every rule of a profile, a call each, as text.
func flat(p *specs.LinuxSeccomp) map[string]bool {
	out := map[string]bool{}
	for _, rule := range p.Syscalls {
		args, err := json.Marshal(rule.Args)
		if err != nil {
			panic(err)
		}
		errno := uint(0)
		if rule.ErrnoRet != nil {
			errno = *rule.ErrnoRet
		}
		for _, n := range rule.Names {
			out[n+" "+string(rule.Action)+" "+itoa(errno)+" "+string(args)] = true
		}
	}
	return out
}

func itoa(n uint) string {
	b, err := json.Marshal(n)
	if err != nil {
		panic(err)
	}
	return string(b)
}
