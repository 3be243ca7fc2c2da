package oci_test

import (
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/oci"
)

var update = flag.Bool("update", false, "write the golden files anew")

func config(t *testing.T) *specs.Spec {
	t.Helper()
	c, err := oci.BoxConfig(sandbox.Spec{RunID: "run-1", Limits: sandbox.DefaultLimits()})
	require.NoError(t, err)
	return c
}

func TestConfigIsTheGoldenOne(t *testing.T) {
	c := config(t)
	require.NoError(t, oci.AssertHardened(c))
	// The profile has golden files of its own, in package seccomp.
	require.NotNil(t, c.Linux.Seccomp)
	c.Linux.Seccomp = nil
	got, err := json.MarshalIndent(c, "", "  ")
	require.NoError(t, err)
	const golden = "testdata/config.json"
	if *update {
		require.NoError(t, os.WriteFile(golden, append(got, '\n'), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got)+"\n", "a change of what every box is must be meant: go test -update")
}

// at returns the mount at a place in the box.
func at(t *testing.T, c *specs.Spec, target string) *specs.Mount {
	t.Helper()
	for i := range c.Mounts {
		if c.Mounts[i].Destination == target {
			return &c.Mounts[i]
		}
	}
	require.FailNow(t, "no mount", target)
	return nil
}

func TestEveryWeakerConfigIsRefused(t *testing.T) {
	type change func(t *testing.T, c *specs.Spec)
	mount := func(target string, f func(m *specs.Mount)) change {
		return func(t *testing.T, c *specs.Spec) { f(at(t, c, target)) }
	}
	drop := func(target string) change {
		return func(t *testing.T, c *specs.Spec) {
			m := at(t, c, target)
			*m = specs.Mount{Destination: "/data", Type: "bind", Source: "/srv/data", Options: []string{"rbind", "rprivate", "nosuid", "nodev"}}
		}
	}
	without := func(target, option string) change {
		return mount(target, func(m *specs.Mount) {
			var kept []string
			for _, o := range m.Options {
				if o != option {
					kept = append(kept, o)
				}
			}
			m.Options = kept
		})
	}
	with := func(target, option string) change {
		return mount(target, func(m *specs.Mount) { m.Options = append(m.Options, option) })
	}
	add := func(source, target string, options ...string) change {
		return func(_ *testing.T, c *specs.Spec) {
			c.Mounts = append(c.Mounts, specs.Mount{Destination: target, Type: "bind", Source: source, Options: append(options, "rprivate", "nosuid", "nodev")})
		}
	}
	plain := func(f func(c *specs.Spec)) change { return func(_ *testing.T, c *specs.Spec) { f(c) } }
	namespace := func(kind specs.LinuxNamespaceType, f func(n []specs.LinuxNamespace, i int) []specs.LinuxNamespace) change {
		return func(_ *testing.T, c *specs.Spec) {
			for i, n := range c.Linux.Namespaces {
				if n.Type == kind {
					c.Linux.Namespaces = f(c.Linux.Namespaces, i)
					return
				}
			}
		}
	}
	cut := func(n []specs.LinuxNamespace, i int) []specs.LinuxNamespace { return append(n[:i:i], n[i+1:]...) }

	for name, weaken := range map[string]change{
		"no process":             plain(func(c *specs.Spec) { c.Process = nil }),
		"no linux":               plain(func(c *specs.Spec) { c.Linux = nil }),
		"no resources":           plain(func(c *specs.Spec) { c.Linux.Resources = nil }),
		"writable root":          plain(func(c *specs.Spec) { c.Root.Readonly = false }),
		"the host's root":        plain(func(c *specs.Spec) { c.Root.Path = "/" }),
		"the host's name":        plain(func(c *specs.Spec) { c.Hostname = "build-7" }),
		"hooks":                  plain(func(c *specs.Spec) { c.Hooks = &specs.Hooks{Poststart: []specs.Hook{{Path: "/bin/sh"}}} }),
		"annotations":            plain(func(c *specs.Spec) { c.Annotations = map[string]string{"run.oci.keep_original_groups": "1"} }),
		"another user":           plain(func(c *specs.Spec) { c.Process.User.AdditionalGids = []uint32{0, 999} }),
		"another program":        plain(func(c *specs.Spec) { c.Process.Args = []string{"/bin/sh"} }),
		"a further argument":     plain(func(c *specs.Spec) { c.Process.Args = append(c.Process.Args, "--debug") }),
		"environment":            plain(func(c *specs.Spec) { c.Process.Env = []string{"TOKEN=1"} }),
		"another directory":      plain(func(c *specs.Spec) { c.Process.Cwd = "/proc/self/fd/7" }),
		"a terminal":             plain(func(c *specs.Spec) { c.Process.Terminal = true }),
		"no capability set":      plain(func(c *specs.Spec) { c.Process.Capabilities = nil }),
		"a further bound":        plain(func(c *specs.Spec) { c.Process.Capabilities.Bounding = []string{"CAP_SYS_ADMIN"} }),
		"a further permission":   plain(func(c *specs.Spec) { c.Process.Capabilities.Permitted = []string{"CAP_DAC_OVERRIDE"} }),
		"ambient capabilities":   plain(func(c *specs.Spec) { c.Process.Capabilities.Ambient = []string{"CAP_KILL"} }),
		"inheritable ones":       plain(func(c *specs.Spec) { c.Process.Capabilities.Inheritable = []string{"CAP_KILL"} }),
		"new privileges":         plain(func(c *specs.Spec) { c.Process.NoNewPrivileges = false }),
		"apparmor unconfined":    plain(func(c *specs.Spec) { c.Process.ApparmorProfile = "unconfined" }),
		"an selinux label":       plain(func(c *specs.Spec) { c.Process.SelinuxLabel = "system_u:system_r:spc_t:s0" }),
		"a spared box":           plain(func(c *specs.Spec) { spare := -1000; c.Process.OOMScoreAdj = &spare }),
		"core files":             plain(func(c *specs.Spec) { c.Process.Rlimits[0].Hard = 1 }),
		"a missing rlimit":       plain(func(c *specs.Spec) { c.Process.Rlimits = c.Process.Rlimits[:2] }),
		"an endless rlimit":      plain(func(c *specs.Spec) { c.Process.Rlimits[1].Hard = ^uint64(0) }),
		"a switch of the kernel": plain(func(c *specs.Spec) { c.Linux.Sysctl["net.ipv4.ip_forward"] = "1" }),
		"another port start":     plain(func(c *specs.Spec) { c.Linux.Sysctl["net.ipv4.ip_unprivileged_port_start"] = "80" }),
		"another's cgroup":       plain(func(c *specs.Spec) { c.Linux.CgroupsPath = "/docker/run-1/box" }),
		"no cgroup":              plain(func(c *specs.Spec) { c.Linux.CgroupsPath = "" }),
		"a cgroup with dots":     plain(func(c *specs.Spec) { c.Linux.CgroupsPath = "/sandboxd-owner/../docker/box" }),
		"mapped users":           plain(func(c *specs.Spec) { c.Linux.UIDMappings = []specs.LinuxIDMapping{{Size: 1}} }),
		"a device":               plain(func(c *specs.Spec) { c.Linux.Devices = []specs.LinuxDevice{{Path: "/dev/kvm"}} }),
		"a network device":       plain(func(c *specs.Spec) { c.Linux.NetDevices = map[string]specs.LinuxNetDevice{"eth0": {}} }),
		"shared propagation":     plain(func(c *specs.Spec) { c.Linux.RootfsPropagation = "shared" }),
		"a personality":          plain(func(c *specs.Spec) { c.Linux.Personality = &specs.LinuxPersonality{} }),
		"allowed devices": plain(func(c *specs.Spec) {
			c.Linux.Resources.Devices = append(c.Linux.Resources.Devices, specs.LinuxDeviceCgroup{Allow: true, Access: "rwm"})
		}),
		"devices not denied": plain(func(c *specs.Spec) { c.Linux.Resources.Devices = nil }),
		"endless memory":     plain(func(c *specs.Spec) { *c.Linux.Resources.Memory.Limit = -1 }),
		"no memory limit":    plain(func(c *specs.Spec) { c.Linux.Resources.Memory = nil }),
		"swap beside memory": plain(func(c *specs.Spec) { swap := int64(1) << 40; c.Linux.Resources.Memory.Swap = &swap }),
		"no memory killer":   plain(func(c *specs.Spec) { off := true; c.Linux.Resources.Memory.DisableOOMKiller = &off }),
		"endless processor":  plain(func(c *specs.Spec) { *c.Linux.Resources.CPU.Quota = -1 }),
		"real time":          plain(func(c *specs.Spec) { rt := int64(1); c.Linux.Resources.CPU.RealtimeRuntime = &rt }),
		"endless pids":       plain(func(c *specs.Spec) { *c.Linux.Resources.Pids.Limit = -1 }),
		"unified settings":   plain(func(c *specs.Spec) { c.Linux.Resources.Unified = map[string]string{"memory.max": "max"} }),
		"no profile":         plain(func(c *specs.Spec) { c.Linux.Seccomp = nil }),
		"a wider profile":    plain(func(c *specs.Spec) { c.Linux.Seccomp.DefaultAction = specs.ActAllow }),
		"a wider call": plain(func(c *specs.Spec) {
			c.Linux.Seccomp.Syscalls = append(c.Linux.Seccomp.Syscalls, specs.LinuxSyscall{Names: []string{"bpf"}, Action: specs.ActAllow})
		}),
		"an unmasked path":  plain(func(c *specs.Spec) { c.Linux.MaskedPaths = c.Linux.MaskedPaths[1:] }),
		"no masked paths":   plain(func(c *specs.Spec) { c.Linux.MaskedPaths = nil }),
		"a writable switch": plain(func(c *specs.Spec) { c.Linux.ReadonlyPaths = c.Linux.ReadonlyPaths[:4] }),
		"host pid":          namespace(specs.PIDNamespace, cut),
		"host mount":        namespace(specs.MountNamespace, cut),
		"host ipc":          namespace(specs.IPCNamespace, cut),
		"host uts":          namespace(specs.UTSNamespace, cut),
		"host network":      namespace(specs.NetworkNamespace, cut),
		"host cgroup":       namespace(specs.CgroupNamespace, cut),
		"another's network": namespace(specs.NetworkNamespace, func(n []specs.LinuxNamespace, i int) []specs.LinuxNamespace { n[i].Path = "/proc/1/ns/net"; return n }),
		"a user namespace": plain(func(c *specs.Spec) {
			c.Linux.Namespaces = append(c.Linux.Namespaces, specs.LinuxNamespace{Type: specs.UserNamespace})
		}),
		"the host's proc": mount("/proc", func(m *specs.Mount) {
			*m = specs.Mount{Destination: "/proc", Type: "bind", Source: "/proc", Options: []string{"rbind", "rprivate", "nosuid", "nodev"}}
		}),
		"the host's dev": mount("/dev", func(m *specs.Mount) {
			*m = specs.Mount{Destination: "/dev", Type: "bind", Source: "/dev", Options: []string{"rbind", "rprivate", "nosuid", "nodev"}}
		}),
		"writable sys":        without("/sys", "ro"),
		"writable cgroups":    without("/sys/fs/cgroup", "ro"),
		"suid in dev":         without("/dev", "nosuid"),
		"suid in tmp":         without("/tmp", "nosuid"),
		"devices in tmp":      with("/tmp", "dev"),
		"endless tmp":         mount("/tmp", func(m *specs.Mount) { m.Options = []string{"nosuid", "nodev", "mode=1777"} }),
		"tmp of size zero":    mount("/tmp", func(m *specs.Mount) { m.Options = []string{"nosuid", "nodev", "size=0"} }),
		"tmp of any files":    mount("/tmp", func(m *specs.Mount) { m.Options = []string{"nosuid", "nodev", "size=1"} }),
		"no tmp":              drop("/tmp"),
		"no proc":             drop("/proc"),
		"no agent":            drop("/run/sandboxd/agent"),
		"a writable agent":    without("/run/sandboxd/agent", "ro"),
		"writable programs":   without("/usr", "ro"),
		"recursive read-only": mount("/usr", func(m *specs.Mount) { m.Options[0] = "rbind" }),
		"devices in programs": without("/usr", "nodev"),
		"shared programs":     with("/usr", "rshared"),
		"unprivate workspace": without("/workspace", "rprivate"),
		"read-only and not":   with("/usr", "rw"),
		"the host's etc":      mount("/etc", func(m *specs.Mount) { m.Source = "/etc" }),
		"the root as bind":    add("/", "/host", "rbind"),
		"the engine's socket": add("/srv/docker.sock", "/engine", "rbind"),
		"the run directory":   add("/var/run", "/engine", "rbind"),
		"what holds it":       add("/var", "/engine", "rbind"),
		"the host's ssh keys": add("/root", "/keys", "bind", "ro"),
		"a relative source":   add("../etc", "/x", "rbind"),
		"dots in a source":    add("/srv/../etc", "/x", "rbind"),
		"dots in a target":    add("/srv", "/x/../usr", "rbind"),
		"over the agent's":    add("/srv", "/run", "rbind"),
		"in the agent's":      add("/srv", "/run/sandboxd/x", "rbind"),
		"over programs":       add("/srv", "/usr/bin", "rbind"),
		"over proc":           add("/srv", "/proc/sys", "bind", "ro"),
		"over everything":     add("/srv", "/", "rbind"),
		"hiding the home":     add("/srv", "/home", "rbind"),
		"twice":               add("/srv", "/workspace", "rbind"),
		"another's cgroups":   mount("/run/sandboxd/cgroup/unified", func(m *specs.Mount) { m.Source = "/sys/fs/cgroup/unified/docker" }),
		"all cgroups":         mount("/run/sandboxd/cgroup/pids", func(m *specs.Mount) { m.Source = "/sys/fs/cgroup/pids" }),
		"memory's cgroup":     mount("/run/sandboxd/cgroup/pids", func(m *specs.Mount) { m.Source = "/sys/fs/cgroup/memory/sandboxd-owner/run-1" }),
		"mapped mount users":  mount("/workspace", func(m *specs.Mount) { m.UIDMappings = []specs.LinuxIDMapping{{Size: 1}} }),
		"a further tmpfs": plain(func(c *specs.Spec) {
			c.Mounts = append(c.Mounts, specs.Mount{Destination: "/x", Type: "tmpfs", Options: []string{"nosuid", "nodev", "size=1"}})
		}),
		"an overlay": plain(func(c *specs.Spec) {
			c.Mounts = append(c.Mounts, specs.Mount{Destination: "/x", Type: "overlay", Options: []string{"nosuid", "nodev", "lowerdir=/"}})
		}),
		"a reserved place": add("/srv/private/x", "/x", "rbind"),
	} {
		t.Run(name, func(t *testing.T) {
			c := config(t)
			require.NoError(t, oci.AssertHardened(c, "/srv/private"), "the control: what a box really is")
			weaken(t, c)
			err := oci.AssertHardened(c, "/srv/private")
			var refused *oci.NotHardenedError
			require.ErrorAs(t, err, &refused)
		})
	}
	require.Error(t, oci.AssertHardened(nil))
}

func TestAllowedVariationsAreStillHardened(t *testing.T) {
	for name, spec := range map[string]sandbox.Spec{
		"read-only workspace elsewhere": {Workspace: sandbox.Workspace{Path: "/home/sandbox/project", ReadOnly: true}},
		"mounts": {Mounts: []sandbox.Mount{
			{Source: "/srv/data", Target: "/data", ReadOnly: true}, {Source: "/srv/cache", Target: "/var/cache/app"},
			{Source: "/srv/vendor", Target: "/workspace/vendor", ReadOnly: true},
		}},
		"other profile":  {Seccomp: "debug"},
		"small limits":   {Limits: sandbox.Limits{CPUs: 0.01, MemoryBytes: 16 << 20, Pids: 32}},
		"little scratch": {Limits: sandbox.Limits{ScratchBytes: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			spec.RunID = "run-1"
			c, err := oci.BoxConfig(spec)
			require.NoError(t, err)
			require.NoError(t, oci.AssertHardened(c))
		})
	}
}

func TestWayIntoAReadOnlyWorkspaceLeadsNowhereElse(t *testing.T) {
	c, err := oci.BoxConfig(sandbox.Spec{RunID: "run-1", Workspace: sandbox.Workspace{ReadOnly: true}})
	require.NoError(t, err)
	require.NoError(t, oci.AssertHardened(c))
	fill := at(t, c, "/run/sandboxd/fill")
	require.Equal(t, at(t, c, "/workspace").Source, fill.Source)
	fill.Source = "/srv/other"
	require.Error(t, oci.AssertHardened(c))
}

func TestSpecsThatNoBoxCanBeMadeFromAreInvalid(t *testing.T) {
	for name, spec := range map[string]sandbox.Spec{
		"no run":                {},
		"a run with a slash":    {RunID: "../x"},
		"a run with a dot":      {RunID: "."},
		"an unknown profile":    {RunID: "r", Seccomp: "none"},
		"tiny memory":           {RunID: "r", Limits: sandbox.Limits{MemoryBytes: 1 << 20}},
		"few pids":              {RunID: "r", Limits: sandbox.Limits{Pids: 3}},
		"no processor":          {RunID: "r", Limits: sandbox.Limits{CPUs: -1}},
		"workspace over usr":    {RunID: "r", Workspace: sandbox.Workspace{Path: "/usr/src"}},
		"workspace at the root": {RunID: "r", Workspace: sandbox.Workspace{Path: "/"}},
		"workspace with dots":   {RunID: "r", Workspace: sandbox.Workspace{Path: "/workspace/../etc"}},
		"relative workspace":    {RunID: "r", Workspace: sandbox.Workspace{Path: "workspace"}},
		"workspace over home":   {RunID: "r", Workspace: sandbox.Workspace{Path: "/home"}},
		"workspace over tmp":    {RunID: "r", Workspace: sandbox.Workspace{Path: "/tmp"}},
		"mount over proc":       {RunID: "r", Mounts: []sandbox.Mount{{Source: "/srv", Target: "/proc/x"}}},
		"mount over workspace":  {RunID: "r", Mounts: []sandbox.Mount{{Source: "/srv", Target: "/workspace"}}},
		"relative source":       {RunID: "r", Mounts: []sandbox.Mount{{Source: "srv", Target: "/x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := oci.BoxConfig(spec)
			require.Equal(t, sandbox.KindInvalid, sandbox.KindOf(err), "%v", err)
		})
	}
}

func TestRuncWithoutTheFixesOfNovember2025IsWarnedAbout(t *testing.T) {
	for version, warned := range map[string]bool{
		"1.1.5+ds1": true, "1.1.15": true, "1.2.7": true, "1.3.0": true, "1.3.2": true,
		"1.2.8": false, "1.2.10": false, "1.3.3": false, "1.4.0": false, "2.0.0-rc.1": false, "unknown": false, "": false,
	} {
		require.Equal(t, warned, oci.Warning(version) != "", "%q: %q", version, oci.Warning(version))
	}
	require.Equal(t, "1.1.5+ds1", oci.ParseVersion("runc version 1.1.5+ds1\ncommit: 1.1.5+ds1-1\n"))
	require.Equal(t, "unknown", oci.ParseVersion(""))
}
