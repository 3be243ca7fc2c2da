package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sandboxd/sandboxd/client"
)

// call makes a call and shows it in one line.
func (d *demo) call(ctx context.Context, tool string, args any) (client.Result, error) {
	res, err := d.c.Do(ctx, d.run.RunID, tool, args)
	if err != nil {
		return res, err
	}
	d.line(res)
	return res, nil
}

// check counts a step and shows whether it came out as it must.
func (d *demo) check(promise string, kept bool) {
	d.steps++
	if !kept {
		d.failed++
	}
	d.verdict(promise, kept)
}

type readOutput struct {
	Content string `json:"content"`
	Hash    string `json:"hash"`
}

func (d *demo) read(ctx context.Context, path string) (readOutput, error) {
	var out readOutput
	res, err := d.call(ctx, "file.read", map[string]any{"path": path})
	if err != nil {
		return out, err
	}
	return out, decode(res, &out)
}

// hashesOf reads every file that a patch changes and returns their hashes.
func (d *demo) hashesOf(ctx context.Context, patch, dir string) (map[string]string, error) {
	hashes := map[string]string{}
	for line := range strings.Lines(patch) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "--- a/")
		if !ok {
			continue
		}
		out, err := d.read(ctx, dir+name)
		if err != nil {
			return nil, err
		}
		hashes[dir+name] = out.Hash
	}
	return hashes, nil
}

// relocate puts a directory before the file names of a unified diff.
func relocate(patch, dir string) string {
	var b strings.Builder
	for line := range strings.Lines(patch) {
		for _, mark := range []string{"--- a/", "+++ b/"} {
			if rest, ok := strings.CutPrefix(line, mark); ok {
				line = mark + dir + rest
			}
		}
		if rest, ok := strings.CutPrefix(line, "diff --git a/"); ok {
			name := strings.Fields(rest)[0]
			line = "diff --git a/" + dir + name + " b/" + dir + name + "\n"
		}
		b.WriteString(line)
	}
	return b.String()
}

// waitForCount repeats a counting command, for a bounded time, until it says
// what is wanted or more; for 0 it must say exactly that.
func (d *demo) waitForCount(ctx context.Context, command any, want int) (int, error) {
	last := -1
	for range 50 {
		res, err := d.c.Do(ctx, d.run.RunID, "shell.run", command)
		if err != nil {
			return 0, err
		}
		var out struct {
			Stdout string `json:"stdout"`
		}
		if err := decode(res, &out); err != nil {
			return 0, err
		}
		if last, err = strconv.Atoi(strings.TrimSpace(out.Stdout)); err != nil {
			return 0, err
		}
		if want == 0 && last == 0 || want > 0 && last >= want {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	return last, nil
}

// await waits for a call that was submitted.
func (d *demo) await(ctx context.Context, callID string) (client.Result, error) {
	for {
		call, err := d.c.Call(ctx, d.run.RunID, callID)
		if err != nil {
			return client.Result{}, err
		}
		if call.Result != nil {
			return *call.Result, nil
		}
		select {
		case <-ctx.Done():
			return client.Result{}, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// lastLines returns the end of a command's output.
func lastLines(res client.Result, stream string, n int) string {
	var out map[string]any
	if json.Unmarshal(res.StructuredOutput, &out) != nil {
		return ""
	}
	text, _ := out[stream].(string)
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// tarOf packs the files that git knows of a checkout, with .git itself, so
// that the box holds a repository with a clean status and no build output.
func tarOf(ctx context.Context, repo string) (*os.File, error) {
	dir, err := os.MkdirTemp("", "sandboxd-demo-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary copy
	clone := filepath.Join(dir, "repo")
	// A clone is the committed state: what a CI agent would be given.
	if out, err := exec.CommandContext(ctx, "git", "clone", "--quiet", "--no-hardlinks", repo, clone).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("clone %s: %w: %s", repo, err, out)
	}
	f, err := os.CreateTemp("", "sandboxd-demo-*.tar")
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "tar", "-C", clone, "-cf", "-", ".")
	cmd.Stdout = f
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("pack %s: %w", repo, err)
	}
	_, err = f.Seek(0, io.SeekStart)
	return f, err
}

// verifyLedger runs this program's own ledger verify beside the live service.
func verifyLedger(ctx context.Context, self, data string) (string, error) {
	out, err := exec.CommandContext(ctx, self, "ledger", "verify", "--data", data).CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err != nil {
		return "", fmt.Errorf("ledger verify: %w: %s", err, out)
	}
	return lines[len(lines)-1], nil
}

// demoService is the service that the demo started.
type demoService struct {
	client           *client.Client
	url, driver, why string
	data, binary     string
	stop             func()
}

// startService starts this program's serve on a free loopback port with a
// directory and a key of its own, and waits for the line that says it serves.
func startService(ctx context.Context, c *demoCmd) (*demoService, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	data, err := os.MkdirTemp("", "sandboxd-demo-data-")
	if err != nil {
		return nil, err
	}
	key := randomKey()
	cmd := exec.Command(self, "serve", "--listen", "127.0.0.1:0", "--data", data, "--driver", c.Driver)
	cmd.Env = append(os.Environ(), "SANDBOXD_API_KEY="+key)
	// The service ends with the demo, also when that is killed. The signal comes
	// when the thread ends that started it, so this goroutine keeps its thread.
	goruntime.LockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	logs, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	svc := &demoService{data: data, binary: self}
	svc.stop = func() {
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended
		_ = cmd.Wait()
		if !c.Keep {
			_ = os.RemoveAll(data)
		}
	}
	if err := svc.awaitLine(ctx, logs); err != nil {
		svc.stop()
		return nil, err
	}
	svc.client = client.New(svc.url, key)
	return svc, nil
}

// awaitLine reads the service's log until it serves; the rest is read and
// dropped, or shown where it tells of an error.
func (s *demoService) awaitLine(ctx context.Context, logs io.Reader) error {
	serving, ended := make(chan struct{}), make(chan string, 1)
	go func() {
		var said []string
		lines := bufio.NewScanner(logs)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var entry struct{ Level, Msg, Address, Driver, Why, Err string }
			if json.Unmarshal(lines.Bytes(), &entry) != nil {
				said = append(said, lines.Text())
				continue
			}
			switch {
			case entry.Msg == "serving":
				s.url, s.driver, s.why = entry.Address, entry.Driver, entry.Why
				close(serving)
			case entry.Level == "ERROR":
				fmt.Fprintln(os.Stderr, "service:", lines.Text())
			}
		}
		ended <- strings.Join(said, "\n")
	}()
	select {
	case <-serving:
		return nil
	case text := <-ended:
		return fmt.Errorf("the service did not start:\n%s", text)
	case <-ctx.Done():
		return ctx.Err()
	}
}
