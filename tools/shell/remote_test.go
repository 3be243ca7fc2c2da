package shell_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/tools/shell"
)

func argv(words ...string) shell.RunInput { return shell.RunInput{Argv: words} }

func script(text string) shell.RunInput { return shell.RunInput{Script: &text} }

func TestRemoteTargetThatIsPlainlyNamedIsFound(t *testing.T) {
	for _, tc := range []struct {
		in   shell.RunInput
		want string
	}{
		{argv("curl", "https://example.org"), "example.org"},
		{argv("/usr/bin/curl", "-fsSL", "-o", "out", "https://example.org/x"), "example.org"},
		{argv("curl", "-m", "5", "example.org"), "example.org"},
		{argv("curl", "--url", "http://198.51.100.7:8080/"), "198.51.100.7"},
		{argv("curl", "https://user:pw@example.org:8443/"), "example.org"},
		{argv("curl", "http://[2001:db8::1]/"), "2001:db8::1"},
		{argv("curl", "http://localhost@example.org/"), "example.org"},
		{argv("curl", "http://169.254.169.254/latest/meta-data"), "169.254.169.254"},
		{argv("wget", "-q", "-O", "-", "https://example.org/a"), "example.org"},
		{argv("git", "clone", "https://example.org/r.git"), "example.org"},
		{argv("git", "-C", "sub", "clone", "--depth", "1", "-b", "main", "git@example.org:a/b.git", "dir"), "example.org"},
		{argv("git", "push", "ssh://git@example.org/a", "main"), "example.org"},
		{argv("ssh", "-p", "22", "me@example.org", "ls"), "example.org"},
		{argv("scp", "-r", "file", "me@example.org:dir"), "example.org"},
		{argv("rsync", "-av", "dir/", "example.org::module"), "example.org"},
		{argv("nc", "-zv", "-w", "2", "example.org", "80"), "example.org"},
		{argv("env", "A=1", "timeout", "-k", "1", "5", "curl", "https://example.org"), "example.org"},
		{argv("bash", "-c", "curl https://example.org"), "example.org"},
		{argv("sh", "-euc", "cd x && bash -c 'wget https://example.org/f'"), "example.org"},
		{script("set -e\nmkdir -p a\nif true; then curl 'https://example.org/a b'; fi"), "example.org"},
		{script("x=$(curl -s https://example.org/v)\necho $x"), "example.org"},
		{script("curl https://example.org/$path"), "example.org"},
		{script("(for i in 1 2; do git clone https://example.org/$i; done) &"), "example.org"},
	} {
		got, ok := shell.RemoteTarget(tc.in)
		require.True(t, ok, "%v", tc.in)
		require.Equal(t, tc.want, got, "%v", tc.in)
	}
}

func TestLoopbackLocalAndUncertainTargetsAreLeftAlone(t *testing.T) {
	for _, in := range []shell.RunInput{
		argv("curl", "http://127.0.0.1:8000/"),
		argv("curl", "http://127.1/"),
		argv("curl", "http://0:8000/"),
		argv("curl", "-H", "Referer: https://example.org", "http://localhost:1/"),
		argv("curl", "-d", "https://example.org", "http://app.localhost/"),
		argv("curl", "http://[::1]:8000/"),
		argv("curl", "http://[::ffff:127.0.0.1]/"),
		argv("curl", "--unix-socket", "/tmp/s", "http://api.example.org/"),
		argv("curl", "--resolve", "example.org:80:127.0.0.1", "http://example.org/"),
		argv("curl", "file:///etc/passwd"),
		argv("curl", "--version"),
		argv("wget", "--help"),
		argv("echo", "curl", "https://example.org"),
		argv("grep", "-r", "https://example.org", "."),
		argv("git", "clone", "../other", "copy"),
		argv("git", "clone", "file:///workspace/r", "copy"),
		argv("git", "clone", "./a:b"),
		argv("git", "fetch", "origin"),
		argv("git", "push"),
		argv("git", "commit", "-m", "see https://example.org"),
		argv("git", "log", "https://example.org"),
		argv("ssh", "-o", "ProxyCommand=true", "example.org"),
		argv("ssh", "127.0.0.1"),
		argv("ssh", "-V"),
		argv("scp", "a", "b"),
		argv("rsync", "-a", "a/", "./b:c/"),
		argv("nc", "-l", "8000"),
		argv("nc", "-U", "/tmp/s"),
		argv("nc", "127.0.0.1", "80"),
		argv("python3", "-c", "curl https://example.org"),
		script("curl \"$URL\""),
		script("curl https://$HOST/x"),
		script("curl https://example.$TLD"),
		script("cat <<'EOF'\ncurl https://example.org\nEOF"),
		script("# curl https://example.org"),
		script("echo 'git clone https://example.org/x'"),
	} {
		got, ok := shell.RemoteTarget(in)
		require.False(t, ok, "%v named %q", in, got)
	}
}

func TestHostileScriptsAreReadInBoundedTime(t *testing.T) {
	for name, text := range map[string]string{
		"subshells":     strings.Repeat("(", 16<<10),
		"arithmetic":    strings.Repeat("((", 8<<10),
		"substitutions": strings.Repeat("$(", 8<<10),
		"backquotes":    strings.Repeat("`", 16<<10),
		"parameters":    strings.Repeat("${a:-", 3<<10),
		"quotes":        strings.Repeat(`"$(`, 5<<10),
		"groups":        strings.Repeat("{ ", 8<<10),
		"ifs":           strings.Repeat("if ", 5<<10),
		"bang":          strings.Repeat("! ", 8<<10),
		"heredocs":      strings.Repeat("a<<b ", 3<<10),
		"arith expr":    "$((" + strings.Repeat("(1+", 5<<10),
		"nested shells": strings.Repeat("bash -c ", 2<<10),
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			shell.RemoteTarget(script(text))
			shell.Weigh(script(text))
			require.Less(t, time.Since(start), 5*time.Second)
		})
	}
}

func FuzzScriptIsReadWithoutPanic(f *testing.F) {
	for _, seed := range []string{
		"curl https://example.org", "a | b && c", "x=$(git clone git@h:p)", "cat <<E\n$x\nE", "bash -c 'ssh h'",
		"for i in {1..3}; do nc h 1; done", "case x in a) ;; esac", "'", "\"$(", "env -u", "timeout", "curl --url", "scp [a", "sh -c --",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		in := script(text)
		if target, ok := shell.RemoteTarget(in); ok {
			require.NotEmpty(t, target)
			require.NotContains(t, []string{"localhost", "127.0.0.1", "::1"}, target)
		}
		shell.Weigh(in)
		words := strings.Fields(text)
		if len(words) > 0 {
			shell.RemoteTarget(argv(words...))
			shell.Weigh(argv(words...))
		}
	})
}
