package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/client"
)

// demoCmd starts a service of its own and does the product's main job on a
// real repository. It exits 0 only if every step came out as it must.
type demoCmd struct {
	Repo   string `default:"." type:"existingdir" help:"A git checkout to work on; it is copied, never changed."`
	Driver string `default:"auto" enum:"auto,docker,oci" help:"What makes the boxes."`
	Keep   bool   `help:"Keep the service's data directory for a look afterwards."`
}

// Run does the demo.
func (c *demoCmd) Run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	show := newStage(os.Stdout)
	show.title("sandboxd: a model's tool calls, each in a box of its own")
	svc, err := startService(ctx, c)
	if err != nil {
		return err
	}
	defer svc.stop()
	d := &demo{stage: show, c: svc.client, data: svc.data, self: svc.binary}
	show.fact("service", fmt.Sprintf("%s, driver %s (%s)", svc.url, svc.driver, svc.why))
	err = d.play(ctx, c.Repo)
	if d.failed > 0 || err != nil {
		show.end(false, fmt.Sprintf("%d of %d steps did not come out as they must", d.failed, d.steps))
		if err != nil {
			return err
		}
		return errSaid
	}
	show.end(true, fmt.Sprintf("%d steps, each outcome checked", d.steps))
	return nil
}

// demo is one playing of the script.
type demo struct {
	*stage
	c             *client.Client
	data, self    string
	steps, failed int
	run           client.Run
}

// play is the script. A step whose outcome is wrong is shown and counted; an
// error ends it.
func (d *demo) play(ctx context.Context, repo string) error {
	for _, act := range []func(context.Context) error{
		func(ctx context.Context) error { return d.openRun(ctx, repo) },
		d.search, d.editWithBaseHash, d.mendTests, d.cancelRunaway, d.showDiff, d.showLedger, d.closeRun,
	} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) openRun(ctx context.Context, repo string) error {
	d.act("A run on a copy of this repository")
	run, err := d.c.CreateRun(ctx, map[string]any{
		"source": map[string]any{"type": "upload"},
		"limits": map[string]any{"memoryBytes": 512 << 20, "pids": 128, "cpus": 1},
		"labels": map[string]string{"job": "demo"},
	})
	if err != nil {
		return err
	}
	d.run = run
	tar, err := tarOf(ctx, repo)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tar.Name()); _ = tar.Close() }() // a temporary file
	if err := d.c.Upload(ctx, run.RunID, tar); err != nil {
		return err
	}
	d.fact("run", fmt.Sprintf("%s, ready in %d ms", run.RunID, run.Sandbox.StartedInMs))
	d.fact("box", fmt.Sprintf("%s on %s, image %s, kills by %s", run.Driver, run.Sandbox.Runtime, run.Image, run.Sandbox.KillStep))
	for _, lack := range run.Sandbox.Degraded {
		d.fact("degraded", lack)
	}
	status, err := d.call(ctx, "git.status", map[string]any{})
	if err != nil {
		return err
	}
	d.check("the workspace is a git repository in the box", status.Status == "SUCCEEDED")
	return nil
}

func (d *demo) search(ctx context.Context) error {
	d.act("Search the code, read what was found")
	res, err := d.call(ctx, "repo.search", map[string]any{"query": "func (k *Kernel) Do(", "pathGlobs": []string{"runtime/**/*.go"}, "maxResults": 5})
	if err != nil {
		return err
	}
	var found struct {
		Matches []struct {
			Path    string `json:"path"`
			Line    int    `json:"line"`
			Preview string `json:"preview"`
		} `json:"matches"`
	}
	if err := decode(res, &found); err != nil {
		return err
	}
	d.check("the kernel's road is found in runtime/kernel.go", len(found.Matches) > 0 && found.Matches[0].Path == "runtime/kernel.go")
	if len(found.Matches) > 0 {
		m := found.Matches[0]
		d.text(fmt.Sprintf("%s:%d  %s", m.Path, m.Line, strings.TrimSpace(m.Preview)))
	}
	outside, err := d.call(ctx, "file.read", map[string]any{"path": "../../etc/shadow"})
	if err != nil {
		return err
	}
	d.check("a path that leads out is refused before anything runs", outside.ErrorCode == "PATH_TRAVERSAL")
	return nil
}

// demoFile is what the hash drill works on.
const demoFile = "docs/demo-note.md"

func (d *demo) editWithBaseHash(ctx context.Context) error {
	d.act("Edit: a stale patch is refused, a good one applied")
	if _, err := d.call(ctx, "file.write", map[string]any{"path": demoFile, "content": "one\ntwo\nthree\n", "mustNotExist": true}); err != nil {
		return err
	}
	before, err := d.read(ctx, demoFile)
	if err != nil {
		return err
	}
	// Somebody else changes the file between the read and the patch.
	if _, err := d.call(ctx, "shell.run", map[string]any{"script": "printf 'zero\\none\\ntwo\\nthree\\n' > " + demoFile}); err != nil {
		return err
	}
	patch := fmt.Sprintf("--- a/%[1]s\n+++ b/%[1]s\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n", demoFile)
	stale, err := d.call(ctx, "file.patch", map[string]any{"path": demoFile, "baseHash": before.Hash, "patch": patch})
	if err != nil {
		return err
	}
	d.check("the stale patch is refused with BASE_HASH_MISMATCH", stale.Status == "FAILED" && stale.ErrorCode == "BASE_HASH_MISMATCH")
	now, err := d.read(ctx, demoFile)
	if err != nil {
		return err
	}
	d.check("and the file is untouched by it", now.Content == "zero\none\ntwo\nthree\n")
	good, err := d.call(ctx, "file.patch", map[string]any{"path": demoFile, "baseHash": now.Hash, "patch": patch})
	if err != nil {
		return err
	}
	after, err := d.read(ctx, demoFile)
	if err != nil {
		return err
	}
	d.check("with the fresh hash it is applied", good.Status == "SUCCEEDED" && after.Content == "zero\none\nTWO\nthree\n")
	return nil
}

