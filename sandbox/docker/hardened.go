package docker

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/agentproto"
	"github.com/sandboxd/sandboxd/seccomp"
)

// A NotHardenedError names the first setting of a create request that a box
// must not have. It means a mistake in this package: the request is not sent.
type NotHardenedError struct{ Setting, Reason string }

func (e *NotHardenedError) Error() string {
	return fmt.Sprintf("docker: refusing to create a box: %s %s", e.Setting, e.Reason)
}

// AssertHardened tells whether a container made from this request is a box:
// confined in every way that the engine offers. It is checked right before each
// create request is sent, whatever code built the request.
//
// Every setting has a rule in the tables below; a setting without a rule must
// have its zero value, so one that a later engine adds is refused until someone
// has thought about it. forbidden are host paths that no mount may reach beside
// those of forbiddenSources, such as the engine's data root.
func AssertHardened(config *container.Config, host *container.HostConfig, forbidden ...string) error {
	if config == nil || host == nil {
		return &NotHardenedError{"the request", "lacks its configuration"}
	}
	if err := check(reflect.ValueOf(config).Elem(), "Config.", configRules(config)); err != nil {
		return err
	}
	if err := check(reflect.ValueOf(host).Elem(), "HostConfig.", hostRules(config, host)); err != nil {
		return err
	}
	return checkMounts(host, forbidden)
}

// A rule says what is wrong with a setting, or "".
type rule func() string

// check applies the rules in the order of the struct's fields; embedded structs
// count as part of the outer one.
func check(v reflect.Value, prefix string, rules map[string]rule) error {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Anonymous {
			if err := check(v.Field(i), prefix, rules); err != nil {
				return err
			}
			continue
		}
		r, ok := rules[f.Name]
		if !ok {
			if !v.Field(i).IsZero() {
				return &NotHardenedError{prefix + f.Name, "must not be set"}
			}
			continue
		}
		if reason := r(); reason != "" {
			return &NotHardenedError{prefix + f.Name, reason}
		}
	}
	return nil
}

// must turns a condition into a rule.
func must(ok bool, reason string) rule {
	return func() string {
		if ok {
			return ""
		}
		return reason
	}
}

// anything is the rule of a setting that cannot weaken a box.
func anything() string { return "" }

func configRules(c *container.Config) map[string]rule {
	return map[string]rule{
		"Hostname":     anything,
		"AttachStdin":  anything,
		"AttachStdout": anything,
		"AttachStderr": anything,
		"OpenStdin":    anything,
		"StdinOnce":    anything,
		"Image":        must(c.Image != "", "must name an image"),
		"Labels":       must(c.Labels[labelOwner] != "" && c.Labels[labelRun] != "", "must name owner and run, or the box cannot be found again"),
		"StopTimeout":  anything,
		// The agent is root inside, with three capabilities; it starts every
		// command as another user.
		"User": must(c.User == agentUser, "must be "+agentUser+", the agent's user"),
		// Whatever an image says of its own start is overridden, not inherited.
		"Entrypoint":  must(slices.Equal(c.Entrypoint, []string{agentproto.AgentPath}), "must be the agent"),
		"Cmd":         must(slices.Equal(c.Cmd, agentArgs(true)) || slices.Equal(c.Cmd, agentArgs(false)), "must be the agent's, or the image's own is used"),
		"WorkingDir":  must(c.WorkingDir == "/", "must be /, or the image's own is used"),
		"Healthcheck": must(c.Healthcheck != nil && slices.Equal(c.Healthcheck.Test, []string{"NONE"}), "must be NONE, or the image's own runs as root"),
		// What stands in the environment is shown to all who may look at the
		// container; what commands need goes over the session.
		"Env":             must(len(c.Env) == 0, "must be empty: it is shown by inspect"),
		"NetworkDisabled": anything,
	}
}

