package agentproto

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/sandboxd/sandboxd/sandbox"
)

// StatMessage asks for one path's description.
type StatMessage struct {
	Path Bytes `cbor:"1,keyasint,omitempty"`
}

// ReadMessage asks for part of a file. The answer is InfoMessage, content,
// ContentEndMessage.
type ReadMessage struct {
	Path   Bytes `cbor:"1,keyasint"`
	Offset int64 `cbor:"2,keyasint,omitempty"`
	Limit  int64 `cbor:"3,keyasint,omitempty"`
	NoHash bool  `cbor:"4,keyasint,omitempty"`
}

// ContentEndMessage ends one file's content.
type ContentEndMessage struct {
	Hash string        `cbor:"1,keyasint,omitempty"`
	Err  *ErrorMessage `cbor:"2,keyasint,omitempty"`
}

// WalkMessage asks for a walk. Names says that NamesMessages follow, ended by
// FrameEnd. The answer is EntriesMessages, each followed, where its last entry
// says so, by that file's content; FrameEnd or FrameError ends it.
type WalkMessage struct {
	Path       Bytes   `cbor:"1,keyasint,omitempty"`
	Depth      int     `cbor:"2,keyasint,omitempty"`
	Prune      []Bytes `cbor:"3,keyasint,omitempty"`
	Hash       bool    `cbor:"4,keyasint,omitempty"`
	ContentMax int64   `cbor:"5,keyasint,omitempty"`
	Names      bool    `cbor:"6,keyasint,omitempty"`
}

// NamesMessage lists paths that a walk opens.
type NamesMessage struct {
	Paths []Bytes `cbor:"1,keyasint"`
}

// EntryMessage is a sandbox.Entry on the wire. Content says that its content
// follows.
type EntryMessage struct {
	Path    Bytes         `cbor:"1,keyasint"`
	Info    InfoMessage   `cbor:"2,keyasint"`
	Hash    string        `cbor:"3,keyasint,omitempty"`
	Err     *ErrorMessage `cbor:"4,keyasint,omitempty"`
	Content bool          `cbor:"5,keyasint,omitempty"`
}

// EntriesMessage is a part of a walk.
type EntriesMessage struct {
	Entries []EntryMessage `cbor:"1,keyasint"`
}

// Entry returns the entry.
func (m EntryMessage) Entry() (sandbox.Entry, error) {
	info, err := m.Info.Info()
	if err != nil {
		return sandbox.Entry{}, err
	}
	e := sandbox.Entry{Path: string(m.Path), Info: info, Hash: m.Hash}
	if m.Err != nil {
		err := m.Err.Error()
		var refused *sandbox.Error
		if !errors.As(err, &refused) {
			return sandbox.Entry{}, err
		}
		e.Err = refused
	}
	return e, nil
}

// ApplyMessage lists the changes; the data of those that have any follow in
// order, each as content and FrameContentEnd.
type ApplyMessage struct {
	Changes []ChangeMessage `cbor:"1,keyasint"`
}

// ChangeMessage is a sandbox.Change on the wire.
type ChangeMessage struct {
	Op     string `cbor:"1,keyasint"`
	Path   Bytes  `cbor:"2,keyasint"`
	To     Bytes  `cbor:"3,keyasint,omitempty"`
	Hash   string `cbor:"4,keyasint,omitempty"`
	Absent bool   `cbor:"5,keyasint,omitempty"`
	Mode   uint32 `cbor:"6,keyasint,omitempty"`
	Data   bool   `cbor:"7,keyasint,omitempty"`
}

// NewChange makes the message of a change, without its data.
func NewChange(c sandbox.Change) ChangeMessage {
	return ChangeMessage{
		Op: string(c.Op), Path: Bytes(c.Path), To: Bytes(c.To), Hash: c.Base.Hash, Absent: c.Base.Absent,
		Mode: uint32(c.Mode.Perm()), Data: c.Op == sandbox.OpWrite || (c.Op == sandbox.OpMove && c.Data != nil),
	}
}

// Change returns the change without its data.
func (m ChangeMessage) Change() sandbox.Change {
	return sandbox.Change{
		Op: sandbox.ChangeOp(m.Op), Path: string(m.Path), To: string(m.To),
		Base: sandbox.Precondition{Hash: m.Hash, Absent: m.Absent}, Mode: fs.FileMode(m.Mode) & fs.ModePerm,
	}
}

// AppliedMessage tells what each change did.
type AppliedMessage struct {
	Applied []AppliedEntry `cbor:"1,keyasint"`
}

// AppliedEntry is a sandbox.Applied on the wire.
type AppliedEntry struct {
	Path    Bytes  `cbor:"1,keyasint"`
	Created bool   `cbor:"2,keyasint,omitempty"`
	OldHash string `cbor:"3,keyasint,omitempty"`
	Hash    string `cbor:"4,keyasint,omitempty"`
	Bytes   int64  `cbor:"5,keyasint,omitempty"`
}

// FilledMessage tells how many entries were made, and why no more.
type FilledMessage struct {
	Made int           `cbor:"1,keyasint"`
	Err  *ErrorMessage `cbor:"2,keyasint,omitempty"`
}

// asError finds the *sandbox.Error of err, or makes one.
func asError(err error) *sandbox.Error {
	var e *sandbox.Error
	if errors.As(err, &e) {
		return e
	}
	return &sandbox.Error{Kind: sandbox.KindInternal, Message: err.Error(), Cause: err}
}

// validText makes a text that CBOR takes: names in it may be any bytes.
func validText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
