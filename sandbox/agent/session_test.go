package agent_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/agent"
	"github.com/sandboxd/sandboxd/sandbox/agentproto"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// listen serves an agent in this process on a socket.
func listen(t *testing.T, opts agent.Options) string {
	t.Helper()
	path := t.TempDir() + "/s"
	l, err := agent.ListenSocket(path)
	require.NoError(t, err)
	a := agent.New(opts)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- a.Listen(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-served)
		require.NoError(t, a.Close())
	})
	return path
}

func dial(t *testing.T, path string, cfg agentproto.Config) (*agentproto.Session, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	conn, err := agentproto.WaitSocket(ctx, path)
	require.NoError(t, err)
	s, err := agentproto.Open(ctx, conn, cfg)
	if err == nil {
		t.Cleanup(func() { s.Close() })
	}
	return s, err
}

func TestOnlyTheTokenOpensASession(t *testing.T) {
	file := t.TempDir() + "/token"
	path := listen(t, agent.Options{TokenFile: file, KeepUser: true})
	cfg := agentproto.Config{Token: token, Workspace: t.TempDir()}
	_, err := dial(t, path, cfg)
	require.Equal(t, sandbox.KindPermission, sandbox.KindOf(err), "no token yet: nobody is let in")
	require.NoError(t, os.WriteFile(file, []byte(token+"\n"), 0o600))
	for _, wrong := range []string{"", token[:5], token + "x", strings.ToUpper(token)} {
		bad := cfg
		bad.Token = wrong
		_, err := dial(t, path, bad)
		require.Equal(t, sandbox.KindPermission, sandbox.KindOf(err), "%q", wrong)
	}
	s, err := dial(t, path, cfg)
	require.NoError(t, err, "control: the right one")
	_, err = s.Ping(context.Background())
	require.NoError(t, err)
}

func TestALaterSessionReplacesTheEarlierAndItsCommands(t *testing.T) {
	path := listen(t, agent.Options{TokenOptional: true, KeepUser: true})
	ws := t.TempDir()
	first, err := dial(t, path, agentproto.Config{Token: token, Workspace: ws})
	require.NoError(t, err)
	p, err := first.Start(context.Background(), sh("sleep 4713"))
	require.NoError(t, err)

	_, err = dial(t, path, agentproto.Config{Token: "other", Workspace: ws})
	require.Equal(t, sandbox.KindPermission, sandbox.KindOf(err))
	require.NoError(t, first.Err(), "one that is not let in replaces nobody")

	second, err := dial(t, path, agentproto.Config{Token: token, Workspace: "/nowhere", ReadOnly: true})
	require.NoError(t, err, "the first hello's config counts")
	_, err = p.Wait()
	require.Equal(t, sandbox.KindUnavailable, sandbox.KindOf(err))
	require.Eventually(t, func() bool { return len(hostProcesses(t, "sleep 4713")) == 0 }, 5*time.Second, 10*time.Millisecond)
	_, err = second.Files().Apply(context.Background(), []sandbox.Change{{Op: sandbox.OpWrite, Path: "f", Data: []byte("x")}})
	require.NoError(t, err)
	require.FileExists(t, ws+"/f")
}

func TestGarbageEndsAConnectionAndNotTheAgent(t *testing.T) {
	path := listen(t, agent.Options{TokenOptional: true, KeepUser: true})
	for _, garbage := range [][]byte{
		bytes.Repeat([]byte{0xff}, 100), bytes.Repeat([]byte{0}, 100), []byte("GET / HTTP/1.1\r\n\r\n"),
		{0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 5, 200, 0, 0, 0, 0},
	} {
		conn, err := net.Dial("unix", path)
		require.NoError(t, err)
		_, err = conn.Write(garbage)
		require.NoError(t, err)
		require.NoError(t, conn.(*net.UnixConn).CloseWrite())
		_, err = io.Copy(io.Discard, conn)
		require.NoError(t, err)
		conn.Close()
	}
	_, err := dial(t, path, agentproto.Config{Token: token, Workspace: t.TempDir()})
	require.NoError(t, err)
}

func TestABoxThatCannotBeIsRefusedInTheHello(t *testing.T) {
	for name, change := range map[string]func(*agentproto.Config){
		"no workspace": func(c *agentproto.Config) { c.Workspace = "/nowhere" },
		"no pids left": func(c *agentproto.Config) { c.BoxPids, c.Commands = 20, 4 },
		"no cgroup":    func(c *agentproto.Config) { c.Cgroup2Dir = "/nowhere" },
	} {
		t.Run(name, func(t *testing.T) {
			path := listen(t, agent.Options{TokenOptional: true, KeepUser: true})
			cfg := agentproto.Config{Token: token, Workspace: t.TempDir()}
			change(&cfg)
			_, err := dial(t, path, cfg)
			require.Error(t, err)
			var refused *sandbox.Error
			require.True(t, errors.As(err, &refused))
			require.NotEmpty(t, refused.Message)
		})
	}
}

