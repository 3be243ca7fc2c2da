package docker_test

import (
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/docker"
	"github.com/sandboxd/sandboxd/seccomp"
)

var update = flag.Bool("update", false, "write the golden files anew")

func someSpec() sandbox.Spec {
	return sandbox.Spec{
		RunID:  "run1",
		Mounts: []sandbox.Mount{{Source: "/srv/data", Target: "/mnt/data", ReadOnly: true}},
	}
}

func TestTheCreateRequestIsTheOneThatWasReviewed(t *testing.T) {
	config, host, err := docker.RequestFor(someSpec())
	require.NoError(t, err)
	require.NoError(t, docker.AssertHardened(config, host))
	for i, o := range host.SecurityOpt {
		// The profile has golden files of its own.
		if strings.HasPrefix(o, "seccomp=") {
			host.SecurityOpt[i] = "seccomp=(the strict profile)"
		}
	}
	body, err := json.MarshalIndent(map[string]any{"Config": config, "HostConfig": host}, "", "  ")
	require.NoError(t, err)
	const golden = "testdata/create.golden.json"
	if *update {
		require.NoError(t, os.WriteFile(golden, append(body, '\n'), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.JSONEq(t, string(want), string(body), "run go test -update and review the difference")
}

func TestAReadOnlyWorkspaceIsBoundReadOnly(t *testing.T) {
	spec := someSpec()
	spec.Workspace.ReadOnly = true
	_, host, err := docker.RequestFor(spec)
	require.NoError(t, err)
	i := indexOfMount(host, "/workspace")
	require.True(t, host.Mounts[i].ReadOnly)
	require.True(t, host.Mounts[i].BindOptions.NonRecursive)
}

func indexOfMount(host *container.HostConfig, target string) int {
	for i, m := range host.Mounts {
		if m.Target == target {
			return i
		}
	}
	return -1
}

// mutations each weaken a request; every one must be refused, with the setting
// named.
var mutations = []struct {
	name    string
	setting string
	do      func(*container.Config, *container.HostConfig)
}{
	{"privileged", "HostConfig.Privileged", func(_ *container.Config, h *container.HostConfig) { h.Privileged = true }},
	{"host network", "HostConfig.NetworkMode", func(_ *container.Config, h *container.HostConfig) { h.NetworkMode = "host" }},
	{"default network", "HostConfig.NetworkMode", func(_ *container.Config, h *container.HostConfig) { h.NetworkMode = "" }},
	{"another container's network", "HostConfig.NetworkMode", func(_ *container.Config, h *container.HostConfig) { h.NetworkMode = "container:x" }},
	{"host processes", "HostConfig.PidMode", func(_ *container.Config, h *container.HostConfig) { h.PidMode = "host" }},
	{"host ipc", "HostConfig.IpcMode", func(_ *container.Config, h *container.HostConfig) { h.IpcMode = "host" }},
	{"shareable ipc", "HostConfig.IpcMode", func(_ *container.Config, h *container.HostConfig) { h.IpcMode = "shareable" }},
	{"default ipc", "HostConfig.IpcMode", func(_ *container.Config, h *container.HostConfig) { h.IpcMode = "" }},
	{"host name space of names", "HostConfig.UTSMode", func(_ *container.Config, h *container.HostConfig) { h.UTSMode = "host" }},
	{"host users", "HostConfig.UsernsMode", func(_ *container.Config, h *container.HostConfig) { h.UsernsMode = "host" }},
	{"host cgroups", "HostConfig.CgroupnsMode", func(_ *container.Config, h *container.HostConfig) { h.CgroupnsMode = "host" }},
	{"default cgroup namespace", "HostConfig.CgroupnsMode", func(_ *container.Config, h *container.HostConfig) { h.CgroupnsMode = "" }},
	{"capability", "HostConfig.CapAdd", func(_ *container.Config, h *container.HostConfig) { h.CapAdd = append(h.CapAdd, "SYS_ADMIN") }},
	{"all capabilities", "HostConfig.CapAdd", func(_ *container.Config, h *container.HostConfig) { h.CapAdd = []string{"ALL"} }},
	{"no dropped capabilities", "HostConfig.CapDrop", func(_ *container.Config, h *container.HostConfig) { h.CapDrop = nil }},
	{"some dropped capabilities", "HostConfig.CapDrop", func(_ *container.Config, h *container.HostConfig) { h.CapDrop = []string{"NET_RAW"} }},
	{"device", "HostConfig.Devices", func(_ *container.Config, h *container.HostConfig) {
		h.Devices = []container.DeviceMapping{{PathOnHost: "/dev/sda"}}
	}},
	{"device rule", "HostConfig.DeviceCgroupRules", func(_ *container.Config, h *container.HostConfig) { h.DeviceCgroupRules = []string{"b *:* rwm"} }},
	{"device request", "HostConfig.DeviceRequests", func(_ *container.Config, h *container.HostConfig) {
		h.DeviceRequests = []container.DeviceRequest{{Driver: "x"}}
	}},
	{"no seccomp", "HostConfig.SecurityOpt", func(_ *container.Config, h *container.HostConfig) { h.SecurityOpt = h.SecurityOpt[:1] }},
	{"no no-new-privileges", "HostConfig.SecurityOpt", func(_ *container.Config, h *container.HostConfig) { h.SecurityOpt = h.SecurityOpt[1:] }},
	{"unconfined", "HostConfig.SecurityOpt", func(_ *container.Config, h *container.HostConfig) { h.SecurityOpt[1] = "seccomp=unconfined" }},
	{"the engine's profile", "HostConfig.SecurityOpt", func(_ *container.Config, h *container.HostConfig) { h.SecurityOpt[1] = "seccomp=builtin" }},
	{"a foreign profile", "HostConfig.SecurityOpt", func(_ *container.Config, h *container.HostConfig) {
		h.SecurityOpt[1] = `seccomp={"defaultAction":"SCMP_ACT_ALLOW"}`
	}},
	{"a profile with one more call", "HostConfig.SecurityOpt", func(_ *container.Config, h *container.HostConfig) {
		h.SecurityOpt[1] = strings.Replace(h.SecurityOpt[1], `"read"`, `"read","bpf"`, 1)
	}},
	{"apparmor off", "HostConfig.SecurityOpt", func(_ *container.Config, h *container.HostConfig) {
		h.SecurityOpt = append(h.SecurityOpt, "apparmor=unconfined")
	}},
	{"labels off", "HostConfig.SecurityOpt", func(_ *container.Config, h *container.HostConfig) {
		h.SecurityOpt = append(h.SecurityOpt, "label=disable")
	}},
	{"all of the system", "HostConfig.SecurityOpt", func(_ *container.Config, h *container.HostConfig) {
		h.SecurityOpt = append(h.SecurityOpt, "systempaths=unconfined")
	}},
	{"privileges allowed", "HostConfig.SecurityOpt", func(_ *container.Config, h *container.HostConfig) { h.SecurityOpt[0] = "no-new-privileges:false" }},
	{"writable root", "HostConfig.ReadonlyRootfs", func(_ *container.Config, h *container.HostConfig) { h.ReadonlyRootfs = false }},
	{"no memory limit", "HostConfig.Memory", func(_ *container.Config, h *container.HostConfig) { h.Memory = 0 }},
	{"swap", "HostConfig.MemorySwap", func(_ *container.Config, h *container.HostConfig) { h.MemorySwap = -1 }},
	{"no cpu limit", "HostConfig.NanoCPUs", func(_ *container.Config, h *container.HostConfig) { h.NanoCPUs = 0 }},
	{"no pids limit", "HostConfig.PidsLimit", func(_ *container.Config, h *container.HostConfig) { h.PidsLimit = nil }},
	{"unlimited pids", "HostConfig.PidsLimit", func(_ *container.Config, h *container.HostConfig) { n := int64(-1); h.PidsLimit = &n }},
	{"no memory kill", "HostConfig.OomKillDisable", func(_ *container.Config, h *container.HostConfig) { y := true; h.OomKillDisable = &y }},
	{"never killed for memory", "HostConfig.OomScoreAdj", func(_ *container.Config, h *container.HostConfig) { h.OomScoreAdj = -1000 }},
	{"no limits of files", "HostConfig.Ulimits", func(_ *container.Config, h *container.HostConfig) { h.Ulimits = nil }},
	{"core files", "HostConfig.Ulimits", func(_ *container.Config, h *container.HostConfig) {
		h.Ulimits[2] = &container.Ulimit{Name: "core", Soft: 1, Hard: 1}
	}},
	{"unlimited shm", "HostConfig.ShmSize", func(_ *container.Config, h *container.HostConfig) { h.ShmSize = 0 }},
	{"engine log", "HostConfig.LogConfig", func(_ *container.Config, h *container.HostConfig) { h.LogConfig.Type = "json-file" }},
	{"restart", "HostConfig.RestartPolicy", func(_ *container.Config, h *container.HostConfig) { h.RestartPolicy.Name = "always" }},
	{"auto remove", "HostConfig.AutoRemove", func(_ *container.Config, h *container.HostConfig) { h.AutoRemove = true }},
	{"ports", "HostConfig.PublishAllPorts", func(_ *container.Config, h *container.HostConfig) { h.PublishAllPorts = true }},
	{"sysctl", "HostConfig.Sysctls", func(_ *container.Config, h *container.HostConfig) {
		h.Sysctls = map[string]string{"kernel.msgmax": "1"}
	}},
	{"group", "HostConfig.GroupAdd", func(_ *container.Config, h *container.HostConfig) { h.GroupAdd = []string{"docker"} }},
	{"links", "HostConfig.Links", func(_ *container.Config, h *container.HostConfig) { h.Links = []string{"x:y"} }},
	{"a resolver outside", "HostConfig.DNS", func(_ *container.Config, h *container.HostConfig) { h.DNS = []string{"8.8.8.8"} }},
	{"volumes of another container", "HostConfig.VolumesFrom", func(_ *container.Config, h *container.HostConfig) { h.VolumesFrom = []string{"x"} }},
	{"cgroup of another", "HostConfig.CgroupParent", func(_ *container.Config, h *container.HostConfig) { h.CgroupParent = "/sandboxd-owner/run2" }},
	{"cgroup root", "HostConfig.CgroupParent", func(_ *container.Config, h *container.HostConfig) { h.CgroupParent = "/" }},
	{"nothing masked", "HostConfig.MaskedPaths", func(_ *container.Config, h *container.HostConfig) { h.MaskedPaths = []string{} }},
	{"one path not masked", "HostConfig.MaskedPaths", func(_ *container.Config, h *container.HostConfig) { h.MaskedPaths = h.MaskedPaths[1:] }},
	{"nothing read-only", "HostConfig.ReadonlyPaths", func(_ *container.Config, h *container.HostConfig) { h.ReadonlyPaths = []string{} }},
	{"engine's init", "HostConfig.Init", func(_ *container.Config, h *container.HostConfig) { h.Init = nil }},
	{"runtime by path", "HostConfig.Runtime", func(_ *container.Config, h *container.HostConfig) { h.Runtime = "/tmp/runc" }},
	{"old style bind", "HostConfig.Binds", func(_ *container.Config, h *container.HostConfig) { h.Binds = []string{"/:/host"} }},
	{"tmpfs without bound", "HostConfig.Tmpfs", func(_ *container.Config, h *container.HostConfig) { h.Tmpfs["/tmp"] = "rw,nosuid,nodev" }},
	{"shared memory of the engine's", "HostConfig.Tmpfs", func(_ *container.Config, h *container.HostConfig) { delete(h.Tmpfs, "/dev/shm") }},
	{"shared memory for programs", "HostConfig.Tmpfs", func(_ *container.Config, h *container.HostConfig) {
		h.Tmpfs["/dev/shm"] = strings.Replace(h.Tmpfs["/dev/shm"], "noexec", "exec", 1)
	}},
	{"tmpfs with any number of files", "HostConfig.Tmpfs", func(_ *container.Config, h *container.HostConfig) { h.Tmpfs["/tmp"] = "rw,nosuid,nodev,size=1m" }},
	{"tmpfs with set-user-id", "HostConfig.Tmpfs", func(_ *container.Config, h *container.HostConfig) {
		h.Tmpfs["/tmp"] = "size=1m,nr_inodes=9,nodev,nosuid,suid"
	}},
	{"tmpfs over the system", "HostConfig.Tmpfs", func(_ *container.Config, h *container.HostConfig) { h.Tmpfs["/etc"] = h.Tmpfs["/tmp"] }},

	{"the image's user", "Config.User", func(c *container.Config, _ *container.HostConfig) { c.User = "" }},
	{"the image's entrypoint", "Config.Entrypoint", func(c *container.Config, _ *container.HostConfig) { c.Entrypoint = nil }},
	{"a shell before the agent", "Config.Entrypoint", func(c *container.Config, _ *container.HostConfig) { c.Entrypoint = []string{"sh", "-c"} }},
	{"the image's health check", "Config.Healthcheck", func(c *container.Config, _ *container.HostConfig) { c.Healthcheck = nil }},
	{"the image's directory", "Config.WorkingDir", func(c *container.Config, _ *container.HostConfig) { c.WorkingDir = "" }},
	{"a secret in the environment", "Config.Env", func(c *container.Config, _ *container.HostConfig) { c.Env = []string{"TOKEN=x"} }},
	{"volume", "Config.Volumes", func(c *container.Config, _ *container.HostConfig) { c.Volumes = map[string]struct{}{"/x": {}} }},
	{"terminal", "Config.Tty", func(c *container.Config, _ *container.HostConfig) { c.Tty = true }},
	{"no owner", "Config.Labels", func(c *container.Config, _ *container.HostConfig) { c.Labels = nil }},
	{"no image", "Config.Image", func(c *container.Config, _ *container.HostConfig) { c.Image = "" }},
}

func TestEveryWeakerRequestIsRefused(t *testing.T) {
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			config, host, err := docker.RequestFor(someSpec())
			require.NoError(t, err)
			require.NoError(t, docker.AssertHardened(config, host), "the control")
			m.do(config, host)
			var refused *docker.NotHardenedError
			require.ErrorAs(t, docker.AssertHardened(config, host), &refused)
			require.Equal(t, m.setting, refused.Setting)
		})
	}
}

