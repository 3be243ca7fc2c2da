package api

import (
	"bytes"
	"context"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/sandboxd/sandboxd/runtime"
)

// events shows a run's ledger: a page of it as JSON; all of it, one event a
// line; or live, as server-sent events.
func (s *service) events(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, "after", "limit", "follow")
	if err != nil {
		return err
	}
	media, err := negotiate(r, typeJSON, typeSSE, typeNDJSON)
	if err != nil {
		return err
	}
	after, err := intParam(q, "after", 0, 0, math.MaxInt64)
	if err != nil {
		return err
	}
	switch media {
	case typeSSE:
		return s.eventStream(w, r, q, after)
	case typeNDJSON:
		return s.eventLines(w, r, q, after)
	default:
		return s.eventPage(w, r, q, after)
	}
}

func (s *service) eventPage(w http.ResponseWriter, r *http.Request, q url.Values, after int64) error {
	if q.Has("follow") {
		return badRequest("follow goes with Accept: %s.", typeNDJSON)
	}
	limit, err := intParam(q, "limit", defaultPage, 1, maxPage)
	if err != nil {
		return err
	}
	events, next, err := s.readEvents(r, after, int(limit))
	if err != nil {
		return err
	}
	return s.writeJSON(w, http.StatusOK, map[string]any{"events": events, "next": next})
}

// readEvents reads up to limit events and the sequence number of the last. A
// page that grows heavy ends early: whoever goes on from next misses nothing.
func (s *service) readEvents(r *http.Request, after int64, limit int) ([]runtime.Event, int64, error) {
	events := []runtime.Event{}
	for weight := 0; len(events) < limit && weight < heavyPage; {
		step := min(pageStep, limit-len(events))
		more, err := s.kernel.Events(r.Context(), exchangeOf(r).run.RunID, after, step)
		if err != nil {
			return nil, 0, err
		}
		for _, e := range more {
			after, weight = e.Seq, weight+len(e.Data)
		}
		events = append(events, more...)
		if len(more) < step {
			break
		}
	}
	return events, after, nil
}

// eventLines sends the events so far, one JSON object a line; with
// ?follow=true also those to come, until the run has ended.
func (s *service) eventLines(w http.ResponseWriter, r *http.Request, q url.Values, after int64) error {
	if q.Has("limit") {
		return badRequest("limit goes with Accept: %s; lines come to their end by themselves.", typeJSON)
	}
	follow, err := choice(q, "follow", "false", "true")
	if err != nil {
		return err
	}
	f := &follower{s: s, r: r, w: w, media: typeNDJSON, after: after, live: follow == "true", line: eventLine}
	return f.run()
}

func eventLine(b *bytes.Buffer, e runtime.Event) error {
	raw, err := encode(e)
	b.Write(raw)
	return err
}

// eventStream sends server-sent events (WHATWG HTML, section 9.2): id is the
// sequence number, event the kind, data the event. It ends when the run has
// ended and all was sent; to ask again is then answered with 204, which tells
// a browser to stop asking.
func (s *service) eventStream(w http.ResponseWriter, r *http.Request, q url.Values, after int64) error {
	if q.Has("limit") || q.Has("follow") {
		return badRequest("A stream takes only after.")
	}
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		n, err := strconv.ParseInt(last, 10, 64)
		if err != nil || n < 0 {
			return badRequest("Last-Event-ID must be the id of an event of this stream, an integer.")
		}
		after = n // a client that resumes asks with the URL it began with
	}
	f := &follower{s: s, r: r, w: w, media: typeSSE, after: after, live: true, line: eventMessage, beat: ": still here\n\n"}
	return f.run()
}

func eventMessage(b *bytes.Buffer, e runtime.Event) error {
	raw, err := encode(e)
	b.WriteString("id: " + strconv.FormatInt(e.Seq, 10) + "\nevent: " + string(e.Kind) + "\ndata: ")
	b.Write(raw) // one line, which ends with a newline
	b.WriteByte('\n')
	return err
}