func TestFileWorkHasTheUsersRights(t *testing.T) {
	need(t, os.Geteuid() == 0, "root")
	b := start(t, strongest(), nil)
	require.NoError(t, os.WriteFile(b.dir+"/roots", []byte("r"), 0o600))
	require.NoError(t, os.Mkdir(b.dir+"/rootdir", 0o755))
	ctx, files := context.Background(), b.Files()
	_, err := files.Read(ctx, sandbox.ReadRequest{Path: "roots", Limit: 10})
	require.Equal(t, sandbox.KindPermission, sandbox.KindOf(err))
	_, err = files.Apply(ctx, []sandbox.Change{{Op: sandbox.OpWrite, Path: "rootdir/f", Data: []byte("x")}})
	require.Equal(t, sandbox.KindPermission, sandbox.KindOf(err))
	_, err = files.Apply(ctx, []sandbox.Change{{Op: sandbox.OpWrite, Path: "own/f", Data: []byte("x"), Mode: 0o600}})
	require.NoError(t, err)
	out, exit := run(t, b, sh("stat -c '%u %g %a' own/f own; cat own/f"))
	require.Zero(t, exit.Code)
	require.Equal(t, "1000 1000 600\n1000 1000 755\nx", out)
	res, err := files.Read(ctx, sandbox.ReadRequest{Path: "own/f", Limit: 10})
	require.NoError(t, err, "control: the user's own 0600 file")
	require.Equal(t, "x", string(res.Data))
}

func TestWalksStreamContentAndCanBeLeft(t *testing.T) {
	each(t, func(t *testing.T, b *testBox) {
		big := bytes.Repeat([]byte("0123456789"), 40_000)
		want := map[string]string{}
		next := entries(func(add func(path string, data []byte)) {
			for i := range 200 {
				add("d/"+itoa(i), []byte(itoa(i)))
				want["d/"+itoa(i)] = itoa(i)
			}
			add("big", big)
			want["big"] = string(big)
		})
		n, err := b.Files().Fill(context.Background(), next)
		require.NoError(t, err)
		require.Equal(t, 201, n)
		got := map[string]string{}
		err = b.Files().Walk(context.Background(), sandbox.WalkRequest{Hash: true, ContentMax: -1}, func(e sandbox.Entry, r io.Reader) error {
			if r == nil {
				require.Equal(t, sandbox.TypeDir, e.Info.Type)
				return nil
			}
			data, err := io.ReadAll(r)
			got[e.Path] = string(data)
			require.NotEmpty(t, e.Hash)
			return err
		})
		require.NoError(t, err)
		require.Equal(t, want, got)

		stop := errors.New("enough")
		for range 10 { // more often than there are file threads
			seen := 0
			err = b.Files().Walk(context.Background(), sandbox.WalkRequest{ContentMax: -1}, func(sandbox.Entry, io.Reader) error {
				if seen++; seen == 2 {
					return stop
				}
				return nil
			})
			require.ErrorIs(t, err, stop)
		}
		begin := time.Now()
		_, err = b.Files().Stat(context.Background(), "big")
		require.NoError(t, err)
		require.Less(t, time.Since(begin), time.Second, "no thread is held by a walk that was left")
	})
}

// entries makes the stream that Fill takes.
func entries(fill func(add func(path string, data []byte))) func() (sandbox.Entry, io.Reader, error) {
	type item struct {
		path string
		data []byte
	}
	var list []item
	fill(func(path string, data []byte) { list = append(list, item{path, data}) })
	return func() (sandbox.Entry, io.Reader, error) {
		if len(list) == 0 {
			return sandbox.Entry{}, nil, io.EOF
		}
		it := list[0]
		list = list[1:]
		return sandbox.Entry{Path: it.path, Info: sandbox.FileInfo{Type: sandbox.TypeFile, Mode: 0o644}}, bytes.NewReader(it.data), nil
	}
}

