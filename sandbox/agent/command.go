package agent

import (
	"errors"
	"time"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/agent/spawn"
	"github.com/sandboxd/sandboxd/sandbox/agentproto"
	"golang.org/x/sys/unix"
)

// command is one command, from the request to its exit. Its fields belong to
// the goroutine that runs supervise; the stream's reader only sends to it.
type command struct {
	op       *op
	msg      agentproto.StartMessage
	controls chan agentproto.ControlMessage
	lost     chan struct{} // closed when the service can no longer be heard
	finished chan struct{}

	slot    *slot
	streams *streams
	tree    tree
	killer  *killer
	pid     int
	started time.Time
	exited  chan time.Time
	ooms    int64
	refused int64
}

// announceAfter is how long the news that a command has started waits for its
// first output or its end.
const announceAfter = 2 * time.Millisecond

// command serves a command: this goroutine reads, another supervises. It
// returns the request that follows on the stream.
func (o *op) command(m agentproto.StartMessage) (request, error) {
	if len(m.Argv) == 0 || len(m.Argv[0]) == 0 {
		return request{}, errors.Join(errOver, o.refuse(&sandbox.Error{Kind: sandbox.KindInvalid, Message: "A command needs a program to run."}))
	}
	c := &command{
		op: o, msg: m,
		controls: make(chan agentproto.ControlMessage), lost: make(chan struct{}), finished: make(chan struct{}),
		exited: make(chan time.Time, 1),
	}
	c.streams = newStreams(m, o.w)
	supervised := make(chan error, 1)
	go func() {
		err := c.supervise()
		close(c.finished)
		supervised <- err
	}()
	next, err := c.read()
	if supervisedErr := <-supervised; err == nil {
		err = supervisedErr
	}
	return next, err
}

// read takes the service's frames until the command has ended and the next
// request comes, or the stream ends.
func (c *command) read() (request, error) {
	defer close(c.lost)
	for {
		t, payload, err := c.op.r.Next()
		if err != nil {
			return request{}, err
		}
		switch t {
		case agentproto.FrameStdin:
			err = c.streams.input(payload)
		case agentproto.FrameStdinEnd:
			err = c.streams.inputEnd()
		case agentproto.FrameControl:
			err = c.receive(payload)
		default:
			select {
			case <-c.finished:
				return request{t, payload}, nil
			case <-time.After(requestPatience):
				err = agentproto.Unexpected(t)
			}
		}
		if err != nil {
			return request{}, err
		}
	}
}

// requestPatience is for a request that comes right after the command's exit
// was sent, while its supervisor is still closing up.
const requestPatience = 5 * time.Second

// receive hands a control over.
func (c *command) receive(payload []byte) error {
	var m agentproto.ControlMessage
	if err := agentproto.Decode(payload, &m); err != nil {
		return err
	}
	select {
	case c.controls <- m:
	case <-c.finished:
	}
	return nil
}

// supervise brings the command from a free slot to its exit.
func (c *command) supervise() error {
	if !c.acquire() {
		return c.op.refuse(&sandbox.Error{Kind: sandbox.KindCancelled, Message: "The command was cancelled before it began."})
	}
	defer func() { c.op.box.slots.free <- c.slot }()
	defer c.streams.close()
	if err := c.launch(); err != nil {
		return c.op.refuse(err)
	}
	// A short command's whole story is one write. A write that fails shows as
	// the stream's loss.
	_ = c.op.w.Queue(agentproto.FrameStarted, agentproto.StartedMessage{PID: c.pid})
	announce := time.AfterFunc(announceAfter, func() { _ = c.op.w.Flush() })
	defer announce.Stop()
	c.streams.start()
	ended := c.await()
	exit := c.conclude(ended)
	// Nothing may follow the exit on the stream.
	c.streams.close()
	return c.op.w.Message(agentproto.FrameExit, agentproto.NewExit(exit))
}

// acquire waits for a slot; false means that the command was taken back.
func (c *command) acquire() bool {
	for c.slot == nil {
		select {
		case c.slot = <-c.op.box.slots.free:
		case m := <-c.controls:
			if m.Cancel {
				return false
			}
			c.acknowledge(m, notRunning())
		case <-c.lost:
			return false
		}
	}
	// A cancel that came together with the slot.
	select {
	case m := <-c.controls:
		if m.Cancel {
			c.op.box.slots.free <- c.slot
			return false
		}
		c.acknowledge(m, notRunning())
	default:
	}
	return true
}

// launch makes the process.
func (c *command) launch() error {
	spec, cleanup, err := c.spec()
	if err != nil {
		return err
	}
	defer cleanup()
	c.ooms, c.refused = c.op.box.oom.read(), c.slot.refusals()
	c.started = time.Now()
	result := make(chan error, 1)
	c.slot.jobs <- func() {
		pid, err := spawn.Start(spec)
		c.pid = pid
		result <- err
		if err == nil {
			waitFor(pid)
			c.exited <- time.Now()
		}
	}
	if err := <-result; err != nil {
		return startError(err, string(c.msg.Argv[0]), string(c.msg.Dir))
	}
	if m, ok := c.tree.(*marked); ok {
		m.root = c.pid
	}
	return nil
}

// waitFor waits for the end of a child of this thread and leaves it a zombie,
// so that its number is not given to another while signals may be sent to it.
func waitFor(pid int) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// await waits for the command's own end and serves its controls meanwhile.
func (c *command) await() time.Time {
	lost := c.lost
	for {
		select {
		case ended := <-c.exited:
			return ended
		case m := <-c.controls:
			c.control(m)
		case <-lost:
			// Nobody can hear it any more, nor stop it: it ends now.
			lost = nil
			c.kill(0)
		}
	}
}

// control does what the service asks of a running command.
func (c *command) control(m agentproto.ControlMessage) {
	var err error
	switch {
	case m.Cancel:
		c.kill(0)
	case m.Kill != nil:
		c.kill(m.Kill.Grace)
	case m.Resize != nil:
		err = c.streams.resize(*m.Resize)
	default:
		err = c.signal(m.Signal)
	}
	c.acknowledge(m, err)
}

func (c *command) acknowledge(m agentproto.ControlMessage, err error) {
	ack := agentproto.AckMessage{ID: m.ID}
	if err != nil {
		e := agentproto.NewError(err)
		ack.Err = &e
	}
	// A service that has gone shows at the stream's reader.
	_ = c.op.w.Message(agentproto.FrameAck, ack)
}

// signal goes to the command's process group; its leader is not yet reaped.
func (c *command) signal(name string) error {
	sig := unix.SignalNum(name)
	if sig == 0 {
		return &sandbox.Error{Kind: sandbox.KindInvalid, Message: "There is no signal of that name."}
	}
	if err := unix.Kill(-c.pid, sig); err != nil {
		return notRunning()
	}
	return nil
}

func (c *command) kill(grace time.Duration) {
	if c.killer != nil {
		c.killer.hurry(grace)
		return
	}
	c.killer = startKill(c.tree, grace)
}

func notRunning() error {
	return &sandbox.Error{Kind: sandbox.KindNoProcess, Message: "The command is not running."}
}