func hostRules(c *container.Config, h *container.HostConfig) map[string]rule {
	return map[string]rule{
		"LogConfig":      must(h.LogConfig.Type == "none" && len(h.LogConfig.Config) == 0, "must be none: output is bounded by the service"),
		"NetworkMode":    must(h.NetworkMode == "none", "must be none"),
		"RestartPolicy":  must(h.RestartPolicy.Name == container.RestartPolicyDisabled, "must be no: a box serves one run"),
		"CapAdd":         must(subset(h.CapAdd, agentCapabilities()), "may hold what the agent needs and nothing else"),
		"CapDrop":        must(slices.Equal(h.CapDrop, []string{"ALL"}), "must be ALL"),
		"CgroupnsMode":   must(h.CgroupnsMode == container.CgroupnsModePrivate, "must be private"),
		"DNS":            must(len(h.DNS) == 0 || slices.Equal(h.DNS, []string{"127.0.0.1"}), "may name the agent's own resolver only"),
		"IpcMode":        must(h.IpcMode == container.IPCModePrivate, "must be private"),
		"ReadonlyRootfs": must(h.ReadonlyRootfs, "must be set"),
		"SecurityOpt":    func() string { return securityOptions(h.SecurityOpt) },
		"Tmpfs":          func() string { return tmpfsOptions(h.Tmpfs) },
		"ShmSize":        must(h.ShmSize > 0 && h.ShmSize <= maxShmBytes, "must be bounded"),
		"Runtime":        must(!strings.ContainsAny(h.Runtime, "/ "), "must be a name that the engine knows"),
		"MaskedPaths":    must(subset(sandbox.MaskedPaths(), h.MaskedPaths), "must hold every path that is masked"),
		"ReadonlyPaths":  must(subset(sandbox.ReadonlyPaths(), h.ReadonlyPaths), "must hold every path that is read-only"),
		"Mounts":         anything, // checkMounts
		"Init":           must(h.Init != nil && !*h.Init, "must be off: the agent is PID 1"),

		"Memory":       must(h.Memory > 0, "must be bounded"),
		"MemorySwap":   must(h.MemorySwap == h.Memory, "must equal Memory, or the box may swap"),
		"NanoCPUs":     must(h.NanoCPUs > 0, "must be bounded"),
		"PidsLimit":    must(h.PidsLimit != nil && *h.PidsLimit > 0, "must be bounded"),
		"CgroupParent": must(cgroupParentOK(h.CgroupParent, c.Labels), "must be empty or this box's own"),
		"Ulimits":      func() string { return ulimits(h.Ulimits) },
	}
}

// securityOptions demands exactly two: no new privileges, and one of our own
// system call profiles. The engine's built-in profile is older than the engine
// and lets much more through.
func securityOptions(opts []string) string {
	var noNew, profile bool
	for _, o := range opts {
		body, isSeccomp := strings.CutPrefix(o, "seccomp=")
		switch {
		case o == "no-new-privileges:true":
			noNew = true
		case isSeccomp:
			if !ownProfile(body) {
				return "holds a system call profile that is none of ours"
			}
			profile = true
		default:
			return fmt.Sprintf("holds %.40q", o)
		}
	}
	switch {
	case !noNew:
		return "lacks no-new-privileges"
	case !profile:
		return "lacks a system call profile"
	}
	return ""
}

func ownProfile(body string) bool {
	for _, name := range seccomp.Names() {
		// Names are those of the table, so an error cannot happen; if it did,
		// the profile would simply not be ours.
		if own, err := seccomp.DockerJSON(name); err == nil && string(own) == body {
			return true
		}
	}
	return false
}

// tmpfsOptions demands a bound for each, and no set-user-id programs or devices.
func tmpfsOptions(mounts map[string]string) string {
	for target, opts := range mounts {
		set := strings.Split(opts, ",")
		for _, need := range []string{"nosuid", "nodev"} {
			if !slices.Contains(set, need) {
				return fmt.Sprintf("%s lacks %s", target, need)
			}
		}
		for _, bound := range []string{"size=", "nr_inodes="} {
			bounded := slices.ContainsFunc(set, func(o string) bool { return strings.HasPrefix(o, bound) && o != bound+"0" })
			if !bounded {
				return fmt.Sprintf("%s has no %s", target, strings.TrimSuffix(bound, "="))
			}
		}
		if slices.Contains(set, "suid") || slices.Contains(set, "dev") {
			return fmt.Sprintf("%s allows set-user-id programs or devices", target)
		}
		switch {
		case target == shmTarget && !slices.Contains(set, "noexec"):
			return fmt.Sprintf("%s lacks noexec", target)
		case target != shmTarget && sandbox.SystemPath(target):
			return fmt.Sprintf("%s hides a part of the system", target)
		}
	}
	if mounts[shmTarget] == "" {
		return shmTarget + " is the engine's, without a bound of files"
	}
	return ""
}

func ulimits(limits []*container.Ulimit) string {
	seen := map[string]*container.Ulimit{}
	for _, l := range limits {
		if l.Soft < 0 || l.Hard < 0 {
			return l.Name + " is without bound"
		}
		seen[l.Name] = l
	}
	for _, need := range []string{"nofile", "fsize", "core"} {
		if seen[need] == nil {
			return "lacks " + need
		}
	}
	if seen["core"].Hard != 0 {
		return "allows core files"
	}
	return ""
}

func subset(part, whole []string) bool {
	for _, p := range part {
		if !slices.Contains(whole, p) {
			return false
		}
	}
	return true
}