func TestMountsThatReachTheHostAreRefused(t *testing.T) {
	ro := &mount.BindOptions{NonRecursive: true}
	bad := map[string]mount.Mount{
		"host root":             {Type: "bind", Source: "/", Target: "/mnt/x"},
		"docker socket":         {Type: "bind", Source: "/var/run/docker.sock", Target: "/mnt/x"},
		"a socket elsewhere":    {Type: "bind", Source: "/srv/docker.sock", Target: "/mnt/x"},
		"containerd socket":     {Type: "bind", Source: "/srv/c/containerd.sock", Target: "/mnt/x"},
		"above the socket":      {Type: "bind", Source: "/var", Target: "/mnt/x"},
		"docker data root":      {Type: "bind", Source: "/var/lib/docker/volumes", Target: "/mnt/x"},
		"this engine's data":    {Type: "bind", Source: "/big/docker/overlay2", Target: "/mnt/x"},
		"above its data":        {Type: "bind", Source: "/big", Target: "/mnt/x"},
		"etc":                   {Type: "bind", Source: "/etc", Target: "/mnt/x", ReadOnly: true, BindOptions: ro},
		"proc":                  {Type: "bind", Source: "/proc", Target: "/mnt/x"},
		"sys":                   {Type: "bind", Source: "/sys/fs/cgroup", Target: "/mnt/x"},
		"dev":                   {Type: "bind", Source: "/dev", Target: "/mnt/x"},
		"ssh keys":              {Type: "bind", Source: "/root/.ssh", Target: "/mnt/x"},
		"unclean source":        {Type: "bind", Source: "/srv/../etc", Target: "/mnt/x"},
		"relative source":       {Type: "bind", Source: "srv", Target: "/mnt/x"},
		"shared":                {Type: "bind", Source: "/srv", Target: "/mnt/x", BindOptions: &mount.BindOptions{Propagation: "rshared"}},
		"slave":                 {Type: "bind", Source: "/srv", Target: "/mnt/x", BindOptions: &mount.BindOptions{Propagation: "rslave"}},
		"made by the engine":    {Type: "bind", Source: "/srv", Target: "/mnt/x", BindOptions: &mount.BindOptions{CreateMountpoint: true}},
		"read-only in part":     {Type: "bind", Source: "/srv", Target: "/mnt/x", ReadOnly: true},
		"over the root":         {Type: "bind", Source: "/srv", Target: "/"},
		"over the system":       {Type: "bind", Source: "/srv", Target: "/usr/bin"},
		"over proc":             {Type: "bind", Source: "/srv", Target: "/proc"},
		"over the agent's own":  {Type: "bind", Source: "/srv", Target: "/run/sandboxd/x"},
		"agent writable":        {Type: "bind", Source: "/srv/agent", Target: "/run/sandboxd/agent"},
		"twice":                 {Type: "bind", Source: "/srv", Target: "/workspace"},
		"twice, with a tmpfs":   {Type: "bind", Source: "/srv", Target: "/tmp"},
		"cgroup of all":         {Type: "bind", Source: "/sys/fs/cgroup/unified", Target: "/run/sandboxd/cgroup/unified"},
		"cgroup of another":     {Type: "bind", Source: "/sys/fs/cgroup/unified/sandboxd-owner/run2", Target: "/run/sandboxd/cgroup/unified"},
		"cgroup of the service": {Type: "bind", Source: "/sys/fs/cgroup/unified/sandboxd-owner", Target: "/run/sandboxd/cgroup/unified"},
		"cgroup through a tree": {Type: "bind", Source: "/sys/fs/cgroup/unified/other/sandboxd-owner/run1", Target: "/run/sandboxd/cgroup/unified"},
		"volume with driver":    {Type: "volume", Source: "v", Target: "/mnt/x", VolumeOptions: &mount.VolumeOptions{DriverConfig: &mount.Driver{Name: "local", Options: map[string]string{"device": "/"}}}},
		"volume without name":   {Type: "volume", Target: "/mnt/x"},
		"image":                 {Type: "image", Source: "x", Target: "/mnt/x"},
		"pipe":                  {Type: "npipe", Source: "x", Target: "/mnt/x"},
		"tmpfs without bound":   {Type: "tmpfs", Target: "/mnt/x"},
	}
	for name, m := range bad {
		t.Run(name, func(t *testing.T) {
			config, host, err := docker.RequestFor(someSpec())
			require.NoError(t, err)
			// The control: the same request with a harmless mount passes.
			host.Mounts = append(host.Mounts, mount.Mount{Type: "bind", Source: "/srv", Target: "/mnt/ok"})
			require.NoError(t, docker.AssertHardened(config, host, "/big/docker"))
			// In the place of what a good request has there, if anything.
			if i := indexOfMount(host, m.Target); i >= 0 && !strings.HasPrefix(name, "twice") {
				host.Mounts[i] = m
			} else {
				host.Mounts = append(host.Mounts, m)
			}
			var refused *docker.NotHardenedError
			require.ErrorAs(t, docker.AssertHardened(config, host, "/big/docker"), &refused)
			require.Equal(t, "HostConfig.Mounts", refused.Setting)
		})
	}
}

