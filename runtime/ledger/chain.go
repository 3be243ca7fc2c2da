package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"

	"github.com/sandboxd/sandboxd/runtime"
)

// The prefixes keep the two hashes apart from each other and from any other
// use of SHA-256; a change of the encoding changes the number.
const (
	eventDomain   = "sandboxd ledger event v1\n"
	genesisDomain = "sandboxd ledger genesis v1\n"
)

// Genesis is the prevHash of a run's first event, in lower-case hex: SHA-256
// over the line "sandboxd ledger genesis v1\n" and the run's id. An event
// cannot be moved to another run, because the chains start apart.
func Genesis(runID string) string {
	return hex.EncodeToString(genesis(runID))
}

func genesis(runID string) []byte {
	sum := sha256.Sum256([]byte(genesisDomain + runID))
	return sum[:]
}

// Hash computes an event's hash, in lower-case hex. It is SHA-256 over the
// line "sandboxd ledger event v1\n" and then, in this order: seq, runId, kind,
// time, toolCallId, trace, data, prevHash. Integers (seq, and time as
// nanoseconds since 1970 UTC) are 8 bytes, big-endian; all others are their
// length as such an integer and then their bytes; prevHash is the 32 bytes
// that its hex says. data is taken byte for byte. No two different events have
// the same encoding.
func Hash(e runtime.Event) (string, error) {
	prev, err := hex.DecodeString(e.PrevHash)
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(link{
		seq: e.Seq, runID: e.RunID, kind: string(e.Kind), timeNs: e.Time.UnixNano(),
		callID: e.ToolCallID, trace: e.Trace, data: e.Data, prev: prev,
	}.sum()), nil
}

// link is one event as it is stored and hashed.
type link struct {
	seq    int64
	runID  string
	kind   string
	timeNs int64
	callID string
	trace  string
	data   []byte
	prev   []byte
}

func (l link) sum() []byte {
	h := sha256.New()
	h.Write([]byte(eventDomain))
	writeInt(h, l.seq)
	writeBytes(h, []byte(l.runID))
	writeBytes(h, []byte(l.kind))
	writeInt(h, l.timeNs)
	writeBytes(h, []byte(l.callID))
	writeBytes(h, []byte(l.trace))
	writeBytes(h, l.data)
	writeBytes(h, l.prev)
	return h.Sum(nil)
}

// A hash's Write never fails (package hash), so its result is not looked at.

func writeInt(h hash.Hash, n int64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	h.Write(b[:])
}

func writeBytes(h hash.Hash, b []byte) {
	writeInt(h, int64(len(b)))
	h.Write(b)
}
