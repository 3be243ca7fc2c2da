package shell

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tools/shell/summary"
)

// RunResult is shell.run's structured output.
type RunResult struct {
	ExitCode          *int              `json:"exitCode"`
	Signal            *string           `json:"signal"`
	Stdout            string            `json:"stdout"`
	Stderr            string            `json:"stderr"`
	StdoutBytes       int64             `json:"stdoutBytes"`
	StderrBytes       int64             `json:"stderrBytes"`
	TimedOut          bool              `json:"timedOut"`
	Background        bool              `json:"background"`
	LeftoverProcesses int               `json:"leftoverProcesses"`
	OOMKilled         bool              `json:"oomKilled"`
	ExitMeaning       string            `json:"exitMeaning,omitempty"`
	Restriction       string            `json:"restriction,omitempty"`
	KillStep          string            `json:"killStep,omitempty"`
	ErrorSummary      []summary.Finding `json:"errorSummary,omitempty"`
}

// conclude makes the answer of how the command ended.
func conclude(ctx context.Context, root string, in RunInput, exit sandbox.Exit, stdout, stderr stream) (runtime.Output, error) {
	res := RunResult{
		Stdout: stdout.text, Stderr: stderr.text, StdoutBytes: stdout.bytes, StderrBytes: stderr.bytes,
		LeftoverProcesses: exit.Leftover, OOMKilled: exit.OOMKilled, KillStep: exit.KillStep,
	}
	if exit.Signal != "" {
		res.Signal = &exit.Signal
	} else {
		res.ExitCode = &exit.Code
	}
	out := runtime.Output{
		Truncated: stdout.omitted+stderr.omitted > 0,
		Effect:    runtime.EffectApplied,
		Usage: runtime.ResultUsage{
			WallMs: exit.Usage.Wall.Milliseconds(), CPUMs: exit.Usage.CPU.Milliseconds(), MaxRSSBytes: exit.Usage.MaxRSSBytes,
			OutputBytes: stdout.bytes + stderr.bytes, ProcessesKilled: exit.Killed,
		},
	}
	if Weigh(in).ReadOnly {
		out.Effect = runtime.EffectNone
	}
	if ctx.Err() != nil {
		res.TimedOut = endedByTimeout(ctx)
		out.Structured = res
		return out, context.Cause(ctx)
	}
	if exit.Signal != "" || exit.Code != 0 {
		explainFailure(&res, root, in, exit)
		out.Structured = res
		return out, failure(in, res, exit)
	}
	out.Structured, out.Message = res, remark(exit)
	return out, nil
}

func endedByTimeout(ctx context.Context) bool {
	cause, ok := errors.AsType[*runtime.CancelCause](context.Cause(ctx))
	return ok && cause.Reason == runtime.ReasonTimeout || errors.Is(context.Cause(ctx), context.DeadlineExceeded)
}

func explainFailure(res *RunResult, root string, in RunInput, exit sandbox.Exit) {
	if exit.Signal == "" {
		res.ExitMeaning = exitMeaning(in.mainProgram(), exit.Code)
	}
	res.ErrorSummary = summary.Of(root, res.Stdout, res.Stderr)
	res.Restriction = restrictionOf(res.Stderr, res.Stdout)
}

// failure is the fault of a command that did not exit with 0.
func failure(in RunInput, res RunResult, exit sandbox.Exit) *runtime.Fault {
	switch {
	case exit.OOMKilled:
		return runtime.Faultf(runtime.CodeOOMKilled, "The kernel killed a process of %s because the box's memory limit was reached (%s). Use less memory, or ask for a run with a higher limit.", in.label(), ending(res))
	case exit.PidsLimitHit:
		return runtime.Faultf(runtime.CodePidsLimit, "%s could not start another process: the box's limit of processes was reached (%s). Use fewer side by side.", capital(in.label()), ending(res))
	case exit.Signal != "":
		return runtime.Faultf(runtime.CodeProcessSignalled, "%s was ended by %s.", capital(in.label()), exit.Signal)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s exited with code %d", capital(in.label()), exit.Code)
	if res.ExitMeaning != "" {
		fmt.Fprintf(&b, " (%s)", res.ExitMeaning)
	}
	b.WriteByte('.')
	if n := len(res.ErrorSummary); n > 0 {
		fmt.Fprintf(&b, " First of %d reported: %s.", n, clip(strings.TrimRight(res.ErrorSummary[0].String(), ". "), 300))
	}
	if res.Restriction != "" {
		fmt.Fprintf(&b, " This looks like a limit of the box: %s.", res.Restriction)
	}
	if res.LeftoverProcesses > 0 {
		b.WriteString(" " + leftoverRemark(res.LeftoverProcesses))
	}
	return &runtime.Fault{Code: runtime.CodeProcessExitNonzero, Message: b.String()}
}

func ending(res RunResult) string {
	if res.Signal != nil {
		return "ended by " + *res.Signal
	}
	return fmt.Sprintf("exit code %d", *res.ExitCode)
}

// remark is for a command that succeeded but deserves a sentence.
func remark(exit sandbox.Exit) string {
	var parts []string
	if exit.OOMKilled {
		parts = append(parts, "Warning: the command exited with 0, but the kernel killed a process of the box for memory meanwhile, so its work may be incomplete.")
	}
	if exit.Leftover > 0 {
		parts = append(parts, leftoverRemark(exit.Leftover))
	}
	return strings.Join(parts, " ")
}

func leftoverRemark(n int) string {
	if n == 1 {
		return "One process that it left running was ended."
	}
	return fmt.Sprintf("%d processes that it left running were ended.", n)
}

func capital(s string) string {
	if s == "the script" {
		return "The script"
	}
	return s
}