// follower sends a run's events to one reader as fast as that one takes them.
// It holds at most a page of them: a reader that does not read keeps its own
// follower waiting, for as long as IdleWrite, and nobody else.
type follower struct {
	s     *service
	r     *http.Request
	w     http.ResponseWriter
	media string
	after int64
	live  bool // goes on until the run's end
	line  func(b *bytes.Buffer, e runtime.Event) error
	beat  string // sign of life, "" for none

	over bool // the run's last event was seen
}

func (f *follower) run() error {
	ctx, runID := f.r.Context(), exchangeOf(f.r).run.RunID
	signal, stop := f.s.kernel.Follow(runID)
	defer stop()
	more, err := f.sendNew(ctx, runID)
	if err != nil {
		return err
	}
	if f.over && exchangeOf(f.r).out.status == 0 && f.media == typeSSE {
		f.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	if err := f.begin(); err != nil || f.r.Method == http.MethodHead {
		return err
	}
	defer f.giveTime() // for the end of the answer
	beat := time.NewTicker(f.s.limits.Heartbeat)
	defer beat.Stop()
	for !f.over && (more || f.live) {
		if !more && !f.wait(ctx, signal, beat.C) {
			return nil
		}
		if more, err = f.sendNew(ctx, runID); err != nil {
			return err
		}
	}
	return nil
}

// wait returns when there may be new events, or false when the stream is to
// end. Meanwhile it gives signs of life.
func (f *follower) wait(ctx context.Context, signal <-chan struct{}, beat <-chan time.Time) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-stopping(ctx):
			return false
		case <-signal:
			return true
		case <-beat:
			if f.beat != "" && f.send([]byte(f.beat)) != nil {
				return false
			}
		}
	}
}

// sendNew sends the next page of events; more tells that there is another.
func (f *follower) sendNew(ctx context.Context, runID string) (more bool, err error) {
	events, err := f.s.kernel.Events(ctx, runID, f.after, pageStep)
	if err != nil {
		return false, err
	}
	if len(events) == 0 {
		f.over, err = f.ended(ctx, runID)
		return false, err
	}
	var b bytes.Buffer
	for _, e := range events {
		if err := f.line(&b, e); err != nil {
			return false, err
		}
		f.after, f.over = e.Seq, isLast(e.Kind)
	}
	if f.r.Method == http.MethodHead {
		return false, f.begin()
	}
	if err := f.begin(); err != nil {
		return false, err
	}
	return len(events) == pageStep, f.send(b.Bytes())
}

// isLast tells whether a run's ledger ends with such an event.
func isLast(kind runtime.EventKind) bool {
	return kind == runtime.RunEndedEvent || kind == runtime.RunBecameFailed
}

// ended tells, where nothing new is there, whether anything will come: the run
// is over and the event that says so was sent before.
func (f *follower) ended(ctx context.Context, runID string) (bool, error) {
	run, err := f.s.kernel.Run(ctx, runID)
	if err != nil || run.Status != runtime.RunEnded && run.Status != runtime.RunFailed || f.after == 0 {
		return false, err
	}
	events, err := f.s.kernel.Events(ctx, runID, f.after-1, 1)
	return len(events) == 0 || isLast(events[0].Kind), err
}

// begin sends the headers, once.
func (f *follower) begin() error {
	if exchangeOf(f.r).out.status != 0 {
		return nil
	}
	f.w.Header().Set("Content-Type", f.media)
	f.w.Header().Set("X-Accel-Buffering", "no") // proxies would hold events back
	f.w.WriteHeader(http.StatusOK)
	return http.NewResponseController(f.w).Flush()
}

// send writes and flushes within the time that a reader has.
func (f *follower) send(b []byte) error {
	f.giveTime()
	if _, err := f.w.Write(b); err != nil {
		return err
	}
	return http.NewResponseController(f.w).Flush()
}

func (f *follower) giveTime() {
	_ = http.NewResponseController(f.w).SetWriteDeadline(time.Now().Add(f.s.limits.IdleWrite))
}
