package agent

import (
	"os"
	"strings"

	"github.com/sandboxd/sandboxd/sandbox/agentproto"
	"golang.org/x/sys/unix"
)

// defaultPath is the PATH of commands for which nobody has set one.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// baseEnv is the environment of every command: the defaults, then what the
// box says. Nothing of the agent's own environment is in it.
func baseEnv(cfg agentproto.Config) []string {
	home := cfg.Home
	if home == "" {
		home = cfg.Workspace
	}
	return mergeEnv([]string{"PATH=" + defaultPath, "HOME=" + home, "USER=sandbox", "LANG=C.UTF-8"}, cfg.Env)
}

// mergeEnv adds more to base; of one name the later wins. An entry without "="
// is left out.
func mergeEnv(base, more []string) []string {
	if len(more) == 0 {
		return base
	}
	at := make(map[string]int, len(base)+len(more))
	var out []string
	for _, list := range [][]string{base, more} {
		for _, entry := range list {
			name, _, ok := strings.Cut(entry, "=")
			if !ok || name == "" {
				continue
			}
			if i, seen := at[name]; seen {
				out[i] = entry
				continue
			}
			at[name] = len(out)
			out = append(out, entry)
		}
	}
	return out
}

// candidates lists the paths that a program's name can stand for, in the
// order in which they are tried.
func candidates(name string, env []string) []string {
	if strings.Contains(name, "/") {
		return []string{name}
	}
	var paths []string
	for _, entry := range env {
		value, ok := strings.CutPrefix(entry, "PATH=")
		if !ok {
			continue
		}
		for dir := range strings.SplitSeq(value, ":") {
			// An empty element would mean the current directory, which the
			// workspace's content would then rule.
			if dir != "" {
				paths = append(paths, dir+"/"+name)
			}
		}
	}
	return paths
}

// commandLimits are the resource limits of every command. Those of the
// container bound them: the agent has no right to raise a hard limit.
func commandLimits(cfg agentproto.Config) []limit {
	limits := []limit{{unix.RLIMIT_CORE, 0}}
	for _, l := range []limit{{unix.RLIMIT_FSIZE, cfg.FileBytes}, {unix.RLIMIT_NOFILE, cfg.OpenFiles}} {
		if l.value <= 0 {
			continue
		}
		var have unix.Rlimit
		if err := unix.Getrlimit(l.resource, &have); err == nil && have.Max < uint64(l.value) {
			l.value = int64(have.Max)
		}
		limits = append(limits, l)
	}
	return limits
}

// counter reads one number of a cgroup file.
type counter struct {
	file *os.File
	key  string
}

// openOOM opens the box's counter of memory kills; the file is nil if there is
// none.
func openOOM(path string) counter {
	paths := []string{path}
	if path == "" {
		paths = []string{"/sys/fs/cgroup/memory/memory.oom_control", "/sys/fs/cgroup/memory.events"}
	}
	for _, p := range paths {
		if f, err := os.Open(p); err == nil {
			return counter{file: f, key: "oom_kill "}
		}
	}
	return counter{}
}

// read returns the number, 0 if it cannot be read.
func (c counter) read() int64 {
	if c.file == nil {
		return 0
	}
	var buf [1024]byte
	n, err := unix.Pread(int(c.file.Fd()), buf[:], 0)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(buf[:n])) {
		if value, ok := strings.CutPrefix(line, c.key); ok {
			return parseInt(strings.TrimSpace(value))
		}
	}
	return 0
}

func parseInt(s string) int64 {
	var n int64
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0
		}
		n = n*10 + int64(c-'0')
	}
	return n
}
