package runtime

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/runtime/policy"
	"github.com/sandboxd/sandboxd/sandbox"
)

// settleSpec fills the defaults of a run and refuses what cannot be, with the
// pointer of the field. Errors are *Problem.
func (p RunPolicy) settleSpec(s RunSpec) (RunSpec, policy.Profile, error) {
	var profile policy.Profile
	for _, step := range []func(*RunSpec) error{
		settleChoices, refuseUnoffered, p.settleImage, p.settleSource, p.settleMounts, settleNetwork, p.settleLimits, settleEnv, settleChecks,
	} {
		if err := step(&s); err != nil {
			return s, profile, err
		}
	}
	profile, err := compileProfile(s.Permissions)
	return s, profile, err
}

func invalid(pointer, format string, args ...any) *Problem {
	return &Problem{Code: ProblemBadRequest, Pointer: pointer, Detail: fmt.Sprintf(format, args...)}
}

func unsupported(pointer, format string, args ...any) *Problem {
	return &Problem{Code: ProblemUnsupported, Pointer: pointer, Detail: fmt.Sprintf(format, args...)}
}

// settleChoices settles the closed lists: each takes its default or one of its
// values.
func settleChoices(s *RunSpec) error {
	for _, c := range []struct {
		pointer string
		value   *string
		choices []string // the first is the default
	}{
		{"/source/type", &s.Source.Type, []string{"empty", "upload", "host", "git"}},
		{"/source/mode", &s.Source.Mode, []string{"copy", "bind", "overlay"}},
		{"/workspace/access", &s.Workspace.Access, []string{"rw", "ro"}},
		{"/network/policy", &s.Network.Policy, []string{"none", "allowlist", "full"}},
		{"/seccomp", &s.Seccomp, []string{"strict", "default", "debug"}},
		{"/state", (*string)(&s.State), []string{string(Editing), string(Planning), string(Verifying), string(Review), string(Finished)}},
	} {
		if *c.value == "" {
			*c.value = c.choices[0]
		}
		if !slices.Contains(c.choices, *c.value) {
			return invalid(c.pointer, "%q is not one of %s.", clip(*c.value, 80), strings.Join(c.choices, ", "))
		}
	}
	if s.Workspace.Path == "" {
		s.Workspace.Path = sandbox.DefaultWorkspacePath
	}
	if err := targetPath("/workspace/path", s.Workspace.Path); err != nil {
		return err
	}
	return nil
}

// targetPath holds a mount target against what a box has of its own.
func targetPath(pointer, target string) error {
	if !path.IsAbs(target) || path.Clean(target) != target || len(target) > 512 || strings.ContainsRune(target, 0) {
		return invalid(pointer, "The path in the box must be absolute and clean, without \"..\" or a trailing slash.")
	}
	top := "/" + strings.SplitN(strings.TrimPrefix(target, "/"), "/", 2)[0]
	if slices.Contains([]string{"/", "/proc", "/sys", "/dev", "/run", "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/boot", "/root"}, top) {
		return invalid(pointer, "%s belongs to the box itself. Choose a path such as /workspace, /cache or /data.", top)
	}
	return nil
}

func (p RunPolicy) settleImage(s *RunSpec) error {
	if s.Image == "" || len(p.Images) == 0 || slices.Contains(p.Images, s.Image) {
		return nil
	}
	return &Problem{Code: ProblemImageForbidden, Pointer: "/image", Detail: "This service does not allow that image. Use one of those that it lists, or have the operator allow it."}
}

func (p RunPolicy) settleSource(s *RunSpec) error {
	switch src := &s.Source; src.Type {
	case "git":
		return unsupported("/source/type", "Git sources are not offered yet. Upload the repository as a tar, or use type host with a checkout.")
	case "host":
		if src.Mode == "overlay" {
			return unsupported("/source/mode", "Overlay sources are not offered yet. Use mode copy or bind.")
		}
		resolved, err := p.hostDir("/source/path", src.Path)
		if err != nil {
			return err
		}
		src.Path = resolved
	default:
		if src.Path != "" || src.URL != "" || src.Ref != "" {
			return invalid("/source", "A source of type %s takes no path, url or ref.", src.Type)
		}
		if src.Mode != "copy" {
			return invalid("/source/mode", "A source of type %s has nothing to %s. Leave mode out.", src.Type, src.Mode)
		}
	}
	return nil
}

func (p RunPolicy) settleMounts(s *RunSpec) error {
	if len(s.Mounts) > 16 {
		return invalid("/mounts", "A run takes at most 16 mounts.")
	}
	for i := range s.Mounts {
		m, at := &s.Mounts[i], fmt.Sprintf("/mounts/%d", i)
		if m.Access == "" {
			m.Access = "ro"
		}
		if m.Access != "ro" && m.Access != "rw" {
			return invalid(at+"/access", "%q is not one of ro, rw.", clip(m.Access, 80))
		}
		if err := targetPath(at+"/target", m.Target); err != nil {
			return err
		}
		if m.Target == s.Workspace.Path || strings.HasPrefix(m.Target, "/tmp") || strings.HasPrefix(m.Target, "/home") {
			return invalid(at+"/target", "%s is taken by the box.", m.Target)
		}
		resolved, err := p.hostDir(at+"/source", m.Source)
		if err != nil {
			return err
		}
		m.Source = resolved
	}
	return nil
}

