package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	goruntime "runtime"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/sandbox"
)

// doctorCmd makes a box with the driver that serve would take and says what
// holds in it.
type doctorCmd struct {
	Driver  string `default:"auto" enum:"auto,docker,oci" env:"SANDBOXD_DRIVER" help:"The driver to look at."`
	Runtime string `env:"SANDBOXD_RUNTIME" help:"OCI runtime by name."`
	Agent   string `env:"SANDBOXD_AGENT" help:"Path of sandboxd-agent."`
}

// Run prints one line a fact; it fails when no box can be made here.
func (c *doctorCmd) Run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	s := newStage(os.Stdout)
	s.title("What this machine can enforce")
	s.fact("system", fmt.Sprintf("%s %s, %d processors, uid %d", goruntime.GOOS, goruntime.GOARCH, goruntime.NumCPU(), os.Geteuid()))
	for _, name := range []string{"runc", "crun", "runsc"} {
		s.fact(name, runtimeVersion(ctx, name))
	}
	data, err := os.MkdirTemp("", "sandboxd-doctor-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(data) }() // a temporary directory
	agent, err := (&serveCmd{Agent: c.Agent}).agentPath()
	if err != nil {
		return err
	}
	driver, why, err := chooseDriver(ctx, driverConfig{name: c.Driver, data: data, agent: agent, runtime: c.Runtime, log: discardLog()})
	if err != nil {
		s.verdict("a driver that makes boxes", false)
		return err
	}
	defer func() { _ = driver.Close() }() // nothing of it is left
	s.verdict("driver "+driver.Name()+": "+why, true)
	return c.tryBox(ctx, s, driver)
}

// tryBox makes one box and asks the commands in it what they are.
func (c *doctorCmd) tryBox(ctx context.Context, s *stage, driver sandbox.Driver) error {
	box, err := driver.Create(ctx, sandbox.Spec{
		RunID: "doctor-" + fmt.Sprint(os.Getpid()), Runtime: c.Runtime, Seccomp: "strict",
		Network: sandbox.NetworkNone, Limits: sandbox.DefaultLimits(),
	})
	if err != nil {
		s.verdict("a hardened box", false)
		return err
	}
	defer func() {
		if err := box.Remove(context.WithoutCancel(ctx)); err != nil {
			fmt.Fprintln(os.Stderr, "sandboxd: box not removed:", err)
		}
	}()
	f := box.Facts()
	s.verdict(fmt.Sprintf("a hardened box, ready in %d ms (%s, image %s)", f.StartedIn.Milliseconds(), f.Runtime, f.Image), true)
	status, err := output(ctx, box, "cat", "/proc/self/status")
	if err != nil {
		return err
	}
	for _, row := range []struct{ promise, line string }{
		{"commands are not root", fmt.Sprintf("Uid:\t%d\t", f.UserID)},
		{"commands have no capabilities", "CapEff:\t0000000000000000"},
		{"commands cannot gain privileges", "NoNewPrivs:\t1"},
		{"system calls are filtered", "Seccomp:\t2"},
	} {
		s.verdict(row.promise, strings.Contains(status, row.line))
	}
	s.fact("cgroups", f.CgroupMode)
	s.fact("kills by", f.KillStep)
	for _, lack := range f.Degraded {
		s.fact("degraded", lack)
	}
	s.fact("isolation", "runc and crun share this machine's kernel; for hostile strangers take runtime runsc or a virtual machine")
	return nil
}

func output(ctx context.Context, box sandbox.Box, argv ...string) (string, error) {
	var out strings.Builder
	_, err := sandbox.Run(ctx, box, sandbox.Command{Argv: argv, Stdout: &out}, sandbox.After(time.Second))
	return out.String(), err
}

func runtimeVersion(ctx context.Context, name string) string {
	out, err := exec.CommandContext(ctx, name, "--version").Output()
	if err != nil {
		return "not here"
	}
	first, _, _ := strings.Cut(string(out), "\n")
	if v, ok := strings.CutPrefix(first, "runc version "); ok && olderRunc(v) {
		first += " (before 1.2.8 / 1.3.3: lacks the masked-path fixes of November 2025; update it)"
	}
	return first
}

// olderRunc tells whether a version lacks the fixes of CVE-2025-31133, -52565
// and -52881.
func olderRunc(version string) bool {
	var major, minor, patch int
	if n, _ := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch); n < 2 {
		return true
	}
	switch {
	case major != 1:
		return major < 1
	case minor == 2:
		return patch < 8
	case minor == 3:
		return patch < 3
	default:
		return minor < 2
	}
}