func TestASettingThatNobodyThoughtAboutIsRefused(t *testing.T) {
	// Every field of the engine's own structs, set to something, one at a time:
	// only those that a box uses may pass with another value.
	mayDiffer := map[string]bool{
		"Hostname": true, "AttachStdin": true, "AttachStdout": true, "AttachStderr": true,
		"OpenStdin": true, "StdinOnce": true, "StopTimeout": true, "NetworkDisabled": true,
		"Image": true, "Runtime": true,
	}
	check := func(pick func(*container.Config, *container.HostConfig) reflect.Value) {
		config, host, err := docker.RequestFor(someSpec())
		require.NoError(t, err)
		typ := pick(config, host).Type()
		for i := range typ.NumField() {
			if typ.Field(i).Anonymous {
				continue
			}
			config, host, err := docker.RequestFor(someSpec())
			require.NoError(t, err)
			f := pick(config, host).Field(i)
			name := typ.Field(i).Name
			if mayDiffer[name] || !f.IsZero() || !scribble(f) {
				continue
			}
			require.Error(t, docker.AssertHardened(config, host), name)
		}
	}
	check(func(c *container.Config, _ *container.HostConfig) reflect.Value { return reflect.ValueOf(c).Elem() })
	check(func(_ *container.Config, h *container.HostConfig) reflect.Value { return reflect.ValueOf(h).Elem() })
	check(func(_ *container.Config, h *container.HostConfig) reflect.Value {
		return reflect.ValueOf(&h.Resources).Elem()
	})
}

