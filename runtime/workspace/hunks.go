package workspace

import (
	"bufio"
	"bytes"
	"fmt"
)

// contextLines is how many unchanged lines stand around a change.
const contextLines = 3

// hunk is one part of a unified diff. Lines carry their mark and their own end.
type hunk struct {
	oldStart, oldLines    int // start counts from 0
	newStart, newLines    int
	lines                 []string
	insertions, deletions int
}

// hunksOf makes the hunks of what differs between two texts.
func hunksOf(old, now []byte) []hunk {
	a, b := splitLines(old), splitLines(now)
	var hunks []hunk
	var h *hunk
	at := 0    // lines of a that are told
	shift := 0 // how much further b is
	for _, d := range diffLines(a, b) {
		if h == nil || d.Start-at > 2*contextLines {
			if h != nil {
				h.keep(a[at:min(at+contextLines, len(a))])
			}
			from := max(d.Start-contextLines, 0)
			if h != nil {
				from = max(from, at+contextLines)
			}
			hunks = append(hunks, hunk{oldStart: from, newStart: from + shift})
			h = &hunks[len(hunks)-1]
			at = from
		}
		h.keep(a[at:d.Start])
		h.remove(a[d.Start:d.End])
		h.insert(b[d.ReplStart:d.ReplEnd])
		at = d.End
		shift = d.ReplEnd - d.End
	}
	if h != nil {
		h.keep(a[at:min(at+contextLines, len(a))])
	}
	return hunks
}

func (h *hunk) keep(lines []string) {
	h.add(' ', lines)
	h.oldLines += len(lines)
	h.newLines += len(lines)
}

func (h *hunk) remove(lines []string) {
	h.add('-', lines)
	h.oldLines += len(lines)
	h.deletions += len(lines)
}

func (h *hunk) insert(lines []string) {
	h.add('+', lines)
	h.newLines += len(lines)
	h.insertions += len(lines)
}

func (h *hunk) add(mark byte, lines []string) {
	for _, l := range lines {
		h.lines = append(h.lines, string(mark)+l)
	}
}

// write writes the hunk and tells how many bytes it had.
func (h *hunk) write(w *bufio.Writer) (n int64, err error) {
	head := "@@ -" + span(h.oldStart, h.oldLines) + " +" + span(h.newStart, h.newLines) + " @@\n"
	if _, err := w.WriteString(head); err != nil {
		return n, err
	}
	for _, l := range h.lines {
		n += int64(len(l))
		if _, err := w.WriteString(l); err != nil {
			return n, err
		}
		if l[len(l)-1] == '\n' {
			continue
		}
		if _, err := w.WriteString("\n\\ No newline at end of file\n"); err != nil {
			return n, err
		}
	}
	return n, nil
}

// span is a range of lines, counted from 1; an empty one names the line before
// it, and a length of 1 is left out.
func span(start, lines int) string {
	switch lines {
	case 0:
		return fmt.Sprintf("%d,0", start)
	case 1:
		return fmt.Sprintf("%d", start+1)
	}
	return fmt.Sprintf("%d,%d", start+1, lines)
}

// splitLines cuts a text into lines that keep their newline.
func splitLines(text []byte) []string {
	if len(text) == 0 {
		return nil
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	if len(lines[len(lines)-1]) == 0 {
		lines = lines[:len(lines)-1]
	}
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = string(l)
	}
	return out
}
