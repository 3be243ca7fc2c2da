package docker

import (
	"fmt"
	"path"
	"slices"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/agentproto"
	"github.com/sandboxd/sandboxd/seccomp"
)

// A plan is all that a create request is made from.
type plan struct {
	owner string
	spec  sandbox.Spec // defaults filled in
	// imageVolumes are the places where the image asks for volumes.
	imageVolumes []string
	agent        mount.Mount
	workspace    mount.Mount
	// runDir is the host's directory with the agent's socket and token; ""
	// attaches the session to the agent's standard input and output.
	runDir string
	// fill is the agent's own way to a workspace that is read-only in the box
	// and the box's own; there is none where Target is "".
	fill mount.Mount
	// cgroupParent is "" where none can be handed in; cgroups are the host's
	// directories of that tree, by their place in the box.
	cgroupParent string
	cgroups      map[string]string
}

// request builds the create request. It is a pure function of the plan.
func (p plan) request() (*container.Config, *container.HostConfig, error) {
	profile, err := seccomp.DockerJSON(p.spec.Seccomp)
	if err != nil {
		return nil, nil, &sandbox.Error{Kind: sandbox.KindInvalid, Message: err.Error()}
	}
	attached := p.runDir == ""
	config := &container.Config{
		Hostname:        "sandbox",
		User:            agentUser,
		Image:           p.spec.Image,
		Entrypoint:      []string{agentproto.AgentPath},
		Cmd:             agentArgs(attached),
		WorkingDir:      "/",
		Healthcheck:     &container.HealthConfig{Test: []string{"NONE"}},
		NetworkDisabled: true,
		OpenStdin:       attached,
		StdinOnce:       attached,
		AttachStdin:     attached,
		AttachStdout:    attached,
		AttachStderr:    attached,
		Labels:          map[string]string{labelOwner: p.owner, labelRun: p.spec.RunID},
	}
	noInit := false
	host := &container.HostConfig{
		LogConfig:      container.LogConfig{Type: "none"},
		NetworkMode:    "none",
		RestartPolicy:  container.RestartPolicy{Name: container.RestartPolicyDisabled},
		CapDrop:        []string{"ALL"},
		CapAdd:         agentCapabilities(),
		CgroupnsMode:   container.CgroupnsModePrivate,
		IpcMode:        container.IPCModePrivate,
		ReadonlyRootfs: true,
		SecurityOpt:    []string{"no-new-privileges:true", "seccomp=" + string(profile)},
		Tmpfs:          p.tmpfs(),
		ShmSize:        min(maxShmBytes, p.spec.Limits.MemoryBytes),
		Runtime:        p.spec.Runtime,
		MaskedPaths:    sandbox.MaskedPaths(),
		ReadonlyPaths:  sandbox.ReadonlyPaths(),
		Mounts:         p.mounts(),
		Init:           &noInit,
		Resources:      p.resources(),
	}
	return config, host, nil
}

// agentArgs say where the agent's session comes from.
func agentArgs(attached bool) []string {
	if attached {
		return []string{"--stdio"}
	}
	return []string{"--socket", agentproto.SocketPath}
}

// cgroupTargets are the places in the box of its cgroup tree.
func cgroupTargets() []string { return []string{agentproto.Cgroup2Mount, agentproto.PidsMount} }

func (p plan) resources() container.Resources {
	l := p.spec.Limits
	return container.Resources{
		Memory:       l.MemoryBytes,
		MemorySwap:   l.MemoryBytes,
		NanoCPUs:     int64(l.CPUs * 1e9),
		PidsLimit:    &l.Pids,
		CgroupParent: p.cgroupParent,
		Ulimits: []*container.Ulimit{
			{Name: "nofile", Soft: l.OpenFiles, Hard: l.OpenFiles},
			{Name: "fsize", Soft: l.FileBytes, Hard: l.FileBytes},
			{Name: "core", Soft: 0, Hard: 0},
		},
	}
}

// tmpfs are the writable places of a box beside its workspace. /tmp and the
// home directory share the scratch limit by halves; /tmp is executable because
// compilers and package managers run what they make there. Empty files count
// too: what the kernel keeps of each is the box's memory.
func (p plan) tmpfs() map[string]string {
	half := max(p.spec.Limits.ScratchBytes/2, 1<<20)
	bounds := fmt.Sprintf("size=%d,nr_inodes=%d", half, sandbox.ScratchFiles(half))
	shm := min(maxShmBytes, p.spec.Limits.MemoryBytes)
	return map[string]string{
		// In place of the engine's own, which bounds bytes alone.
		shmTarget:           fmt.Sprintf("rw,noexec,nosuid,nodev,size=%d,nr_inodes=%d,mode=1777", shm, sandbox.ScratchFiles(shm)),
		sandbox.ScratchPath: fmt.Sprintf("rw,exec,nosuid,nodev,%s,mode=1777", bounds),
		sandbox.HomePath:    fmt.Sprintf("rw,exec,nosuid,nodev,%s,mode=700,uid=%d,gid=%d", bounds, sandbox.CommandUser, sandbox.CommandUser),
	}
}

func (p plan) mounts() []mount.Mount {
	mounts := []mount.Mount{p.workspace}
	if p.agent.Target != "" {
		mounts = append(mounts, p.agent)
	}
	if p.runDir != "" {
		mounts = append(mounts, bind(p.runDir, agentproto.Dir, false))
	}
	if p.fill.Target != "" {
		mounts = append(mounts, p.fill)
	}
	for _, target := range cgroupTargets() {
		if dir := p.cgroups[target]; dir != "" {
			mounts = append(mounts, bind(dir, target, false))
		}
	}
	for _, m := range p.spec.Mounts {
		mounts = append(mounts, bind(m.Source, m.Target, m.ReadOnly))
	}
	// An image's volume would be a writable directory on the engine's disk, with
	// no limit, that outlives the box. Something mounted there takes its place.
	taken := func(v string) bool {
		return slices.ContainsFunc(mounts, func(m mount.Mount) bool { return m.Target == v }) || p.tmpfs()[v] != ""
	}
	for _, v := range p.imageVolumes {
		if v = path.Clean(v); !taken(v) {
			mounts = append(mounts, mount.Mount{
				Type: mount.TypeTmpfs, Target: v, ReadOnly: true,
				TmpfsOptions: &mount.TmpfsOptions{SizeBytes: emptyBytes, Mode: 0o755},
			})
		}
	}
	return mounts
}

// bind makes a bind mount that nothing propagates through. A read-only one
// leaves out what is mounted below its source: engines before 25 would let it
// be written to.
func bind(source, target string, readOnly bool) mount.Mount {
	return mount.Mount{
		Type: mount.TypeBind, Source: path.Clean(source), Target: path.Clean(target), ReadOnly: readOnly,
		BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate, NonRecursive: readOnly},
	}
}
