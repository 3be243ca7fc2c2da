package runtime

import "time"

// RunSpec is what a run is asked to be. Every field is optional; Normalize in
// the kernel fills the defaults and refuses what cannot be.
type RunSpec struct {
	Image       string            `json:"image,omitempty"`
	Source      Source            `json:"source,omitzero"`
	Workspace   WorkspaceSpec     `json:"workspace,omitzero"`
	Mounts      []MountSpec       `json:"mounts,omitempty"`
	Network     NetworkSpec       `json:"network,omitzero"`
	Seccomp     string            `json:"seccomp,omitempty"`
	Runtime     string            `json:"runtime,omitempty"`
	Limits      LimitsSpec        `json:"limits,omitzero"`
	Budgets     BudgetsSpec       `json:"budgets,omitzero"`
	Permissions Permissions       `json:"permissions,omitzero"`
	State       RunState          `json:"state,omitempty"`
	Task        Task              `json:"task,omitzero"`
	Lease       *Lease            `json:"lease,omitempty"`
	Supersedes  string            `json:"supersedes,omitempty"`
	Env         map[string]string `json:"env,omitempty"`
	// Secrets are environment values of commands. They are kept in memory only
	// and appear in no recorded form.
	Secrets map[string]string `json:"secrets,omitempty"`
	Verify  []Check           `json:"verify,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
}

// Source says what the workspace starts from.
type Source struct {
	Type string `json:"type,omitempty"` // "empty", "git", "host", "upload"
	URL  string `json:"url,omitempty"`
	Ref  string `json:"ref,omitempty"`
	Path string `json:"path,omitempty"`
	Mode string `json:"mode,omitempty"` // "copy", "overlay", "bind"
}

// WorkspaceSpec says how the workspace is mounted.
type WorkspaceSpec struct {
	Access string `json:"access,omitempty"` // "rw", "ro"
	Path   string `json:"path,omitempty"`
}

// MountSpec is a further mount from an allowed host root.
type MountSpec struct {
	Source string `json:"source"`
	Target string `json:"target"`
	Access string `json:"access,omitempty"`
}

// NetworkSpec is the network policy.
type NetworkSpec struct {
	Policy string      `json:"policy,omitempty"`
	Allow  []AllowSpec `json:"allow,omitempty"`
}

// AllowSpec is one allowed target of an allowlist.
type AllowSpec struct {
	Host  string `json:"host,omitempty"`
	CIDR  string `json:"cidr,omitempty"`
	Ports []int  `json:"ports,omitempty"`
}

// LimitsSpec are the box's limits; zero is the default.
type LimitsSpec struct {
	CPUs        float64 `json:"cpus,omitempty"`
	MemoryBytes int64   `json:"memoryBytes,omitempty"`
	Pids        int64   `json:"pids,omitempty"`
	DiskBytes   int64   `json:"diskBytes,omitempty"`
	WallMs      int64   `json:"wallMs,omitempty"`
	IdleMs      int64   `json:"idleMs,omitempty"`
	Commands    int     `json:"commands,omitempty"`
}

// BudgetsSpec bound what a run may spend; zero is the default.
type BudgetsSpec struct {
	Calls             int64   `json:"calls,omitempty"`
	FailedCalls       int64   `json:"failedCalls,omitempty"`
	OutputBytes       int64   `json:"outputBytes,omitempty"`
	CPUMs             int64   `json:"cpuMs,omitempty"`
	CostUnits         float64 `json:"costUnits,omitempty"`
	SameInputFailures int     `json:"sameInputFailures,omitempty"`
	ToolFailures      int     `json:"toolFailures,omitempty"`
}

// Permissions is a run's permission profile. A nil switch is the default:
// read, write and execute are granted, network is not.
type Permissions struct {
	ReadWorkspace  *bool     `json:"readWorkspace,omitempty"`
	WriteWorkspace *bool     `json:"writeWorkspace,omitempty"`
	ExecuteCommand *bool     `json:"executeCommand,omitempty"`
	Network        *bool     `json:"network,omitempty"`
	Tools          AllowDeny `json:"tools,omitzero"`
	Paths          AllowDeny `json:"paths,omitzero"`
	Approvals      []string  `json:"approvals,omitempty"`
}

// AllowDeny are two lists of globs; deny wins. A nil Allow allows all, an empty
// one nothing.
type AllowDeny struct {
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"`
}

// Task is the contract of a run's work.
type Task struct {
	Title        string   `json:"title,omitempty"`
	Description  string   `json:"description,omitempty"`
	Repositories []string `json:"repositories,omitempty"`
}

// Lease makes a run want heartbeats.
type Lease struct {
	TTLMs int64 `json:"ttlMs"`
}

// Check is one declared verification.
type Check struct {
	Name string   `json:"name"`
	Argv []string `json:"argv"`
}

// Run is a run as it is now; it is also the recorded form, without secrets.
type Run struct {
	RunID      string    `json:"runId"`
	Tenant     string    `json:"tenant,omitempty"`
	State      RunState  `json:"state"`
	Status     RunStatus `json:"status"`
	Reason     string    `json:"reason,omitempty"`
	Driver     string    `json:"driver"`
	Image      string    `json:"image"`
	Spec       RunSpec   `json:"spec"` // Secrets are nil here, SecretNames tells
	Secrets    []string  `json:"secretNames,omitempty"`
	Sandbox    BoxFacts  `json:"sandbox"`
	Usage      RunUsage  `json:"usage"`
	Changed    []string  `json:"changedFiles"`
	CreatedAt  time.Time `json:"createdAt"`
	ReadyAt    time.Time `json:"readyAt,omitzero"`
	EndedAt    time.Time `json:"endedAt,omitzero"`
	ExpiresAt  time.Time `json:"expiresAt,omitzero"`
	LastActive time.Time `json:"lastActiveAt,omitzero"`
}

// BoxFacts tell what the box is and what cannot be enforced in it.
type BoxFacts struct {
	Runtime       string   `json:"runtime,omitempty"`
	ImageDigest   string   `json:"imageDigest,omitempty"`
	WorkspacePath string   `json:"workspacePath,omitempty"`
	UserID        int      `json:"userId,omitempty"`
	CgroupMode    string   `json:"cgroupMode,omitempty"`
	KillStep      string   `json:"killStep,omitempty"`
	Degraded      []string `json:"degraded,omitempty"`
	StartedInMs   int64    `json:"startedInMs,omitempty"`
}

// RunUsage is what a run has used so far.
type RunUsage struct {
	Calls       int64 `json:"calls"`
	FailedCalls int64 `json:"failedCalls"`
	OutputBytes int64 `json:"outputBytes"`
	CPUMs       int64 `json:"cpuMs"`
	WallMs      int64 `json:"wallMs"`
}
