package sandboxtest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/sandbox"
)

// agent holds that commands cannot get at the agent that speaks for them.
func (s *suite) agent(t *testing.T) {
	box := s.box(t, nil)
	near := newNeighbour(t, box)
	for _, c := range []struct {
		name, control, attack string
	}{
		{"its descriptors cannot be listed", `ls /proc/self/fd`, `ls /proc/1/fd`},
		{"its output cannot be written to", `echo >/tmp/x`, `echo forged >/proc/1/fd/1`},
		{"its memory cannot be opened", `head -c 0 /proc/self/mem`, `head -c 0 /proc/1/mem || exit 1; exit 0`},
		{"its environment cannot be read", `cat /proc/self/environ`, `cat /proc/1/environ`},
		{"its root cannot be walked", `ls /proc/self/root/`, `ls /proc/1/root/`},
		{"it cannot be killed", `sleep 9 & kill -9 $!`, `kill -9 1`},
		{"it cannot be stopped", `sleep 9 & kill -STOP $!; kill -9 $!`, `kill -STOP 1`},
		{"it cannot be traced", `true`, `perl -e 'exit(syscall(101, 16, 1, 0, 0) == 0 ? 0 : 1)'`},
		{"its directory cannot be entered", `ls /tmp`, `ls /run/sandboxd`},
		{"its token cannot be read", `true`, `cat /run/sandboxd/token`},
		{"its program cannot be replaced", `touch /tmp/x`, `: >/run/sandboxd/agent`},
		{"its limits cannot be changed", `prlimit --nofile=100 true`, `prlimit --pid 1 --nofile=10`},
		{"its socket cannot be reached", `true`, `perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Peer=>"/run/sandboxd/agent.sock") or exit 1'`},
	} {
		t.Run(c.name, func(t *testing.T) {
			ok(t, box, c.control)
			r := sh(t, box, c.attack)
			require.NotZero(t, r.Code, "%s%s", r.Out, r.Err)
			near.answers(t)
			require.Equal(t, "right", ok(t, box, "echo right"))
		})
	}
	t.Run("kill -9 -1 ends the command's own kind only", func(t *testing.T) { killAll(t, box) })
	t.Run("no descriptors are inherited", func(t *testing.T) { descriptors(t, box) })
	t.Run("abstract sockets of the agent are none", func(t *testing.T) { abstractSockets(t, box) })
	t.Run("rc files of the workspace reach nobody", func(t *testing.T) { rcFiles(t, box) })
}

// killAll signals everything that the user may signal; commands of one box have
// one user, so a neighbour may die of it, but not the agent.
func killAll(t *testing.T, box sandbox.Box) {
	r := sh(t, box, "kill -9 -1; echo alone")
	require.Contains(t, []string{"alone\n", ""}, r.Out)
	require.Equal(t, "right", ok(t, box, "echo right"))
}

func descriptors(t *testing.T, box sandbox.Box) {
	// 3 is the directory that ls itself reads.
	require.Equal(t, "0 1 2 3", ok(t, box, "exec /bin/ls -U /proc/self/fd | sort -n | xargs"))
	p := run(t, box, sandbox.Command{Argv: []string{"perl", "-e", `opendir D, "/proc/self/fd"; print join " ", sort grep /\d/ && $_ != fileno(D), readdir D`}})
	require.Equal(t, "0 1 2", p.Out)
}

func abstractSockets(t *testing.T, box sandbox.Box) {
	// The control: a socket of the command's own is listed.
	r := ok(t, box, `perl -MIO::Socket::UNIX -e '$s = IO::Socket::UNIX->new(Local=>"/tmp/ours", Listen=>1); open F, "/proc/net/unix"; print <F>'; rm -f /tmp/ours`)
	require.Contains(t, r, "/tmp/ours")
	require.NotContains(t, r, " @")
}

func rcFiles(t *testing.T, box sandbox.Box) {
	ok(t, box, `for f in .bashrc .bash_profile .profile .zshenv; do echo 'echo infected; export INFECTED=1' >$f; cp $f ~/$f; done; echo '[alias] x = !true' >~/.gitconfig`)
	t.Cleanup(func() {
		ok(t, box, "rm -f .bashrc .bash_profile .profile .zshenv ~/.bashrc ~/.bash_profile ~/.profile ~/.zshenv ~/.gitconfig")
	})
	r := run(t, box, sandbox.Command{Argv: []string{"env"}})
	require.NotContains(t, r.Out, "INFECTED")
	r = run(t, box, sandbox.Command{Argv: []string{"sh", "-c", "echo plain"}})
	require.Equal(t, "plain\n", r.Out)
}
