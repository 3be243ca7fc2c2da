package oci

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/sandbox"
)

// runtimeTimeout bounds one call of the runtime.
const runtimeTimeout = 60 * time.Second

// A runtime is an OCI runtime's command line.
type runtime struct {
	name, path, version string
}

// A dialect is how one runtime differs from the others. Their command lines
// share what the OCI never specified but all copied from runc.
type dialect struct {
	// flags go before the subcommand.
	flags []string
	// get says where the runtime comes from.
	get string
	// openDev leaves /dev writable for root: the runtime's own kernel refuses to
	// write to devices on a read-only file system, as Linux does not.
	openDev bool
	// missing says what keeps the agent from serving there, or is "".
	missing string
}

// dev are the options of /dev: read-only once the runtime has put the usual
// devices in.
func (d dialect) dev() []string {
	if d.openDev {
		return nil
	}
	return []string{"ro"}
}

// dialects lists the runtimes that can be asked for.
func dialects() map[string]dialect {
	return map[string]dialect{
		"runc": {get: "apt-get install runc"},
		"crun": {get: "apt-get install crun"},
		// The sandbox reaches no network at all, and the agent's socket in a bound
		// directory is made on the host, where the service waits for it; a box
		// may connect to none.
		"runsc": {get: "apt-get install runsc, or see gvisor.dev", openDev: true,
			flags:   []string{"--network=none", "--host-uds=create", "--oci-seccomp"},
			missing: "boxes cannot be made with runsc yet: gVisor has no setfsuid(2), which the agent's file work needs, and refuses to rename its socket in a bound directory",
		},
	}
}

func findRuntime(ctx context.Context, name string) (runtime, error) {
	name = cmp.Or(name, "runc")
	d, ok := dialects()[name]
	if !ok {
		return runtime{}, &UnusableError{Message: fmt.Sprintf("the runtime %q is not known; choose runc, crun or runsc", name)}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		// The administrator's directories are often missing from a service's PATH.
		path, err = exec.LookPath(filepath.Join("/usr/sbin", name))
	}
	if err != nil {
		return runtime{}, &UnusableError{Message: fmt.Sprintf("there is no %s in PATH; install it (%s), or start a Docker engine and choose the docker driver", name, d.get), Cause: err}
	}
	ctx, cancel := context.WithTimeout(ctx, runtimeTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return runtime{}, &UnusableError{Message: fmt.Sprintf("%s does not tell its version; install it anew (%s)", name, d.get), Cause: err}
	}
	return runtime{name: name, path: path, version: parseVersion(string(out))}, nil
}

// parseVersion finds the version in the first line of --version: the last word
// of "runc version 1.1.5+ds1", "crun version 1.8.1", "runsc version release-…".
func parseVersion(out string) string {
	line, _, _ := strings.Cut(out, "\n")
	words := strings.Fields(line)
	if len(words) == 0 {
		return "unknown"
	}
	return words[len(words)-1]
}

// warning is a sentence on a runtime with known holes, or "". The releases of
// November 2025 (runc 1.2.8, 1.3.3) closed CVE-2025-31133, -52565 and -52881,
// ways around masked paths.
func (r runtime) warning() string {
	var v [3]int
	if n, _ := fmt.Sscanf(r.version, "%d.%d.%d", &v[0], &v[1], &v[2]); r.name != "runc" || n < 3 {
		return ""
	}
	fixed := [3]int{1, 2, 8}
	if slices.Compare(v[:], []int{1, 3, 0}) >= 0 {
		fixed = [3]int{1, 3, 3}
	}
	if slices.Compare(v[:], fixed[:]) >= 0 {
		return ""
	}
	return fmt.Sprintf("runc %s lacks the fixes of November 2025 for ways around masked paths, unless the distribution added them; install %d.%d.%d or newer", r.version, fixed[0], fixed[1], fixed[2])
}

// A RuntimeError is what the runtime said when it failed.
type RuntimeError struct {
	Runtime, Command, Said string
	Cause                  error
}

func (e *RuntimeError) Error() string {
	return fmt.Sprintf("%s %s: %s", e.Runtime, e.Command, cmp.Or(e.Said, e.Cause.Error()))
}

// Unwrap returns the cause.
func (e *RuntimeError) Unwrap() error { return e.Cause }

// call runs a subcommand of the runtime on the containers in state. stderr, when
// not nil, becomes the standard error of the runtime and of what it starts; the
// runtime's own words come through its log instead.
func (r runtime) call(ctx context.Context, state string, stderr *os.File, command string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, runtimeTimeout)
	defer cancel()
	// A pipe is read to its end only if nobody keeps it open, and the container
	// would; so the log goes to a file without a name.
	log, err := os.CreateTemp(filepath.Dir(state), ".log-")
	if err != nil {
		return err
	}
	defer func() { _, _ = log.Close(), os.Remove(log.Name()) }() // a log of nothing is left at worst
	argv := append([]string{"--root", state, "--log", log.Name()}, dialects()[r.name].flags...)
	cmd := exec.CommandContext(ctx, r.path, append(append(argv, command), args...)...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/", "LANG=C.UTF-8"}
	// A *os.File is handed over as it is: no copying goroutine waits for it.
	if stderr != nil {
		cmd.Stderr = stderr
	} else {
		cmd.Stderr = log
	}
	if err := cmd.Run(); err != nil {
		return &RuntimeError{Runtime: r.name, Command: command, Said: lastWords(log), Cause: err}
	}
	return nil
}

// lastWords returns the end of the runtime's log on one line.
func lastWords(log *os.File) string {
	const most = 2048
	size, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return ""
	}
	tail := make([]byte, min(size, most))
	n, err := log.ReadAt(tail, max(0, size-most))
	if err != nil && !errors.Is(err, io.EOF) {
		return ""
	}
	lines := bytes.Split(bytes.TrimSpace(tail[:n]), []byte("\n"))
	return string(bytes.TrimSpace(lines[len(lines)-1]))
}

// failure turns a runtime's failure into what the caller is told. Its words are
// shown where they name no path of the host.
func failure(err error, what string) *sandbox.Error {
	message := what
	if e, ok := errors.AsType[*RuntimeError](err); ok && e.Said != "" && !strings.Contains(e.Said, "/") {
		message += ": " + e.Said
	}
	return &sandbox.Error{Kind: sandbox.KindUnavailable, Message: message, Cause: err}
}