func TestFillStopsAtTheFirstPathThatLeadsOut(t *testing.T) {
	each(t, func(t *testing.T, b *testBox) {
		sent := 0
		n, err := b.Files().Fill(context.Background(), func() (sandbox.Entry, io.Reader, error) {
			sent++
			path := "ok"
			if sent > 1 {
				path = "../out"
			}
			if sent > 10_000 {
				return sandbox.Entry{}, nil, io.EOF
			}
			return sandbox.Entry{Path: path, Info: sandbox.FileInfo{Type: sandbox.TypeFile}}, bytes.NewReader(make([]byte, 10_000)), nil
		})
		require.Equal(t, sandbox.KindPathEscapes, sandbox.KindOf(err))
		require.Equal(t, 1, n)
		require.Less(t, sent, 10_000, "the sender is told before its end")
		broken := errors.New("upload broke off")
		sent = 0
		n, err = b.Files().Fill(context.Background(), func() (sandbox.Entry, io.Reader, error) {
			if sent++; sent > 2 {
				return sandbox.Entry{}, nil, broken
			}
			return sandbox.Entry{Path: itoa(sent), Info: sandbox.FileInfo{Type: sandbox.TypeFile}}, strings.NewReader("x"), nil
		})
		require.ErrorIs(t, err, broken)
		require.Equal(t, 2, n)
		require.NoError(t, b.Err())
	})
}

func TestInputAndOutputOfAnySizePass(t *testing.T) {
	each(t, func(t *testing.T, b *testBox) {
		const size = 20_000_000
		n := new(count)
		p, err := b.Start(context.Background(), sandbox.Command{
			Argv: []string{"cat"}, Stdin: io.LimitReader(zeros{}, size), Stdout: n,
		})
		require.NoError(t, err)
		exit, err := p.Wait()
		require.NoError(t, err)
		require.Zero(t, exit.Code, "%+v", exit)
		require.EqualValues(t, size, *n)

		// Input that nobody reads holds up neither the end nor a kill.
		_, exit = run(t, b, sandbox.Command{Argv: []string{"true"}, Stdin: zeros{}})
		require.Zero(t, exit.Code)
		p, err = b.Start(context.Background(), sandbox.Command{Argv: []string{"sleep", "60"}, Stdin: zeros{}})
		require.NoError(t, err)
		time.Sleep(50 * time.Millisecond)
		require.NoError(t, p.Kill(context.Background(), 0))
		exit, err = p.Wait()
		require.NoError(t, err)
		require.Equal(t, "SIGKILL", exit.Signal)
		require.NoError(t, b.Err())
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestTheAgentStaysSmall(t *testing.T) {
	b := start(t, strongest(), nil)
	_, err := b.Ping(context.Background())
	require.NoError(t, err)
	idle := rss(t, b.pid)
	t.Logf("idle %d KiB", idle>>10)
	require.Less(t, idle, int64(8<<20))
	n := new(count)
	p, err := b.Start(context.Background(), sandbox.Command{Argv: []string{"head", "-c", "100000000", "/dev/zero"}, Stdout: n})
	require.NoError(t, err)
	_, err = p.Wait()
	require.NoError(t, err)
	require.EqualValues(t, 100_000_000, *n)
	after := rss(t, b.pid)
	t.Logf("after 100 MB %d KiB", after>>10)
	require.Less(t, after, int64(16<<20))
}

func TestNothingIsLeftInThisProcess(t *testing.T) {
	before := goleak.IgnoreCurrent()
	open := openFiles(t)
	func() {
		ours, theirs := net.Pipe()
		a := agent.New(agent.Options{TokenOptional: true, KeepUser: true})
		go func() { _ = a.Serve(theirs) }()
		s, err := agentproto.Open(context.Background(), ours, agentproto.Config{Token: token, Workspace: t.TempDir()})
		require.NoError(t, err)
		b := &testBox{Session: s}
		for range 5 {
			run(t, b, sandbox.Command{Argv: []string{"cat"}, Stdin: strings.NewReader("x"), Stderr: io.Discard})
			_, err = s.Start(context.Background(), sandbox.Command{Argv: []string{"none"}, Stdin: strings.NewReader("x"), Stdout: io.Discard})
			require.Error(t, err)
		}
		cmd := sh("true")
		cmd.TTY = &sandbox.WindowSize{Rows: 1, Cols: 1}
		run(t, b, cmd)
		_, err = s.Start(context.Background(), sh("sleep 60"))
		require.NoError(t, err)
		_, err = s.Files().Apply(context.Background(), []sandbox.Change{{Op: sandbox.OpWrite, Path: "a/b/c", Data: []byte("x")}})
		require.NoError(t, err)
		require.NoError(t, s.Close())
		require.NoError(t, a.Close())
	}()
	goleak.VerifyNone(t, before)
	require.Eventually(t, func() bool { return openFiles(t) <= open }, 5*time.Second, 10*time.Millisecond, "descriptors leak")
}

func openFiles(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}
