package shell

import (
	"net/netip"
	"path"
	"strings"
)

// RemoteTarget returns the host outside the box that the command plainly asks
// a known network client for, as written. It reads only what stands there
// literally; names that a shell or a configuration would fill in, local files
// and loopback addresses are no remote targets. A miss is harmless: the box
// has no way out, and the command then fails by itself.
func RemoteTarget(in RunInput) (target string, ok bool) {
	target = networkOf(in)
	return target, target != ""
}

func networkOf(in RunInput) string {
	for _, command := range in.commands() {
		if target := remoteOf(command); target != "" {
			return clip(target, 200)
		}
	}
	return ""
}

// commands are the simple commands that the input is made of, with wrappers
// such as "env" and "bash -c" taken off.
func (in RunInput) commands() [][]word {
	if in.Script != nil {
		return unwrapAll(commandsOf(*in.Script), maxShells)
	}
	return unwrapAll([][]word{wordsOf(in.Argv)}, maxShells)
}

// maxShells is how many shells within shells are looked into.
const maxShells = 3

func unwrapAll(commands [][]word, depth int) [][]word {
	var all [][]word
	for _, command := range commands {
		command = unwrap(command)
		inner, isShell := shellScript(command)
		switch {
		case len(command) == 0:
		case isShell && depth > 0:
			all = append(all, unwrapAll(commandsOf(inner), depth-1)...)
		default:
			all = append(all, command)
		}
	}
	return all
}

// wrappers run the command that follows their own options; the number is how
// many operands of their own come first.
var wrappers = map[string]int{
	"env": 0, "nice": 0, "nohup": 0, "time": 0, "setsid": 0, "exec": 0, "command": 0,
	"stdbuf": 0, "ionice": 0, "sudo": 0, "xargs": 0, "timeout": 1,
}

// valueOptions of wrappers take the next word along.
var wrapperOptions = map[string]string{
	"env": "uC", "nice": "n", "timeout": "ks", "stdbuf": "ioe", "ionice": "cn", "sudo": "ugCDhprRTt", "xargs": "adEILnPs",
}

func unwrap(command []word) []word {
	for range 8 {
		if len(command) == 0 {
			return nil
		}
		operands, is := wrappers[command[0].name()]
		if !is {
			return command
		}
		rest, _ := skipOptions(command[1:], wrapperOptions[command[0].name()])
		for len(rest) > 0 && strings.Contains(rest[0].text, "=") && command[0].name() != "timeout" {
			rest = rest[1:] // NAME=VALUE before the program
		}
		command = rest[min(operands, len(rest)):]
	}
	return command
}

// shellScript returns the script of a "bash -c SCRIPT".
func shellScript(command []word) (string, bool) {
	if len(command) == 0 {
		return "", false
	}
	switch command[0].name() {
	case "sh", "bash", "dash", "ash", "zsh":
	default:
		return "", false
	}
	for i, w := range command[1:] {
		if !strings.HasPrefix(w.text, "-") {
			return "", false
		}
		if !strings.HasPrefix(w.text, "--") && strings.Contains(w.text, "c") {
			for _, script := range command[i+2:] {
				if script.text != "--" {
					return script.text, script.whole
				}
			}
		}
	}
	return "", false
}

// name is the program's name without its directory, or "" if unknown.
func (w word) name() string {
	if !w.whole {
		return ""
	}
	return path.Base(w.text)
}

// skipOptions passes over leading options. Each letter of valued takes a
// value: the rest of its word, or else the next word. It also returns the
// options that it saw.
func skipOptions(words []word, valued string) (rest, options []word) {
	for i := 0; i < len(words); i++ {
		text := words[i].text
		if text == "--" {
			return words[i+1:], words[:i]
		}
		if len(text) < 2 || text[0] != '-' {
			return words[i:], words[:i]
		}
		if takesNext(text, valued) {
			i++
		}
	}
	return nil, words
}

// takesNext tells whether a cluster of short options ends in one whose value
// is the next word.
func takesNext(option, valued string) bool {
	if strings.HasPrefix(option, "--") {
		return false
	}
	at := strings.IndexAny(option[1:], valued)
	return valued != "" && at >= 0 && at == len(option)-2
}

// isLoopback tells hosts that are the box itself.
func isLoopback(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") || host == "ip6-localhost" {
		return true
	}
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return addr.Unmap().IsLoopback() || addr.IsUnspecified()
	}
	// The short forms of inet_aton(3): 127.1, 0.
	return strings.Trim(host, "0123456789.") == "" && (strings.HasPrefix(host, "127.") || host == "0")
}

// hostOfURL returns the host and scheme of scheme://[user@]host[:port][/…].
// scheme is "" where the word is no URL, host where it is not wholly literal.
func hostOfURL(w word) (host, scheme string) {
	scheme, rest, ok := strings.Cut(w.text, "://")
	if !ok || scheme == "" || strings.Trim(strings.ToLower(scheme), "abcdefghijklmnopqrstuvwxyz0123456789+-.") != "" {
		return "", ""
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		if !w.whole {
			return "", strings.ToLower(scheme)
		}
		end = len(rest)
	}
	return hostOnly(rest[:end]), strings.ToLower(scheme)
}

// hostOnly takes user and port off an authority.
func hostOnly(authority string) string {
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		authority = authority[at+1:]
	}
	if strings.HasPrefix(authority, "[") {
		host, _, _ := strings.Cut(authority[1:], "]")
		return host
	}
	host, _, _ := strings.Cut(authority, ":")
	return host
}

// remoteHost is host where it is a name or address outside the box.
func remoteHost(host string) string {
	if host == "" || isLoopback(host) || strings.ContainsAny(host, " \t\n$`*?{}()<>|;&\"'\\") {
		return ""
	}
	return host
}
