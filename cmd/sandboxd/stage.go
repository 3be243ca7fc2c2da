package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/client"
)

// stage prints for a person: colours where a terminal takes them.
type stage struct {
	w      io.Writer
	colour bool
	acts   int
}

func newStage(f *os.File) *stage {
	info, err := f.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	return &stage{w: f, colour: terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

func (s *stage) paint(code, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s *stage) print(format string, args ...any) { fmt.Fprintf(s.w, format+"\n", args...) }

func (s *stage) title(text string) { s.print("\n%s", s.paint("1", text)) }

func (s *stage) act(text string) {
	s.acts++
	s.print("\n%s", s.paint("1;36", fmt.Sprintf("%d. %s", s.acts, text)))
}

func (s *stage) fact(name, value string) {
	s.print("   %s %s", s.paint("2", fmt.Sprintf("%-9s", name)), value)
}

func (s *stage) verdict(promise string, kept bool) {
	if kept {
		s.print("   %s %s", s.paint("32", "✓"), promise)
		return
	}
	s.print("   %s %s", s.paint("1;31", "✗ NOT KEPT:"), promise)
}

func (s *stage) line(r client.Result) {
	outcome := strings.Join(slices.Compact(strings.Fields(r.Status+" "+r.ErrorCode)), " ")
	colour := map[string]string{"SUCCEEDED": "32"}[r.Status]
	if colour == "" {
		colour = "33"
	}
	s.print("   %s %-12s %s %s", s.paint("2", "→"), r.ToolName, s.paint(colour, outcome), s.paint("2", fmt.Sprintf("%d ms", r.Usage.WallMs)))
	if r.ErrorCode != "" {
		s.print("     %s", s.paint("2", short(r.SafeMessage, 110)))
	}
}

func (s *stage) text(block string) {
	for line := range strings.Lines(strings.TrimRight(block, "\n")) {
		s.print("     %s", s.paint("2", "│ ")+short(strings.TrimRight(line, "\n"), 110))
	}
}

func (s *stage) diff(text string) {
	for line := range strings.Lines(strings.TrimRight(text, "\n")) {
		line = strings.TrimRight(line, "\n")
		colour := ""
		switch {
		case strings.HasPrefix(line, "+"):
			colour = "32"
		case strings.HasPrefix(line, "-"):
			colour = "31"
		case strings.HasPrefix(line, "@@"):
			colour = "36"
		}
		if colour != "" {
			line = s.paint(colour, line)
		}
		s.print("     %s%s", s.paint("2", "│ "), line)
	}
}

// ledgerRow is a call with all its events, or an event of the run.
type ledgerRow struct {
	first, last   int64
	time          string
	kinds         []string
	tool, outcome string
}

// ledger prints the events as a table: a line an event of the run, and a line
// a call with the stations that it passed.
func (s *stage) ledger(events []client.Event) {
	s.print("   %s", s.paint("2", fmt.Sprintf("%9s  %-12s  %-12s %-52s %s", "seq", "time", "tool", "events (of a call: TOOL_CALL_…)", "outcome")))
	for _, r := range ledgerRows(events) {
		seq := fmt.Sprint(r.first)
		if r.last != r.first {
			seq += "–" + fmt.Sprint(r.last)
		}
		outcome := r.outcome
		if outcome != "" {
			outcome = s.paint(map[bool]string{true: "32", false: "33"}[outcome == "SUCCEEDED"], outcome)
		}
		s.print("   %9s  %-12s  %-12s %-52s %s", seq, r.time, r.tool, strings.Join(r.kinds, " → "), outcome)
	}
}

func ledgerRows(events []client.Event) []*ledgerRow {
	var rows []*ledgerRow
	calls := map[string]*ledgerRow{}
	for _, e := range events {
		r := calls[e.ToolCallID]
		if e.ToolCallID == "" || r == nil {
			r = &ledgerRow{first: e.Seq, time: e.Time.Format("15:04:05.000")}
			rows = append(rows, r)
			if e.ToolCallID != "" {
				calls[e.ToolCallID] = r
			}
		}
		var data struct {
			ToolName  string `json:"toolName"`
			Status    string `json:"status"`
			ErrorCode string `json:"errorCode"`
			Reason    string `json:"reason"`
		}
		if json.Unmarshal(e.Data, &data) == nil && data.ToolName != "" {
			r.tool = data.ToolName
		}
		r.last = e.Seq
		r.kinds = append(r.kinds, strings.TrimPrefix(e.Kind, "TOOL_CALL_"))
		if e.Kind == "TOOL_CALL_RESULT" {
			r.outcome = strings.Join(slices.Compact(strings.Fields(data.Status+" "+data.ErrorCode+" "+data.Reason)), " ")
		}
	}
	return rows
}

func (s *stage) end(well bool, text string) {
	mark := s.paint("1;32", "ok")
	if !well {
		mark = s.paint("1;31", "FAILED")
	}
	s.print("\n%s  %s\n", mark, text)
}

func short(text string, n int) string {
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	return string(runes[:n-1]) + "…"
}

// randomKey is an admin key for a service of one's own.
func randomKey() string { return rand.Text() + rand.Text() }
