package agentproto

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/sandbox"
)

// cancelWait bounds how long a cancelled start waits for the agent to say that
// nothing runs.
const cancelWait = 10 * time.Second

// Start starts a command as [sandbox.Box] says.
func (s *Session) Start(ctx context.Context, cmd sandbox.Command) (sandbox.Process, error) {
	if len(cmd.Argv) > maxList || len(cmd.Env) > maxList {
		return nil, tooMany("arguments or variables")
	}
	op, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	// From here the context's end is told to the agent instead of cutting
	// the stream.
	if !op.detach() {
		op.end()
		return nil, cancelled(ctx)
	}
	op.ctx, op.stop = context.WithoutCancel(ctx), func() bool { return true }
	p := &process{op: op, cmd: cmd, done: make(chan struct{}), credit: make(chan int, 1), acks: map[uint32]chan error{}}
	if err := p.start(ctx); err != nil {
		op.clean = false // a deadline may have been set
		op.end()
		return nil, err
	}
	if cmd.Stdin != nil {
		p.credit <- StdinCredit
		go p.feed()
	}
	go p.run()
	return p, nil
}

type process struct {
	op     *operation
	cmd    sandbox.Command
	pid    int
	credit chan int

	mu     sync.Mutex
	nextID uint32
	acks   map[uint32]chan error // nil once the process has ended

	done chan struct{}
	exit sandbox.Exit
	err  error
}

// start sends the command and waits until it runs. When ctx ends first, the
// agent is told to take it back, or to kill it if it had begun.
func (p *process) start(ctx context.Context) error {
	if err := p.op.w.Message(FrameStart, startMessage(p.cmd)); err != nil {
		return p.op.failure(err)
	}
	stop := context.AfterFunc(ctx, func() {
		_ = p.op.stream.SetReadDeadline(time.Now().Add(cancelWait))
		// A write that fails means that the session is gone: the read says so.
		_ = p.op.w.Message(FrameControl, ControlMessage{Cancel: true})
	})
	var started StartedMessage
	err := p.op.r.Expect(FrameStarted, &started)
	if stop() {
		if err != nil {
			return p.op.failure(err)
		}
		p.pid = started.PID
		return nil
	}
	if err != nil {
		// Refused, taken back, or the agent is gone.
		if failed := p.op.failure(err); sandbox.KindOf(failed) == sandbox.KindUnavailable {
			return failed
		}
		return cancelled(ctx)
	}
	// It had begun: the agent kills it, and this drains the rest.
	p.cmd = sandbox.Command{}
	if p.drain(); p.err != nil {
		return p.err
	}
	return cancelled(ctx)
}

func startMessage(cmd sandbox.Command) StartMessage {
	m := StartMessage{
		Argv: toBytes(cmd.Argv), Dir: Bytes(cmd.Dir), Env: toBytes(cmd.Env),
		Stdin: cmd.Stdin != nil, Stdout: cmd.Stdout != nil, Stderr: cmd.Stderr != nil,
		KeepChildren: cmd.KeepChildren,
	}
	if cmd.TTY != nil {
		m.TTY = &SizeMessage{Rows: cmd.TTY.Rows, Cols: cmd.TTY.Cols}
	}
	return m
}

func toBytes(list []string) []Bytes {
	out := make([]Bytes, len(list))
	for i, s := range list {
		out[i] = Bytes(s)
	}
	return out
}

func (p *process) run() {
	p.drain()
	p.finish()
}

// drain reads until the command's end.
func (p *process) drain() {
	for {
		t, payload, err := p.op.r.Next()
		if err != nil {
			p.err = p.op.failure(err)
			return
		}
		ended, err := p.handle(t, payload)
		if err != nil {
			p.err = p.op.failure(err)
			return
		}
		if ended {
			return
		}
	}
}

func (p *process) handle(t FrameType, payload []byte) (ended bool, err error) {
	switch t {
	case FrameStdout:
		p.cmd.Stdout = deliver(p.cmd.Stdout, payload)
	case FrameStderr:
		p.cmd.Stderr = deliver(p.cmd.Stderr, payload)
	case FrameStdinCredit:
		var m CreditMessage
		if err := Decode(payload, &m); err != nil {
			return false, err
		}
		return false, p.addCredit(m.Bytes)
	case FrameAck:
		var m AckMessage
		if err := Decode(payload, &m); err != nil {
			return false, err
		}
		return false, p.acknowledge(m)
	default:
		var m ExitMessage
		if err := DecodeAs(t, payload, FrameExit, &m); err != nil {
			return false, err
		}
		p.exit, err = m.Exit()
		p.op.clean = err == nil
		return true, err
	}
	return false, nil
}

// deliver writes output and returns the writer, or nil once it has failed:
// that stops the copying, not the command.
func deliver(w io.Writer, payload []byte) io.Writer {
	if w == nil {
		return nil
	}
	if _, err := w.Write(payload); err != nil {
		return nil
	}
	return w
}

func (p *process) finish() {
	p.mu.Lock()
	pending := p.acks
	p.acks = nil
	p.mu.Unlock()
	for _, ch := range pending {
		ch <- errEnded
	}
	close(p.done)
	if p.cmd.Stdin != nil {
		// The feeder may be about to send: nobody else may use the lane.
		p.op.clean = false
	}
	p.op.end()
}

// errEnded answers controls of a command that has ended.
var errEnded = errors.New("ended")

func (p *process) addCredit(n int) error {
	if p.cmd.Stdin == nil || n <= 0 || n > StdinCredit {
		return broken("credit for %d bytes of input", n)
	}
	select {
	case old := <-p.credit:
		n += old
	default:
	}
	if n > StdinCredit {
		return broken("credit beyond the window")
	}
	p.credit <- n
	return nil
}

// feed copies the input as far as the agent takes it.
func (p *process) feed() {
	buf := make([]byte, 32<<10)
	credit := 0
	for {
		if credit == 0 {
			select {
			case credit = <-p.credit:
			case <-p.done:
				return
			}
		}
		n, err := p.cmd.Stdin.Read(buf[:min(len(buf), credit)])
		credit -= n
		if n > 0 && p.op.w.Raw(FrameStdin, buf[:n]) != nil {
			return // the session has ended; run reports it
		}
		if err != nil {
			// Also a reader's failure ends the input: the command sees its end.
			_ = p.op.w.Message(FrameStdinEnd, nil)
			return
		}
	}
}
