package sandboxtest

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/agent"
	"github.com/sandboxd/sandboxd/sandbox/agentproto"
)

// NewLocal returns a box without any container: a real agent in this process,
// with a directory of the test as its workspace, and the test's own user. It
// confines nothing. It is for tests of what stands above a box; those of the
// box itself need a driver. The box is removed when the test ends.
func NewLocal(t testing.TB) sandbox.Box {
	t.Helper()
	box, err := startLocal(t.TempDir())
	if err != nil {
		t.Fatalf("local box: %v", err)
	}
	t.Cleanup(func() {
		if err := box.Remove(context.Background()); err != nil {
			t.Errorf("remove local box: %v", err)
		}
	})
	return box
}

// localToken is no secret: both ends are in this process.
const localToken = "local"

type local struct {
	agent   *agent.Agent
	session *agentproto.Session
	dir     string
	took    time.Duration
	once    sync.Once
	err     error
}

func startLocal(dir string) (*local, error) {
	begin := time.Now()
	b := &local{agent: agent.New(agent.Options{Version: "test", TokenOptional: true, KeepUser: true}), dir: dir}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	// How the session ended is told at the other end.
	go func() { _ = b.agent.Serve(theirs) }()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	b.session, err = agentproto.Open(ctx, ours, agentproto.Config{
		Token: localToken, Workspace: dir, UID: os.Getuid(), GID: os.Getgid(), Commands: 4,
	})
	if err != nil {
		return nil, errors.Join(err, b.agent.Close())
	}
	b.took = time.Since(begin)
	return b, nil
}

func (b *local) Start(ctx context.Context, cmd sandbox.Command) (sandbox.Process, error) {
	return b.session.Start(ctx, cmd)
}

func (b *local) Files() sandbox.Files { return b.session.Files() }

func (b *local) Facts() sandbox.Facts {
	w := b.session.Facts()
	return sandbox.Facts{
		Driver: "local", Runtime: "none", Image: "none", WorkspacePath: b.dir, UserID: w.UID,
		CgroupMode: w.CgroupMode, KillStep: w.KillStep,
		Degraded:  append([]string{"There is no container: nothing is confined."}, w.Degraded...),
		StartedIn: b.took,
	}
}

func (b *local) Done() <-chan struct{} { return b.session.Done() }

func (b *local) Remove(context.Context) error {
	b.once.Do(func() { b.err = errors.Join(b.session.Close(), b.agent.Close()) })
	return b.err
}

// socketPair returns two connected unix sockets.
func socketPair() (net.Conn, net.Conn, error) {
	dir, err := os.MkdirTemp("", "agent-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	l, err := net.Listen("unix", dir+"/s")
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	ours, err := net.Dial("unix", dir+"/s")
	if err != nil {
		return nil, nil, err
	}
	theirs, err := l.Accept()
	if err != nil {
		return nil, nil, errors.Join(err, ours.Close())
	}
	return ours, theirs, nil
}
