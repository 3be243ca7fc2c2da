package sandboxtest

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/sandbox"
)

// limits holds that limits bind, and only where they should.
func (s *suite) limits(t *testing.T) {
	d := s.driver(t)
	box, _ := s.create(t, d, func(spec *sandbox.Spec) {
		spec.Limits = sandbox.Limits{
			CPUs: 0.2, MemoryBytes: 96 << 20, Pids: 64, FileBytes: 1 << 20,
			OpenFiles: 256, ScratchBytes: 16 << 20, Commands: 2,
		}
	})
	t.Run("memory", func(t *testing.T) { memory(t, box) })
	t.Run("pids", func(t *testing.T) { pids(t, box) })
	t.Run("files", func(t *testing.T) { fileLimits(t, box) })
	t.Run("cpu", func(t *testing.T) {
		free, _ := s.create(t, d, nil)
		cpu(t, box, free)
	})
	require.Equal(t, "well", ok(t, box, "echo well"), "the box serves on")
}

func memory(t *testing.T, box sandbox.Box) {
	r := sh(t, box, `perl -e '$x = "a" x (20<<20); print length $x'`)
	require.Zero(t, r.Code, "the control: less is allowed")
	require.False(t, r.OOMKilled)
	r = run(t, box, sandbox.Command{Argv: []string{"perl", "-e", `$x = "a" x (200<<20); print "all of it"`}})
	require.Equal(t, "SIGKILL", r.Signal)
	require.NotContains(t, r.Out, "all of it")
	require.True(t, r.OOMKilled, "the exit tells what killed it")
	require.Equal(t, "on", ok(t, box, "echo on"), "the agent outlives it")
}

// forks makes as many children as it can, up to $1, and prints how many.
const forks = `my $n = 0; my @k; for (1..$ARGV[0]) { my $p = fork; last unless defined $p; if (!$p) { sleep 60; exit } $n++; push @k, $p }
	kill 9, @k; waitpid $_, 0 for @k; print $n`

func pids(t *testing.T, box sandbox.Box) {
	count := func(want string) (int, result) {
		r := run(t, box, sandbox.Command{Argv: []string{"perl", "-e", forks, want}})
		require.Zero(t, r.Code, r.Err)
		n, err := strconv.Atoi(r.Out)
		require.NoError(t, err)
		return n, r
	}
	n, r := count("5")
	require.Equal(t, 5, n, "the control: some are allowed")
	require.False(t, r.PidsLimitHit)
	n, r = count("200")
	require.Less(t, n, 64)
	require.Greater(t, n, 5)
	if ownPids(box) {
		require.True(t, r.PidsLimitHit, "the exit tells that a fork was refused")
	}
}

func fileLimits(t *testing.T, box sandbox.Box) {
	ok(t, box, "head -c 500000 /dev/zero >small; rm small")
	r := sh(t, box, "head -c 5000000 /dev/zero >big; stat -c %s big; rm -f big")
	require.Contains(t, r.Out, "1048576")
	r = sh(t, box, "truncate -s 1T sparse; s=$?; rm -f sparse; exit $s")
	require.NotZero(t, r.Code)
	require.Equal(t, "256 256 0", ok(t, box, "echo $(ulimit -Sn) $(ulimit -Hn) $(ulimit -Hc)"))
	ok(t, box, "for i in 1 2 3; do head -c 1000000 /dev/zero >/tmp/f$i || exit 1; done; rm -f /tmp/f*")
	r = sh(t, box, "for i in $(seq 20); do head -c 1000000 /dev/zero >/tmp/f$i || exit 1; done", "x")
	require.NotZero(t, r.Code)
	require.Contains(t, r.Err, "No space left on device")
	ok(t, box, "rm -f /tmp/f*")
	for _, dir := range []string{"/tmp", "$HOME", "/dev/shm"} {
		ok(t, box, "cd "+dir+" && mkdir n && cd n && for i in $(seq 100); do : >$i || exit 1; done; cd .. && rm -r n")
		r = sh(t, box, "cd "+dir+" && mkdir n && cd n && for i in $(seq 20000); do : >$i || exit 1; done")
		require.NotZero(t, r.Code, "empty files are memory of the box, and bounded too")
		require.Contains(t, r.Err, "No space left on device")
		require.False(t, r.OOMKilled)
		ok(t, box, "rm -r "+dir+"/n")
	}
}

// spin uses the processor for half a second of the clock and prints how much
// it got.
const spin = `use Time::HiRes "time"; my $end = time + 0.5; 1 while time < $end; my ($u, $s) = times; print $u + $s`

func cpu(t *testing.T, bounded, free sandbox.Box) {
	got := func(box sandbox.Box) float64 {
		f, err := strconv.ParseFloat(ok(t, box, `perl -e "$1"`, spin), 64)
		require.NoError(t, err)
		return f
	}
	// Other work on the machine may leave the free one little, once.
	var b, f float64
	for range 5 {
		b, f = got(bounded), got(free)
		require.Less(t, b, 0.5*0.2*2.5, "0.2 of a processor")
		if f > 1.5*b {
			return
		}
	}
	require.Greater(t, f, 1.5*b, "the control: a box with more gets more")
}
