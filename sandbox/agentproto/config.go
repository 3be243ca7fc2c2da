package agentproto

import "golang.org/x/sys/unix"

// Version is the protocol's version. Both ends must have the same: the agent
// is delivered by the service that speaks to it.
const Version = 1

// The places of the launch contract, inside the box.
const (
	Dir          = "/run/sandboxd"
	AgentPath    = Dir + "/agent"
	SocketPath   = Dir + "/agent.sock"
	TokenPath    = Dir + "/token"
	Cgroup2Mount = Dir + "/cgroup/unified"
	PidsMount    = Dir + "/cgroup/pids"
	FillMount    = Dir + "/fill"
	SocketName   = "agent.sock"
	TokenName    = "token"
)

// Config is what the service tells the agent about its box, once, in the
// hello.
type Config struct {
	// Token proves that the caller is the service that made the box.
	Token string `cbor:"-"`
	// Workspace is the directory that commands and file work are confined to;
	// ReadOnly refuses changes to it with sandbox.KindReadOnly.
	Workspace string `cbor:"1,keyasint"`
	ReadOnly  bool   `cbor:"2,keyasint,omitempty"`
	// UID and GID are the user of commands and of file work. Where the agent
	// does not run as root they are ignored and its own are used.
	UID int `cbor:"3,keyasint"`
	GID int `cbor:"4,keyasint"`
	// Home is HOME of commands; "" is the workspace.
	Home string `cbor:"5,keyasint,omitempty"`
	// Env is the environment of every command, as NAME=VALUE; PATH, HOME,
	// USER and LANG get defaults where it has none.
	Env []string `cbor:"6,keyasint,omitempty"`
	// FileBytes and OpenFiles are RLIMIT_FSIZE and RLIMIT_NOFILE of commands;
	// 0 leaves the container's.
	FileBytes int64 `cbor:"7,keyasint,omitempty"`
	OpenFiles int64 `cbor:"8,keyasint,omitempty"`
	// Commands is how many commands may run side by side; further ones wait.
	// 0 is 4.
	Commands int `cbor:"9,keyasint,omitempty"`
	// BoxPids is the pids limit of the whole box, 0 if there is none.
	// PidsPerCommand is the limit of one command with all its children; 0 is
	// the even share of what BoxPids leaves after the agent's own threads.
	BoxPids        int64 `cbor:"10,keyasint,omitempty"`
	PidsPerCommand int64 `cbor:"11,keyasint,omitempty"`
	// Cgroup2Dir and PidsCgroupDir are directories inside the box in which
	// the agent may make cgroups; "" is none.
	Cgroup2Dir    string `cbor:"12,keyasint,omitempty"`
	PidsCgroupDir string `cbor:"13,keyasint,omitempty"`
	// OOMFile holds the box's oom_kill counter (v1 memory.oom_control or v2
	// memory.events); "" looks below /sys/fs/cgroup.
	OOMFile string `cbor:"14,keyasint,omitempty"`
	// FillDir is a writable way to a read-only workspace, in the directory that
	// only root enters. Fill takes it: what a workspace starts from is its
	// owner's to bring, whatever commands may do later. "" is Workspace.
	FillDir string `cbor:"15,keyasint,omitempty"`
	// Filter is the second seccomp layer, which every command gets between
	// clone and exec; empty is none.
	Filter []unix.SockFilter `cbor:"-"`
}

// Welcome is the agent's answer to the hello: what it is and what it found.
type Welcome struct {
	// PID is the agent's own process id, Version its build.
	PID     int    `cbor:"1,keyasint"`
	Version string `cbor:"2,keyasint"`
	// UID is the uid that commands really get.
	UID int `cbor:"3,keyasint"`
	// KillStep is the strongest step that the box has (see sandbox.Exit).
	KillStep string `cbor:"4,keyasint"`
	// CgroupMode is "cgroup2", "hybrid", "pids-v1" or "none": where commands
	// are held.
	CgroupMode string `cbor:"5,keyasint"`
	// PidsPerCommand is the limit in force, 0 if none can be set.
	PidsPerCommand int64 `cbor:"6,keyasint,omitempty"`
	// Degraded lists what cannot be enforced here, a sentence each.
	Degraded []string `cbor:"7,keyasint,omitempty"`
}
