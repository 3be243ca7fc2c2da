package oci

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/agentproto"
	"github.com/sandboxd/sandboxd/sandbox/cgroup"
	"github.com/sandboxd/sandboxd/seccomp"
)

// specVersion is the oldest version of the specification that knows all that a
// box asks for, so that old runtimes read it too.
const specVersion = "1.0.2"

// A plan is all that a bundle's configuration is made from.
type plan struct {
	spec sandbox.Spec // defaults filled in
	// root is the skeleton, which system's binds fill.
	root   string
	system []specs.Mount
	agent  string // the agent's binary on the host
	runDir string
	// workspace is the host's directory.
	workspace string
	// cgroup is the run's cgroup path, dirs its directories on the host.
	cgroup  string
	dirs    cgroup.Dirs
	dialect dialect
	// noSwap says that the kernel counts no swap, so none can be limited.
	noSwap bool
}

// config builds the bundle's configuration. It is a pure function of the plan.
func (p plan) config() (*specs.Spec, error) {
	profile, err := seccomp.Container(p.spec.Seccomp)
	if err != nil {
		return nil, sandbox.Invalidf("%v", err)
	}
	rescue := 100
	return &specs.Spec{
		Version:  specVersion,
		Hostname: "sandbox",
		Root:     &specs.Root{Path: p.root, Readonly: true},
		Mounts:   p.mounts(),
		Process: &specs.Process{
			Args:            []string{agentproto.AgentPath, "--socket", agentproto.SocketPath},
			Cwd:             "/",
			NoNewPrivileges: true,
			// When the whole machine is short of memory, boxes go before the
			// service.
			OOMScoreAdj: &rescue,
			Capabilities: &specs.LinuxCapabilities{
				Bounding: agentCapabilities(), Effective: agentCapabilities(), Permitted: agentCapabilities(),
			},
			Rlimits: p.rlimits(),
		},
		Linux: &specs.Linux{
			CgroupsPath:   path.Join(p.cgroup, containerName),
			Namespaces:    namespaces(),
			Resources:     p.resources(),
			Seccomp:       profile,
			MaskedPaths:   sandbox.MaskedPaths(),
			ReadonlyPaths: sandbox.ReadonlyPaths(),
			// The agent serves DNS and proxies on low ports of the box's own
			// loopback, without a capability.
			Sysctl: sysctls(),
		},
	}, nil
}

// agentCapabilities are what the agent starts commands as another user with,
// and kills them.
func agentCapabilities() []string { return []string{"CAP_KILL", "CAP_SETGID", "CAP_SETUID"} }

func sysctls() map[string]string {
	return map[string]string{"net.ipv4.ip_unprivileged_port_start": "0"}
}

// namespaces are all new ones. An empty network has its loopback and no way out.
func namespaces() []specs.LinuxNamespace {
	return []specs.LinuxNamespace{
		{Type: specs.PIDNamespace}, {Type: specs.MountNamespace}, {Type: specs.IPCNamespace},
		{Type: specs.UTSNamespace}, {Type: specs.NetworkNamespace}, {Type: specs.CgroupNamespace},
	}
}

func (p plan) rlimits() []specs.POSIXRlimit {
	limit := func(name string, value uint64) specs.POSIXRlimit {
		return specs.POSIXRlimit{Type: name, Hard: value, Soft: value}
	}
	return []specs.POSIXRlimit{
		limit("RLIMIT_CORE", 0),
		limit("RLIMIT_FSIZE", uint64(p.spec.Limits.FileBytes)),
		limit("RLIMIT_NOFILE", uint64(p.spec.Limits.OpenFiles)),
	}
}

// cpuPeriod is the kernel's usual accounting period, in microseconds.
const cpuPeriod = 100_000

