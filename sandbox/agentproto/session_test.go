package agentproto_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/yamux"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/agentproto"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// conversation is one stream at a fake agent's end.
type conversation struct {
	*yamux.Stream
	r *agentproto.FrameReader
	w *agentproto.FrameWriter
}

// fakeAgent answers the hello and gives every later stream to serve.
func fakeAgent(t *testing.T, serve func(c conversation)) *agentproto.Session {
	t.Helper()
	ours, theirs := net.Pipe()
	mux, err := agentproto.Server(theirs)
	require.NoError(t, err)
	go func() {
		for first := true; ; first = false {
			stream, err := mux.AcceptStream()
			if err != nil {
				return
			}
			c := conversation{stream, agentproto.NewFrameReader(stream), agentproto.NewFrameWriter(stream)}
			if first {
				_, _, _ = c.r.Next()
				_ = c.w.Message(agentproto.FrameWelcome, agentproto.Welcome{PID: 1, KillStep: "term"})
				continue
			}
			go serve(c)
		}
	}()
	t.Cleanup(func() { mux.Close() })
	s, err := agentproto.Open(context.Background(), ours, agentproto.Config{Token: "t"})
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	require.Equal(t, "term", s.Facts().KillStep)
	return s
}

// runAt runs a command at a fake agent that answers the start and then says
// more. The session may end before the start has returned.
func runAt(t *testing.T, more func(c conversation)) (*agentproto.Session, sandbox.Exit, error) {
	t.Helper()
	s := fakeAgent(t, func(c conversation) {
		_, _, _ = c.r.Next()
		_ = c.w.Message(agentproto.FrameStarted, agentproto.StartedMessage{PID: 7})
		more(c)
	})
	p, err := s.Start(context.Background(), sandbox.Command{Argv: []string{"x"}, Stdout: io.Discard})
	if err != nil {
		return s, sandbox.Exit{}, err
	}
	exit, err := p.Wait()
	return s, exit, err
}

func TestAHostileAgentEndsItsSessionAndNothingElse(t *testing.T) {
	one := func(typ agentproto.FrameType, v any) func(conversation) {
		return func(c conversation) { _ = c.w.Message(typ, v) }
	}
	raw := func(b ...byte) func(conversation) {
		return func(c conversation) { _, _ = c.Write(b) }
	}
	cases := map[string]func(c conversation){
		"unknown frame":           raw(250, 0, 0, 0, 0),
		"endless frame":           raw(byte(agentproto.FrameExit), 0xff, 0xff, 0xff, 0xff),
		"garbled exit":            raw(byte(agentproto.FrameExit), 0, 0, 0, 2, 0xff, 0xff),
		"started twice":           one(agentproto.FrameStarted, agentproto.StartedMessage{PID: 8}),
		"impossible exit":         one(agentproto.FrameExit, agentproto.ExitMessage{Code: 999}),
		"answer nobody asked":     one(agentproto.FrameAck, agentproto.AckMessage{ID: 77}),
		"credit nobody asked":     one(agentproto.FrameStdinCredit, agentproto.CreditMessage{Bytes: 1}),
		"another operation's":     one(agentproto.FrameInfo, agentproto.InfoMessage{Type: "file"}),
		"an end without an exit":  func(c conversation) { c.Close() },
		"an error of no kind":     one(agentproto.FrameError, agentproto.ErrorMessage{Kind: "nonsense"}),
		"a stream of its own":     func(c conversation) { _, _ = c.Session().OpenStream(); _ = c.w.Message(agentproto.FrameStdout, nil) },
		"a ping below the frames": func(c conversation) { _, _ = c.Session().Ping() },
	}
	for name, more := range cases {
		t.Run(name, func(t *testing.T) {
			s, _, err := runAt(t, more)
			require.Equal(t, sandbox.KindUnavailable, sandbox.KindOf(err), "%v", err)
			select {
			case <-s.Done():
			case <-time.After(5 * time.Second):
				t.Fatal("the session lives on")
			}
			require.Error(t, s.Err())
			_, err = s.Start(context.Background(), sandbox.Command{Argv: []string{"x"}})
			require.Equal(t, sandbox.KindUnavailable, sandbox.KindOf(err))
		})
	}
	t.Run("control: a proper exit", func(t *testing.T) {
		s, exit, err := runAt(t, one(agentproto.FrameExit, agentproto.ExitMessage{Code: 3}))
		require.NoError(t, err)
		require.Equal(t, 3, exit.Code)
		require.NoError(t, s.Err())
	})
	t.Run("control: a proper refusal", func(t *testing.T) {
		s := fakeAgent(t, func(c conversation) {
			_, _, _ = c.r.Next()
			_ = c.w.Message(agentproto.FrameError, agentproto.ErrorMessage{Kind: "bad_dir"})
		})
		_, err := s.Start(context.Background(), sandbox.Command{Argv: []string{"x"}})
		require.Equal(t, sandbox.KindBadDir, sandbox.KindOf(err))
		require.NoError(t, s.Err())
	})
}