func (d *demo) mendTests(ctx context.Context) error {
	d.act("A failing test suite, mended")
	test := map[string]any{"argv": []string{"python3", "-m", "unittest", "-q"}, "cwd": "examples/pycalc", "timeoutMs": 60000}
	red, err := d.call(ctx, "shell.run", test)
	if err != nil {
		return err
	}
	d.check("the suite fails with PROCESS_EXIT_NONZERO", red.Status == "FAILED" && red.ErrorCode == "PROCESS_EXIT_NONZERO")
	d.text(lastLines(red, "stderr", 6))
	patch, err := d.read(ctx, "examples/pycalc/fix.patch")
	if err != nil {
		return err
	}
	hashes, err := d.hashesOf(ctx, patch.Content, "examples/pycalc/")
	if err != nil {
		return err
	}
	mend, err := d.call(ctx, "file.patch", map[string]any{"patch": relocate(patch.Content, "examples/pycalc/"), "baseHashes": hashes})
	if err != nil {
		return err
	}
	d.check("the patch applies on the hashes that were read", mend.Status == "SUCCEEDED")
	green, err := d.call(ctx, "shell.run", test)
	if err != nil {
		return err
	}
	d.check("the suite passes", green.Status == "SUCCEEDED")
	d.text(lastLines(green, "stderr", 3))
	return nil
}

// cancelRunaway starts a command that leaves its session, forks twice and
// ignores TERM, and cancels it.
func (d *demo) cancelRunaway(ctx context.Context) error {
	d.act("A runaway command that daemonises, cancelled")
	const mark = "86399.5"
	script := `
for i in 1 2 3; do
  setsid bash -c 'trap "" TERM HUP INT; (sleep ` + mark + ` & sleep ` + mark + `) & wait' >/dev/null 2>&1 &
done
trap "" TERM
echo started
sleep ` + mark
	call, err := d.c.Submit(ctx, d.run.RunID, "shell.run", map[string]any{"script": script, "timeoutMs": 120000})
	if err != nil {
		return err
	}
	count := map[string]any{"script": "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -c '^" + mark + "$' || true"}
	running, err := d.waitForCount(ctx, count, 7)
	if err != nil {
		return err
	}
	d.check("its processes run", running >= 7)
	if err := d.c.Cancel(ctx, d.run.RunID, call.ToolCallID, 300*time.Millisecond); err != nil {
		return err
	}
	res, err := d.await(ctx, call.ToolCallID)
	if err != nil {
		return err
	}
	d.line(res)
	left, err := d.waitForCount(ctx, count, 0)
	if err != nil {
		return err
	}
	d.check(fmt.Sprintf("it is CANCELLED, %d processes were killed, none is left", res.Usage.ProcessesKilled),
		res.Status == "CANCELLED" && res.Usage.ProcessesKilled >= 7 && left == 0)
	return nil
}

func (d *demo) showDiff(ctx context.Context) error {
	d.act("What came of it")
	res, err := d.call(ctx, "git.diff", map[string]any{})
	if err != nil {
		return err
	}
	var out struct {
		Diff string `json:"diff"`
	}
	if err := decode(res, &out); err != nil {
		return err
	}
	d.check("git diff shows the mended suite", strings.Contains(out.Diff, "examples/pycalc/"))
	d.diff(out.Diff)
	whole, err := d.c.Diff(ctx, d.run.RunID)
	if err != nil {
		return err
	}
	d.check("the run's own diff shows the new file too", strings.Contains(whole, demoFile))
	return nil
}

func (d *demo) showLedger(ctx context.Context) error {
	d.act("The ledger")
	events, err := d.c.Events(ctx, d.run.RunID, 0)
	if err != nil {
		return err
	}
	d.ledger(events)
	gapless, requests, results := true, 0, 0
	for i, e := range events {
		gapless = gapless && e.Seq == int64(i+1)
		switch e.Kind {
		case "TOOL_CALL_REQUEST":
			requests++
		case "TOOL_CALL_RESULT":
			results++
		}
	}
	d.check(fmt.Sprintf("%d events without a gap", len(events)), gapless && len(events) > 0)
	d.check(fmt.Sprintf("every one of %d requests has its result", requests), requests > 0 && requests == results)
	return nil
}

func (d *demo) closeRun(ctx context.Context) error {
	if err := d.c.EndRun(ctx, d.run.RunID); err != nil {
		return err
	}
	run, err := d.c.Run(ctx, d.run.RunID)
	if err != nil {
		return err
	}
	d.check("the run is ended and its box removed", run.Status == "ended")
	verified, err := verifyLedger(ctx, d.self, d.data)
	if err != nil {
		return err
	}
	d.check("sandboxd ledger verify: "+verified, true)
	return nil
}

// decode reads a result's structured output.
func decode(res client.Result, out any) error {
	if res.StructuredOutput == nil {
		return fmt.Errorf("%s answered %s %s: %s", res.ToolName, res.Status, res.ErrorCode, res.SafeMessage)
	}
	return json.Unmarshal(res.StructuredOutput, out)
}