// scribble sets a field to some value that is not zero.
func scribble(f reflect.Value) bool {
	switch f.Kind() {
	case reflect.Bool:
		f.SetBool(true)
	case reflect.String:
		f.SetString("x")
	case reflect.Int, reflect.Int64:
		f.SetInt(7)
	case reflect.Uint16, reflect.Uint64:
		f.SetUint(7)
	case reflect.Slice:
		f.Set(reflect.MakeSlice(f.Type(), 1, 1))
	case reflect.Map:
		m := reflect.MakeMap(f.Type())
		m.SetMapIndex(reflect.Zero(f.Type().Key()), reflect.Zero(f.Type().Elem()))
		f.Set(m)
	case reflect.Pointer:
		f.Set(reflect.New(f.Type().Elem()))
	default:
		return false
	}
	return true
}

func TestEachProfileOfOursIsAccepted(t *testing.T) {
	for _, name := range seccomp.Names() {
		spec := someSpec()
		spec.Seccomp = name
		config, host, err := docker.RequestFor(spec)
		require.NoError(t, err)
		require.NoError(t, docker.AssertHardened(config, host), name)
	}
}

func TestSpecsThatNoBoxCanBeMadeFromAreRefused(t *testing.T) {
	bad := map[string]func(*sandbox.Spec){
		"no run":              func(s *sandbox.Spec) { s.RunID = "" },
		"a run with a slash":  func(s *sandbox.Spec) { s.RunID = "../x" },
		"unknown profile":     func(s *sandbox.Spec) { s.Seccomp = "none" },
		"workspace over /usr": func(s *sandbox.Spec) { s.Workspace.Path = "/usr/src" },
		"relative workspace":  func(s *sandbox.Spec) { s.Workspace.Path = "src" },
		"mount over /tmp":     func(s *sandbox.Spec) { s.Mounts[0].Target = "/tmp" },
		"mount twice":         func(s *sandbox.Spec) { s.Mounts = append(s.Mounts, s.Mounts[0]) },
		"relative source":     func(s *sandbox.Spec) { s.Mounts[0].Source = "data" },
		"too little memory":   func(s *sandbox.Spec) { s.Limits.MemoryBytes = 1 },
		"negative pids":       func(s *sandbox.Spec) { s.Limits.Pids = -1 },
		"too few pids":        func(s *sandbox.Spec) { s.Limits.Pids = 3 },
		"no cpu":              func(s *sandbox.Spec) { s.Limits.CPUs = -1 },
	}
	for name, change := range bad {
		t.Run(name, func(t *testing.T) {
			spec := someSpec()
			_, _, err := docker.RequestFor(spec)
			require.NoError(t, err, "the control")
			change(&spec)
			_, _, err = docker.RequestFor(spec)
			require.Equal(t, sandbox.KindInvalid, sandbox.KindOf(err))
		})
	}
}
