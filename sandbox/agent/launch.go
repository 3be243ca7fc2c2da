package agent

import (
	"strconv"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/agent/spawn"
	"github.com/sandboxd/sandboxd/sandbox/agentproto"
	"golang.org/x/sys/unix"
)

// commandOOMScore makes the kernel choose a command, not the agent, when the
// box's memory is used up.
const commandOOMScore = "500"

const commandUmask = 0o022

// spec says what to spawn. cleanup gives back what only the child needs.
func (c *command) spec() (spec *spawn.Spec, cleanup func(), err error) {
	b := c.op.box
	env := mergeEnv(b.env, toStrings(c.msg.Env))
	spec = &spawn.Spec{
		Paths: candidates(string(c.msg.Argv[0]), env), Argv: toStrings(c.msg.Argv), Env: env,
		Cgroup: -1, Filter: b.cfg.Filter, Terminal: c.msg.TTY != nil,
		OOMScore: commandOOMScore, Umask: commandUmask,
	}
	if b.user != nil {
		spec.Credential = &spawn.Credential{UID: b.user.uid, GID: b.user.gid}
	}
	for _, l := range b.limits {
		spec.Rlimits = append(spec.Rlimits, spawn.Rlimit{Resource: l.resource, Soft: uint64(l.value), Hard: uint64(l.value)})
	}
	if err := c.hold(spec); err != nil {
		return nil, nil, err
	}
	dir, closeDir, err := c.dir()
	if err != nil {
		return nil, nil, err
	}
	spec.Dir = dir
	if spec.Files, err = c.streams.open(b); err != nil {
		closeDir()
		return nil, nil, err
	}
	return spec, func() { closeDir(); c.streams.closeChildEnds() }, nil
}

// hold decides how the command's processes are known: by a cgroup, or by a
// mark.
func (c *command) hold(spec *spawn.Spec) error {
	sl := c.slot
	if err := sl.freshGroup(); err != nil {
		return &sandbox.Error{Kind: sandbox.KindInternal, Message: "The command's cgroup cannot be made: " + err.Error(), Cause: err}
	}
	if sl.group != nil {
		spec.Cgroup = int(sl.group.dir.Fd())
		c.tree = sl.group
		return nil
	}
	m := &marked{}
	if sl.slots.mark {
		m.gid = sl.marker()
		spec.Groups = []uint32{uint32(m.gid)}
	}
	if sl.pids != nil {
		m.freeze = sl.pids.freeze
	}
	c.tree = m
	return nil
}

// dir opens the working directory with the user's rights.
func (c *command) dir() (fd int, closeDir func(), err error) {
	b := c.op.box
	if len(c.msg.Dir) == 0 {
		return b.home, func() {}, nil
	}
	b.files.do(func() { fd, err = b.root.Dir(string(c.msg.Dir)) })
	if err != nil {
		return -1, nil, badDir(string(c.msg.Dir), err)
	}
	return fd, func() { _ = unix.Close(fd) }, nil
}

func toStrings(list []agentproto.Bytes) []string {
	out := make([]string, len(list))
	for i, b := range list {
		out[i] = string(b)
	}
	return out
}

func itoa(n int) string { return strconv.Itoa(n) }
