package agentproto_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/agentproto"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func frame(t agentproto.FrameType, payload []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{byte(t)}, uint32(len(payload))), payload...)
}

func TestFramesComeBackAsTheyWereWritten(t *testing.T) {
	var wire bytes.Buffer
	w := agentproto.NewFrameWriter(&wire)
	long := bytes.Repeat([]byte("x"), 3*agentproto.MaxChunk+5)
	require.NoError(t, w.Queue(agentproto.FrameStarted, agentproto.StartedMessage{PID: 7}))
	require.Zero(t, wire.Len(), "queued, not written")
	require.NoError(t, w.Raw(agentproto.FrameStdout, long))
	require.NoError(t, w.Message(agentproto.FrameEnd, nil))

	r := agentproto.NewFrameReader(&wire)
	var started agentproto.StartedMessage
	require.NoError(t, r.Expect(agentproto.FrameStarted, &started))
	require.Equal(t, 7, started.PID)
	var got []byte
	for {
		typ, payload, err := r.Next()
		require.NoError(t, err)
		if typ == agentproto.FrameEnd {
			break
		}
		require.Equal(t, agentproto.FrameStdout, typ)
		require.LessOrEqual(t, len(payload), agentproto.MaxChunk)
		got = append(got, payload...)
	}
	require.Equal(t, long, got)
	_, _, err := r.Next()
	require.Equal(t, io.EOF, err)
}

func TestBrokenFramesAreToldApartFromTheEnd(t *testing.T) {
	cases := map[string]struct {
		wire   []byte
		broken bool
	}{
		"type zero":          {frame(0, nil), true},
		"unknown type":       {frame(200, nil), true},
		"too long a message": {binary.BigEndian.AppendUint32([]byte{byte(agentproto.FrameExit)}, agentproto.MaxMessage+1), true},
		"too long a chunk":   {binary.BigEndian.AppendUint32([]byte{byte(agentproto.FrameStdout)}, agentproto.MaxChunk+1), true},
		"cut header":         {[]byte{byte(agentproto.FrameExit), 0}, false},
		"cut payload":        {frame(agentproto.FrameExit, []byte("abc"))[:6], false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, _, err := agentproto.NewFrameReader(bytes.NewReader(c.wire)).Next()
			var broken *agentproto.ProtocolError
			require.Equal(t, c.broken, errors.As(err, &broken), "%v", err)
			if !c.broken {
				require.Equal(t, io.ErrUnexpectedEOF, err)
			}
		})
	}
}