func (p plan) resources() *specs.LinuxResources {
	l := p.spec.Limits
	period, quota := uint64(cpuPeriod), max(int64(l.CPUs*cpuPeriod), 1000)
	memory := &specs.LinuxMemory{Limit: &l.MemoryBytes, Swap: &l.MemoryBytes}
	if p.noSwap {
		memory.Swap = nil
	}
	return &specs.LinuxResources{
		// Runtimes add the handful of devices that every container has.
		Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}},
		Memory:  memory,
		CPU:     &specs.LinuxCPU{Period: &period, Quota: &quota},
		Pids:    &specs.LinuxPids{Limit: &l.Pids},
	}
}

// mounts are in the order in which they are made: what is below another comes
// after it.
func (p plan) mounts() []specs.Mount {
	mounts := slices.Concat(p.system, p.fresh())
	mounts = append(mounts,
		bind(p.runDir, agentproto.Dir, false, "nosuid", "nodev"),
		bind(p.agent, agentproto.AgentPath, true, "nosuid", "nodev"))
	if p.dirs.Unified != "" {
		mounts = append(mounts, bind(p.dirs.Unified, agentproto.Cgroup2Mount, false, "nosuid", "nodev", "noexec"))
	}
	if p.dirs.Pids != "" {
		mounts = append(mounts, bind(p.dirs.Pids, agentproto.PidsMount, false, "nosuid", "nodev", "noexec"))
	}
	if p.fills() {
		mounts = append(mounts, bind(p.workspace, agentproto.FillMount, false, "nosuid", "nodev"))
	}
	mounts = append(mounts, bind(p.workspace, p.spec.Workspace.Path, p.spec.Workspace.ReadOnly, "nosuid", "nodev"))
	for _, m := range p.spec.Mounts {
		mounts = append(mounts, bind(m.Source, m.Target, m.ReadOnly, "nosuid", "nodev"))
	}
	return mounts
}

// fills tells whether the workspace is read-only in the box and the box's own:
// the agent then fills it by a way of its own.
func (p plan) fills() bool { return p.spec.Workspace.ReadOnly && p.spec.Workspace.HostDir == "" }

// fresh are the file systems that begin empty, and the kernel's own. /tmp is
// executable because compilers and package managers run what they make there;
// it and the home directory share the scratch limit by halves. Empty files
// count too: what the kernel keeps of each is the box's memory.
func (p plan) fresh() []specs.Mount {
	half := max(p.spec.Limits.ScratchBytes/2, 1<<20)
	tmpfs := func(target string, bytes int64, options ...string) specs.Mount {
		return specs.Mount{Destination: target, Type: "tmpfs", Source: "tmpfs",
			Options: append(options, "nosuid", fmt.Sprintf("size=%d", bytes), fmt.Sprintf("nr_inodes=%d", sandbox.ScratchFiles(bytes)))}
	}
	return []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		tmpfs("/dev", 64<<10, append(p.dialect.dev(), "noexec", "mode=755")...),
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts",
			Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"}},
		tmpfs("/dev/shm", min(64<<20, p.spec.Limits.MemoryBytes), "noexec", "nodev", "mode=1777"),
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
		{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"nosuid", "noexec", "nodev", "relatime", "ro"}},
		tmpfs(sandbox.ScratchPath, half, "nodev", "mode=1777"),
		tmpfs(sandbox.HomePath, half, "nodev", "mode=700", fmt.Sprintf("uid=%d", sandbox.CommandUser), fmt.Sprintf("gid=%d", sandbox.CommandUser)),
	}
}

// bind makes a bind mount that nothing propagates through. A read-only one
// leaves out what is mounted below its source, which would stay writable.
func bind(source, target string, readOnly bool, options ...string) specs.Mount {
	kind := "rbind"
	if readOnly {
		kind, options = "bind", append(options, "ro")
	}
	return specs.Mount{
		Destination: path.Clean(target), Type: "bind", Source: filepath.Clean(source),
		Options: append([]string{kind, "rprivate"}, options...),
	}
}
