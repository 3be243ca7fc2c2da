package sandbox

import "time"

// Spec says what box to make. The caller has checked it against its policy;
// the driver refuses what it cannot enforce rather than leaving it out.
type Spec struct {
	// RunID names the run; it is also the box's label and directory name.
	RunID string
	// Image is the root filesystem; "" is the driver's default.
	Image     string
	Workspace Workspace
	Mounts    []Mount
	Network   NetworkPolicy
	// Seccomp is the profile's name: "strict", "default" or "debug".
	Seccomp string
	// Runtime is the OCI runtime's name; "" is the driver's default.
	Runtime string
	Limits  Limits
	// Env is the environment of every command, as NAME=VALUE. Never secrets:
	// those go with each Command.
	Env []string
}

// Workspace is the directory that the run works in.
type Workspace struct {
	// ReadOnly mounts it so that no command and no file work changes it.
	ReadOnly bool
	// Path is where it is mounted in the box; "" is /workspace.
	Path string
	// HostDir binds a directory of the host instead of an empty one. It was
	// resolved and allowed by the caller.
	HostDir string
}

// DefaultWorkspacePath is where the workspace is mounted if nothing is said.
const DefaultWorkspacePath = "/workspace"

// Mount is a further host directory in the box, resolved and allowed by the
// caller.
type Mount struct {
	Source, Target string
	ReadOnly       bool
}

// NetworkPolicy is a closed list; every box has network none, and what a
// policy adds leaves through the agent's session.
type NetworkPolicy string

// The network policies.
const (
	NetworkNone      NetworkPolicy = "none"
	NetworkAllowlist NetworkPolicy = "allowlist"
	NetworkFull      NetworkPolicy = "full"
)

// Limits bound a box. Zero fields take the defaults of DefaultLimits.
type Limits struct {
	CPUs        float64
	MemoryBytes int64 // memory and swap together
	// Pids bounds all processes and threads of the box, the agent's included.
	Pids int64
	// DiskBytes bounds the workspace where the driver can enforce it.
	DiskBytes int64
	// FileBytes bounds one file (RLIMIT_FSIZE), OpenFiles the descriptors of a
	// process (RLIMIT_NOFILE).
	FileBytes int64
	OpenFiles int64
	// ScratchBytes bounds /tmp and the home directory together with memory.
	ScratchBytes int64
	// Commands is how many commands may run side by side.
	Commands int
}

// DefaultLimits are the limits of a run that states none.
func DefaultLimits() Limits {
	return Limits{
		CPUs:         1,
		MemoryBytes:  512 << 20,
		Pids:         256,
		DiskBytes:    1 << 30,
		FileBytes:    1 << 30,
		OpenFiles:    4096,
		ScratchBytes: 256 << 20,
		Commands:     4,
	}
}

// Facts describe a box as it was made, for people and for the run's resource.
type Facts struct {
	Driver        string // "docker", "oci"
	Runtime       string // "runc", "runsc", …
	Image         string // as asked for, or the default's name
	ImageDigest   string // "" for a host root filesystem
	WorkspacePath string
	UserID        int // uid of commands
	CgroupMode    string
	// KillStep is the strongest step of the kill ladder that the box has.
	KillStep string
	// Degraded lists what cannot be enforced here, a sentence each.
	Degraded  []string
	StartedIn time.Duration
}

// ScratchFiles is how many files a scratch file system in memory may hold: as
// many as if each held a page. Only empty ones could be more, and the kernel
// keeps about a kibibyte of each on the box's account.
func ScratchFiles(bytes int64) int64 { return max(bytes/4096, 1024) }