func TestMoreContentThanAskedForIsRefused(t *testing.T) {
	s := fakeAgent(t, func(c conversation) {
		_, _, _ = c.r.Next()
		_ = c.w.Message(agentproto.FrameInfo, agentproto.InfoMessage{Type: "file", Bytes: 1 << 50})
		for c.w.Raw(agentproto.FrameContent, make([]byte, agentproto.MaxChunk)) == nil {
		}
	})
	_, err := s.Files().Read(context.Background(), sandbox.ReadRequest{Path: "f", Limit: 1 << 20})
	require.Equal(t, sandbox.KindUnavailable, sandbox.KindOf(err))
}

func TestASilentAgentHoldsNobodyBeyondTheDeadline(t *testing.T) {
	silent := fakeAgent(t, func(c conversation) { _, _, _ = c.r.Next() })
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	begin := time.Now()
	_, err := silent.Files().Stat(ctx, "f")
	require.Equal(t, sandbox.KindCancelled, sandbox.KindOf(err))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = silent.Ping(ctx)
	require.Equal(t, sandbox.KindCancelled, sandbox.KindOf(err))
	require.Less(t, time.Since(begin), 5*time.Second)
	require.NoError(t, silent.Err(), "the session lives on")

	// A connection on which nobody answers the hello at all.
	ours, theirs := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, theirs) }()
	defer theirs.Close()
	ctx, cancel = context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err = agentproto.Open(ctx, ours, agentproto.Config{})
	require.Error(t, err)
}

func TestWaitSocketSeesASocketThatComesLater(t *testing.T) {
	path := t.TempDir() + "/agent.sock"
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	go func() {
		time.Sleep(50 * time.Millisecond)
		l, err := net.Listen("unix", path+".new")
		if err != nil {
			return
		}
		defer l.Close()
		_ = os.Rename(path+".new", path)
		if conn, err := l.Accept(); err == nil {
			conn.Close()
		}
	}()
	conn, err := agentproto.WaitSocket(ctx, path)
	require.NoError(t, err)
	conn.Close()

	ctx, cancel = context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	_, err = agentproto.WaitSocket(ctx, t.TempDir()+"/never.sock")
	require.Equal(t, sandbox.KindUnavailable, sandbox.KindOf(err))
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestAWriterThatFailsStopsTheCopyingOnly(t *testing.T) {
	s := fakeAgent(t, func(c conversation) {
		_, _, _ = c.r.Next()
		_ = c.w.Message(agentproto.FrameStarted, agentproto.StartedMessage{PID: 7})
		for range 3 {
			_ = c.w.Raw(agentproto.FrameStdout, []byte("x"))
		}
		_ = c.w.Message(agentproto.FrameExit, agentproto.ExitMessage{Code: 0})
	})
	w := &failingWriter{}
	p, err := s.Start(context.Background(), sandbox.Command{Argv: []string{"x"}, Stdout: w})
	require.NoError(t, err)
	_, err = p.Wait()
	require.NoError(t, err)
	require.Equal(t, 1, w.calls)
}

type failingWriter struct{ calls int }

func (w *failingWriter) Write([]byte) (int, error) { w.calls++; return 0, errors.New("full") }

func TestARequestThatIsTooLargeIsRefusedHere(t *testing.T) {
	s := fakeAgent(t, func(conversation) {})
	_, err := s.Start(context.Background(), sandbox.Command{Argv: []string{strings.Repeat("x", agentproto.MaxMessage)}})
	require.Equal(t, sandbox.KindTooLarge, sandbox.KindOf(err))
	require.NoError(t, s.Err())
}
