package agent

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/sandboxd/sandboxd/sandbox"
	"golang.org/x/sys/unix"
)

// pidsShare returns the limit of one command. Invariant: all commands at their
// limits leave the agent its own threads.
func pidsShare(boxPids, wanted int64, commands int) (int64, error) {
	if boxPids <= 0 {
		return max(wanted, 0), nil
	}
	rest := boxPids - agentPids - int64(commands)
	share := rest / int64(commands)
	if wanted > 0 {
		share = wanted
	}
	if share < 1 || share*int64(commands) > rest {
		return 0, &sandbox.Error{Kind: sandbox.KindInvalid, Message: fmt.Sprintf(
			"A box of %d pids cannot give %d commands %d pids each: the agent needs %d of its own.",
			boxPids, commands, max(share, 1), agentPids+commands)}
	}
	return share, nil
}

// delegatePids turns the pids controller on below a cgroup2 directory, where
// it has one to give. The directory must then hold no process itself (the "no
// internal processes" rule, cgroups(7)): the agent moves into a child.
func delegatePids(dir string) bool {
	have, err := os.ReadFile(dir + "/cgroup.controllers")
	if err != nil || !slices.Contains(strings.Fields(string(have)), "pids") {
		return false
	}
	enable := func() error { return os.WriteFile(dir+"/cgroup.subtree_control", []byte("+pids"), 0) }
	if enable() == nil {
		return true
	}
	own := dir + "/agent"
	if err := os.Mkdir(own, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return false
	}
	if os.WriteFile(own+"/cgroup.procs", []byte("0"), 0) != nil {
		return false
	}
	return enable() == nil
}

// pidsGroup is a slot's directory in the v1 pids hierarchy.
type pidsGroup struct {
	path   string
	max    string
	events *os.File
}

// newPidsGroup makes the directory. Its limit holds the slot's thread too.
func newPidsGroup(parent string, index int, limit int64) (*pidsGroup, error) {
	p := &pidsGroup{path: fmt.Sprintf("%s/cmds/%d", parent, index), max: "max"}
	if limit > 0 {
		p.max = strconv.FormatInt(limit+1, 10)
	}
	if err := os.MkdirAll(p.path, 0o755); err != nil {
		return nil, err
	}
	if err := p.setMax(p.max); err != nil {
		return nil, err
	}
	var err error
	p.events, err = os.Open(p.path + "/pids.events")
	return p, err
}

func (p *pidsGroup) setMax(v string) error {
	return os.WriteFile(p.path+"/pids.max", []byte(v), 0)
}

// join moves the calling thread alone.
func (p *pidsGroup) join() error {
	return os.WriteFile(p.path+"/tasks", []byte(strconv.Itoa(unix.Gettid())), 0)
}

// freeze refuses all forks, or allows them again.
func (p *pidsGroup) freeze(stop bool) {
	v := p.max
	if stop {
		v = "0"
	}
	// Without it the walk still converges, only slower.
	_ = p.setMax(v)
}

func (p *pidsGroup) close() {
	_ = p.events.Close()
	// The thread leaves it when it ends, a moment later: the directory goes
	// with the box's.
	_ = unix.Rmdir(p.path)
}
