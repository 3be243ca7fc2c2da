package shell

import (
	"strings"

	"github.com/sandboxd/sandboxd/runtime"
)

// Weigh says what running this command means. ReadOnly is claimed only for an
// argv whose program is known to do nothing but read; Destructive for what
// plainly throws work away, so that an approval for that class asks where it
// matters; OpenWorld where a remote target is plainly named.
func Weigh(in RunInput) runtime.Meaning {
	m := runtime.Meaning{OpenWorld: networkOf(in) != ""}
	if in.Script == nil {
		m.ReadOnly = readsOnly(in.Argv)
		m.ConcurrencySafe = m.ReadOnly
	}
	for _, command := range in.commands() {
		m.Destructive = m.Destructive || destroys(command)
	}
	return m
}

// readers are programs that only read, whatever their arguments.
var readers = flagSet("cat ls head wc stat pwd true false echo printenv id whoami uname basename dirname realpath readlink cmp nl rev tac cut tr md5sum sha1sum sha256sum sha512sum du df grep egrep fgrep")

// gitReaders are git's subcommands that only read where no option writes.
var gitReaders = flagSet("rev-parse ls-files ls-tree cat-file merge-base rev-list")

func readsOnly(argv []string) bool {
	if len(argv) == 0 || strings.Contains(argv[0], "/") {
		return false // the workspace may hold a program of that name
	}
	if argv[0] == "git" && len(argv) > 1 {
		return gitReaders[argv[1]]
	}
	return readers[argv[0]]
}

// destroyers tell by their arguments whether a program throws work away.
var destroyers = map[string]func(args []word) bool{
	"rm":       func(args []word) bool { return hasFlag(args, "rRf", "--recursive", "--force") },
	"shred":    always,
	"truncate": always,
	"wipefs":   always,
	"mkfs":     always,
	"dd": func(args []word) bool {
		return anyWord(args, func(s string) bool { return strings.HasPrefix(s, "of=") })
	},
	"find": func(args []word) bool { return anyWord(args, func(s string) bool { return s == "-delete" }) },
	"git":  gitDestroys,
}

func destroys(command []word) bool {
	if len(command) == 0 {
		return false
	}
	judge, ok := destroyers[command[0].name()]
	return ok && judge(command[1:])
}

func gitDestroys(args []word) bool {
	rest, _ := skipOptions(args, "Cc")
	if len(rest) == 0 {
		return false
	}
	switch rest[0].text {
	case "clean", "filter-branch":
		return true
	case "reset":
		return hasFlag(rest[1:], "", "--hard")
	case "checkout", "switch":
		return hasFlag(rest[1:], "f", "--force", "--discard-changes")
	case "branch":
		return hasFlag(rest[1:], "D")
	case "push":
		return hasFlag(rest[1:], "fd", "--force", "--force-with-lease", "--delete", "--mirror")
	case "stash":
		return len(rest) > 1 && (rest[1].text == "drop" || rest[1].text == "clear")
	case "reflog":
		return len(rest) > 1 && (rest[1].text == "expire" || rest[1].text == "delete")
	}
	return false
}

func always([]word) bool { return true }

// hasFlag looks for short letters in any cluster, and for long options.
func hasFlag(args []word, letters string, long ...string) bool {
	return anyWord(args, func(s string) bool {
		if strings.HasPrefix(s, "--") {
			for _, l := range long {
				if s == l || strings.HasPrefix(s, l+"=") {
					return true
				}
			}
			return false
		}
		return letters != "" && len(s) > 1 && s[0] == '-' && strings.ContainsAny(s[1:], letters)
	})
}

// anyWord looks at the arguments before "--".
func anyWord(args []word, match func(string) bool) bool {
	for _, a := range args {
		if a.text == "--" {
			return false
		}
		if match(a.text) {
			return true
		}
	}
	return false
}
