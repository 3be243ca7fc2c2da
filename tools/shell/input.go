package shell

import (
	"path"
	"strings"

	"github.com/sandboxd/sandboxd/runtime"
)

// RunInput is shell.run's input. Either Argv or Script is given.
type RunInput struct {
	Argv      []string          `json:"argv"`
	Script    *string           `json:"script"`
	Cwd       string            `json:"cwd"`
	Env       map[string]string `json:"env"`
	Stdin     string            `json:"stdin"`
	TimeoutMs int64             `json:"timeoutMs"`
}

// maxArgBytes is the most that Linux takes as one argument (MAX_ARG_STRLEN,
// less its NUL); maxArgsBytes stays below the room for all of them together.
const (
	maxArgBytes  = 128<<10 - 1
	maxArgsBytes = 1 << 20
)

// checkRun refuses what no box could run.
func checkRun(in RunInput) *runtime.Fault {
	if fault := checkCommand(in); fault != nil {
		return fault
	}
	if fault := checkCwd(in.Cwd); fault != nil {
		return fault
	}
	return checkEnv(in.Env)
}

func checkCommand(in RunInput) *runtime.Fault {
	switch {
	case in.Script != nil && in.Argv != nil:
		return runtime.Faultf(runtime.CodeCommandInvalid, "Both argv and script are given. Give argv for one program, or script for a shell, not both.")
	case in.Script != nil:
		return checkScript(*in.Script)
	case len(in.Argv) == 0 || in.Argv[0] == "":
		return runtime.Faultf(runtime.CodeCommandInvalid, "No command is given. Give argv with a program's name first, or script.")
	}
	total := 0
	for i, arg := range in.Argv {
		total += len(arg) + 1
		switch {
		case strings.ContainsRune(arg, 0):
			return runtime.Faultf(runtime.CodeCommandInvalid, "argv[%d] holds a NUL character, which no argument can. Pass such data through stdin or a file.", i)
		case len(arg) > maxArgBytes || total > maxArgsBytes:
			return runtime.Faultf(runtime.CodeCommandInvalid, "The arguments are too long for a command. Write the data to a file and name that.")
		}
	}
	return nil
}

func checkScript(script string) *runtime.Fault {
	switch {
	case strings.TrimSpace(script) == "":
		return runtime.Faultf(runtime.CodeCommandInvalid, "The script is empty. Give the commands to run.")
	case strings.ContainsRune(script, 0):
		return runtime.Faultf(runtime.CodeCommandInvalid, "The script holds a NUL character, which no shell reads. Remove it.")
	case len(script) > maxArgBytes:
		return runtime.Faultf(runtime.CodeCommandInvalid, "The script is longer than %d bytes. Write it to a file and run that.", maxArgBytes)
	}
	if why := cutShort(script); why != "" {
		return runtime.Faultf(runtime.CodeCommandInvalid, "The script ends too early: %s. Nothing was run. Complete it and call again.", why)
	}
	return nil
}

// checkCwd explains early what the box would refuse.
func checkCwd(cwd string) *runtime.Fault {
	if strings.HasPrefix(cwd, "/") || strings.ContainsRune(cwd, 0) {
		return runtime.Faultf(runtime.CodeCwdInvalid, "cwd must be relative to the workspace. Give a directory below it, or leave cwd out.")
	}
	for part := range strings.SplitSeq(cwd, "/") {
		if part == ".." {
			return runtime.Faultf(runtime.CodeCwdInvalid, "cwd leads out of the workspace. Give a directory below it, without \"..\".")
		}
	}
	return nil
}

// refusedEnv are variables that load code into every program or shell of a
// command. A script that truly wants one can still set it itself, in sight.
var refusedEnv = map[string]bool{"LD_PRELOAD": true, "LD_AUDIT": true, "BASH_ENV": true, "ENV": true}

func checkEnv(env map[string]string) *runtime.Fault {
	for name, value := range env {
		switch {
		case !isEnvName(name):
			return runtime.Faultf(runtime.CodeSchemaViolation, "/env: %q is no name of an environment variable. Use letters, digits and underscores, no digit first.", clip(name, 60))
		case refusedEnv[name]:
			return runtime.Faultf(runtime.CodeSchemaViolation, "/env: %s is not taken here, since it loads code into every program. Set it inside a script if you need it.", name)
		case name == "PATH" && value == "":
			return runtime.Faultf(runtime.CodeSchemaViolation, "/env: PATH is empty, so no program would be found. Leave it out to keep the box's.")
		case strings.ContainsRune(value, 0):
			return runtime.Faultf(runtime.CodeSchemaViolation, "/env: the value of %s holds a NUL character. Remove it.", name)
		}
	}
	return nil
}

// isEnvName follows POSIX.1-2017, Base Definitions 8.1, for names that shells
// take.
func isEnvName(name string) bool {
	for i, r := range name {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != "" && len(name) <= 255
}

func (in RunInput) paths() []runtime.PathUse {
	if in.Cwd == "" {
		return nil
	}
	return []runtime.PathUse{{Path: in.Cwd, Pointer: "/cwd"}}
}

// label names the command in a few words for messages. Arguments of a script
// may hold anything, so a script is called just that.
func (in RunInput) label() string {
	if in.Script != nil {
		return "the script"
	}
	words := []string{path.Base(in.Argv[0])}
	for _, arg := range in.Argv[1:] {
		if len(words) == 3 || !isPlainWord(arg) {
			break
		}
		words = append(words, arg)
	}
	return strings.Join(words, " ")
}

// isPlainWord tells subcommands and short flags from data.
func isPlainWord(s string) bool {
	for _, r := range s {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:", r) {
			return false
		}
	}
	return s != "" && len(s) <= 40
}

// clip cuts text to at most n bytes on a character's boundary.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
