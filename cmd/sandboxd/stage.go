package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
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
	code := r.ErrorCode
	if code != "" {
		code = " " + code
	}
	colour := map[string]string{"SUCCEEDED": "32"}[r.Status]
	if colour == "" {
		colour = "33"
	}
	s.print("   %s %-12s %s %s", s.paint("2", "→"), r.ToolName, s.paint(colour, r.Status+code), s.paint("2", fmt.Sprintf("%d ms", r.Usage.WallMs)))
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

// ledger prints the events as a table.
func (s *stage) ledger(events []client.Event) {
	s.print("   %s", s.paint("2", fmt.Sprintf("%4s  %-12s  %-26s %-14s %s", "seq", "time", "kind", "tool", "what")))
	tools := map[string]string{}
	for _, e := range events {
		var data struct {
			ToolName  string `json:"toolName"`
			Status    string `json:"status"`
			ErrorCode string `json:"errorCode"`
			Reason    string `json:"reason"`
			Activity  string `json:"activity"`
		}
		if json.Unmarshal(e.Data, &data) == nil && data.ToolName != "" {
			tools[e.ToolCallID] = data.ToolName
		}
		what := strings.TrimSpace(strings.Join([]string{data.Status, data.ErrorCode, data.Reason}, " "))
		if what == "" {
			what = data.Activity
		}
		kind := fmt.Sprintf("%-26s", e.Kind)
		if e.Kind == "TOOL_CALL_RESULT" {
			kind = s.paint(map[bool]string{true: "32", false: "33"}[data.Status == "SUCCEEDED"], kind)
		}
		s.print("   %4d  %-12s  %s %-14s %s", e.Seq, e.Time.Format("15:04:05.000"), kind, tools[e.ToolCallID], short(strings.Join(strings.Fields(what), " "), 60))
	}
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
