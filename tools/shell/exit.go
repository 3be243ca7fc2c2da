package shell

import (
	"fmt"
	"strings"
)

// toolExits tells what an exit code of a known program says that is no
// failure of it, by program name and code.
var toolExits = map[string]map[int]string{
	"grep":    {1: "no line matched", 2: "grep itself failed"},
	"egrep":   {1: "no line matched", 2: "grep itself failed"},
	"fgrep":   {1: "no line matched", 2: "grep itself failed"},
	"rg":      {1: "nothing matched", 2: "rg itself failed"},
	"diff":    {1: "the inputs differ", 2: "diff itself failed"},
	"cmp":     {1: "the inputs differ", 2: "cmp itself failed"},
	"test":    {1: "the condition is false", 2: "the condition cannot be evaluated"},
	"[":       {1: "the condition is false", 2: "the condition cannot be evaluated"},
	"false":   {1: "false always exits so"},
	"pgrep":   {1: "no process matched"},
	"which":   {1: "a program was not found"},
	"timeout": {124: "the program ran into the limit given to timeout", 125: "timeout itself failed"},
	"pytest":  {1: "tests failed", 2: "the run was interrupted", 4: "wrong usage of pytest", 5: "no tests were collected"},
	"curl":    {6: "the host's name could not be resolved", 7: "the host could not be reached", 22: "the server answered with an error status", 28: "curl ran into its own time limit"},
}

// exitMeaning says what exit code means where that is known, else "". program
// is argv's first word, or the only program of a script.
func exitMeaning(program string, code int) string {
	if m, ok := toolExits[program][code]; ok {
		return m
	}
	switch {
	case code == 126:
		return "a program was found but could not be executed"
	case code == 127:
		return "a program was not found"
	case code > 128 && code <= 128+64:
		if name := signalName(code - 128); name != "" {
			return fmt.Sprintf("128+%d, as shells report a program that %s ended", code-128, name)
		}
	}
	return ""
}

// signalName names the signals of Linux that programs die of (signal(7), the
// numbers of x86 and ARM).
func signalName(n int) string {
	switch n {
	case 1:
		return "SIGHUP"
	case 2:
		return "SIGINT"
	case 3:
		return "SIGQUIT"
	case 4:
		return "SIGILL"
	case 6:
		return "SIGABRT"
	case 7:
		return "SIGBUS"
	case 8:
		return "SIGFPE"
	case 9:
		return "SIGKILL"
	case 11:
		return "SIGSEGV"
	case 13:
		return "SIGPIPE"
	case 14:
		return "SIGALRM"
	case 15:
		return "SIGTERM"
	case 24:
		return "SIGXCPU"
	case 25:
		return "SIGXFSZ"
	case 31:
		return "SIGSYS"
	}
	return ""
}

// mainProgram is the program that the exit code is of: argv's, or that of a
// script which is one simple command.
func (in RunInput) mainProgram() string {
	if in.Script == nil {
		return wordsOf(in.Argv)[0].name()
	}
	if commands := commandsOf(*in.Script); len(commands) == 1 {
		return commands[0][0].name()
	}
	return ""
}

// restrictions are what a limit of the box looks like in a program's words,
// the likeliest first.
var restrictions = []struct {
	signs   []string
	meaning string
}{
	{
		[]string{"Could not resolve host", "Temporary failure in name resolution", "Name or service not known", "Network is unreachable", "EAI_AGAIN", "getaddrinfo ENOTFOUND", "no such host", "bad address '"},
		"no network: the box reaches only what the run's network policy allows; work with what is in the box",
	},
	{
		[]string{"No space left on device", "Disk quota exceeded", "os error 28"},
		"disk: the workspace or scratch space is full; delete what is not needed",
	},
	{
		[]string{"Read-only file system", "os error 30"},
		"read-only: only the workspace (where the run may write it), /tmp and the home directory can be written",
	},
	{
		[]string{"fork: retry", "Resource temporarily unavailable", "can't start new thread", "Cannot fork"},
		"processes: the box has no room for more processes or threads; use fewer side by side",
	},
	{
		[]string{"Cannot allocate memory", "MemoryError", "out of memory"},
		"memory: the box's memory limit; use less at a time",
	},
	{
		[]string{"Operation not permitted", "must be run as root", "are you root?", "must be superuser", "sudo: command not found"},
		"privileges: commands run as an unprivileged user without capabilities; nothing can be installed or changed outside the workspace, /tmp and the home directory",
	},
}

// restrictionOf guesses which limit of the box a failed command ran into.
func restrictionOf(stderr, stdout string) string {
	for _, text := range []string{stderr, stdout} {
		for _, r := range restrictions {
			for _, sign := range r.signs {
				if strings.Contains(text, sign) {
					return r.meaning
				}
			}
		}
	}
	return ""
}