// hostDir resolves a directory of the host once and holds it against the
// allowed roots. What is forbidden and what does not exist get one answer, so
// that nobody learns what is there.
func (p RunPolicy) hostDir(pointer, dir string) (string, error) {
	forbidden := &Problem{Code: ProblemMountForbidden, Pointer: pointer, Detail: "That host directory is not allowed. The operator names allowed roots with --allow-host-root."}
	if !filepath.IsAbs(dir) || strings.ContainsRune(dir, 0) {
		return "", forbidden
	}
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		forbidden.Cause = err
		return "", forbidden
	}
	for _, root := range p.HostRoots {
		rel, err := filepath.Rel(root, resolved)
		if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
			continue
		}
		if info, err := os.Stat(resolved); err == nil && info.IsDir() {
			return resolved, nil
		}
	}
	return "", forbidden
}

func settleNetwork(s *RunSpec) error {
	if s.Network.Policy != "none" {
		return unsupported("/network/policy", "Only the network policy none is offered yet.")
	}
	if len(s.Network.Allow) > 0 {
		return invalid("/network/allow", "The network policy none takes no allow list.")
	}
	return nil
}

func (p RunPolicy) settleLimits(s *RunSpec) error {
	l, most, d := &s.Limits, p.Most, sandbox.DefaultLimits()
	if l.CPUs == 0 {
		l.CPUs = d.CPUs
	}
	if top := least(maxCPUs, most.CPUs); l.CPUs < 0.05 || l.CPUs > top {
		return invalid("/limits/cpus", "cpus must be at least 0.05 and at most %g.", top)
	}
	for _, c := range []struct {
		name               string
		value              *int64
		standard, low, top int64
	}{
		{"memoryBytes", &l.MemoryBytes, d.MemoryBytes, 32 << 20, least(maxBytes, most.MemoryBytes)},
		{"pids", &l.Pids, d.Pids, 64, least(maxPids, most.Pids)},
		{"diskBytes", &l.DiskBytes, d.DiskBytes, 1 << 20, least(maxBytes, most.DiskBytes)},
		{"wallMs", &l.WallMs, p.MaxWall.Milliseconds(), 1000, p.MaxWall.Milliseconds()},
		{"idleMs", &l.IdleMs, 0, 0, maxIdle.Milliseconds()},
	} {
		if *c.value == 0 {
			*c.value = c.standard
		}
		if *c.value < c.low || *c.value > c.top {
			return invalid("/limits/"+c.name, "%s must be at least %d and at most %d.", c.name, c.low, c.top)
		}
	}
	if l.Commands == 0 {
		l.Commands = d.Commands
	}
	if l.Commands < 1 || l.Commands > 64 {
		return invalid("/limits/commands", "commands must be from 1 to 64.")
	}
	return nil
}

// What no operator can allow more of: beyond, kernels and engines overflow or
// refuse with words of their own.
const (
	maxCPUs  = 1024.0
	maxPids  = 4 << 20 // PID_MAX_LIMIT on 64 bits
	maxBytes = 1 << 50
	maxIdle  = 365 * 24 * time.Hour
)

// least is the operator's cap where there is one below the absolute.
func least[N int64 | float64](absolute, operator N) N {
	if operator > 0 {
		return min(absolute, operator)
	}
	return absolute
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

func settleEnv(s *RunSpec) error {
	for field, vars := range map[string]map[string]string{"/env": s.Env, "/secrets": s.Secrets} {
		if len(vars) > 256 {
			return invalid(field, "At most 256 variables.")
		}
		for name, value := range vars {
			if !envName.MatchString(name) {
				return invalid(field, "A variable's name must be letters, digits and underscores, and not begin with a digit.")
			}
			if len(value) > 64<<10 || strings.ContainsRune(value, 0) {
				return invalid(field+"/"+name, "A variable's value must be at most 64 KiB and hold no NUL.")
			}
		}
	}
	return nil
}

// boxSpec is what the driver is asked to make.
func boxSpec(runID string, s RunSpec) sandbox.Spec {
	spec := sandbox.Spec{
		RunID: runID, Image: s.Image, Seccomp: s.Seccomp, Runtime: s.Runtime,
		Network:   sandbox.NetworkPolicy(s.Network.Policy),
		Workspace: sandbox.Workspace{ReadOnly: s.Workspace.Access == "ro", Path: s.Workspace.Path},
		Limits:    sandbox.DefaultLimits(),
	}
	if s.Source.Type == "host" && s.Source.Mode == "bind" {
		spec.Workspace.HostDir = s.Source.Path
	}
	for _, m := range s.Mounts {
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Source: m.Source, Target: m.Target, ReadOnly: m.Access == "ro"})
	}
	l := &spec.Limits
	l.CPUs, l.MemoryBytes, l.Pids, l.DiskBytes, l.Commands = s.Limits.CPUs, s.Limits.MemoryBytes, s.Limits.Pids, s.Limits.DiskBytes, s.Limits.Commands
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		spec.Env = append(spec.Env, name+"="+s.Env[name])
	}
	return spec
}