func TestMessagesAreDecodedStrictly(t *testing.T) {
	good, err := agentproto.Encode(agentproto.StartedMessage{PID: 7})
	require.NoError(t, err)
	require.Equal(t, []byte{0xa1, 0x01, 0x07}, good)
	var m agentproto.StartedMessage
	require.NoError(t, agentproto.Decode(good, &m), "control")
	for name, wire := range map[string][]byte{
		"empty":             {},
		"trailing bytes":    append(bytes.Clone(good), 0),
		"unknown key":       {0xa2, 0x01, 0x07, 0x18, 0x63, 0x00},
		"duplicate key":     {0xa2, 0x01, 0x07, 0x01, 0x08},
		"indefinite length": {0xbf, 0x01, 0x07, 0xff},
		"tag":               {0xc1, 0xa1, 0x01, 0x07},
		"text for number":   {0xa1, 0x01, 0x61, 0x41},
		"huge array":        {0x9b, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
	} {
		t.Run(name, func(t *testing.T) {
			var m agentproto.StartedMessage
			var broken *agentproto.ProtocolError
			require.True(t, errors.As(agentproto.Decode(wire, &m), &broken))
		})
	}
}

func TestEveryKindOfErrorCrossesTheWire(t *testing.T) {
	for _, kind := range sandbox.Kinds() {
		want := &sandbox.Error{Kind: kind, Path: "p\xff", Message: "m", CurrentHash: "h"}
		data, err := agentproto.Encode(agentproto.NewError(want))
		require.NoError(t, err)
		var m agentproto.ErrorMessage
		require.NoError(t, agentproto.Decode(data, &m))
		require.Equal(t, want, m.Error())
	}
	var broken *agentproto.ProtocolError
	require.True(t, errors.As(agentproto.ErrorMessage{Kind: "made_up"}.Error(), &broken))
	m := agentproto.NewError(errors.New("bad \xff text"))
	require.Equal(t, string(sandbox.KindInternal), m.Kind)
	_, err := agentproto.Encode(m)
	require.NoError(t, err)
}

func TestAHelloCarriesTheWholeConfig(t *testing.T) {
	want := agentproto.Config{
		Token: "t\xff", Workspace: "/w", ReadOnly: true, UID: 1, GID: 2, Home: "/h", Env: []string{"A=b"},
		FileBytes: 3, OpenFiles: 4, Commands: 5, BoxPids: 6, PidsPerCommand: 7, Cgroup2Dir: "/c", PidsCgroupDir: "/p",
		OOMFile: "/o", Filter: []unix.SockFilter{{Code: 0xffff, Jt: 1, Jf: 2, K: 0xfffffffe}, {Code: 6, K: 7}},
	}
	data, err := agentproto.Encode(agentproto.NewHello(want))
	require.NoError(t, err)
	var m agentproto.HelloMessage
	require.NoError(t, agentproto.Decode(data, &m))
	require.Equal(t, want, m.Restore())
}

func TestAnExitThatCannotBeBreaksTheProtocol(t *testing.T) {
	good := sandbox.Exit{Code: -1, Signal: "SIGKILL", Killed: 3, KillStep: "term", Leftover: 1, OOMKilled: true, PidsLimitHit: true,
		Usage: sandbox.Usage{Wall: time.Second, CPU: time.Minute, MaxRSSBytes: 1 << 30}}
	back, err := agentproto.NewExit(good).Exit()
	require.NoError(t, err)
	require.Equal(t, good, back)
	for _, bad := range []agentproto.ExitMessage{{Code: 256}, {Code: -2}, {Code: -1}, {Code: 0, Signal: "SIGKILL"}, {Killed: -1}, {Wall: -1}} {
		_, err := bad.Exit()
		require.Error(t, err)
	}
}

func FuzzFrames(f *testing.F) {
	f.Add(frame(agentproto.FrameStdout, []byte("x")))
	f.Add(frame(agentproto.FrameExit, []byte{0xa1, 0x01, 0x00}))
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, wire []byte) {
		r := agentproto.NewFrameReader(bytes.NewReader(wire))
		for {
			typ, payload, err := r.Next()
			if err != nil {
				return
			}
			if len(payload) > len(wire) {
				t.Fatalf("frame %d longer than the wire", typ)
			}
		}
	})
}

func FuzzMessages(f *testing.F) {
	for _, m := range []any{
		agentproto.NewHello(agentproto.Config{Token: "t", Workspace: "/w"}), agentproto.Welcome{PID: 1},
		agentproto.StartMessage{Argv: []agentproto.Bytes{"sh"}, TTY: &agentproto.SizeMessage{Rows: 1}},
		agentproto.ExitMessage{Code: 1}, agentproto.EntriesMessage{Entries: []agentproto.EntryMessage{{Path: "p"}}},
		agentproto.AckMessage{ID: 1, Err: &agentproto.ErrorMessage{Kind: "invalid"}},
	} {
		data, err := agentproto.Encode(m)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Add([]byte(strings.Repeat("\x81", 100)))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, v := range []any{
			new(agentproto.HelloMessage), new(agentproto.Welcome), new(agentproto.StartMessage), new(agentproto.ExitMessage),
			new(agentproto.EntriesMessage), new(agentproto.AckMessage), new(agentproto.AppliedMessage), new(agentproto.ApplyMessage),
			new(agentproto.ControlMessage), new(agentproto.InfoMessage),
		} {
			if agentproto.Decode(data, v) != nil {
				continue
			}
			switch m := v.(type) {
			case *agentproto.ExitMessage:
				_, _ = m.Exit()
			case *agentproto.EntriesMessage:
				for _, e := range m.Entries {
					_, _ = e.Entry()
				}
			case *agentproto.AckMessage:
				if m.Err != nil {
					_ = m.Err.Error()
				}
			case *agentproto.HelloMessage:
				_ = m.Restore()
			}
		}
	})
}
