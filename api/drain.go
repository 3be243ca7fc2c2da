package api

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// How much of a refused body is still read, and for how long: a client that
// sends before it reads gets its answer, one that stalls holds nothing up.
const (
	drainBytes = 32 << 20
	drainTime  = 2 * time.Second
)

// drain reads what is left of the body of a refused request. Without it the
// connection is cut under a client that is still sending, which then never
// sees why; and net/http itself waits for the rest of a short body before it
// answers, for as long as the deadline for reading allows.
func drain(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 || r.Body == nil {
		return
	}
	rc := http.NewResponseController(w)
	if r.Header.Get("Expect") != "" { // it waits for our word, and gets the answer instead
		w.Header().Set("Connection", "close")
		_ = rc.SetReadDeadline(time.Now())
		return
	}
	_ = rc.SetReadDeadline(time.Now().Add(drainTime))
	if _, err := io.CopyN(io.Discard, r.Body, drainBytes); errors.Is(err, io.EOF) {
		_ = rc.SetReadDeadline(time.Time{}) // the connection serves on
		return
	}
	w.Header().Set("Connection", "close")
	_ = rc.SetReadDeadline(time.Now())
}
