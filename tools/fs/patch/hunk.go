package patch

import (
	"strconv"
	"strings"
)

// readHunks reads the hunks of a section, up to its end.
func (p *parser) readHunks() ([]Hunk, error) {
	var hunks []Hunk
	for !p.done() {
		line := p.header(p.at)
		if line == "" && len(hunks) > 0 {
			p.at++
			continue
		}
		if !strings.HasPrefix(line, "@@") {
			break
		}
		if p.hunks++; p.hunks > MaxHunks {
			return nil, syntaxf(p.number(), "the patch has more than %d hunks; send it in parts", MaxHunks)
		}
		h, err := p.hunk()
		if err != nil {
			return nil, err
		}
		hunks = append(hunks, h)
	}
	return hunks, nil
}

// hunk reads one hunk: by the counts of its header where the body agrees with
// them, else by what its lines look like.
func (p *parser) hunk() (Hunk, error) {
	at := p.number()
	head, ok := parseHunkHead(p.header(p.at))
	if !ok {
		return Hunk{}, syntaxf(at, "%s is not a hunk header; write @@ -oldStart,oldLines +newStart,newLines @@", quoted(p.header(p.at)))
	}
	p.at++
	h := Hunk{OldStart: head.oldStart, Line: at}
	for !head.numbered {
		h.anchor(head.label)
		next, ok := parseHunkHead(p.header(p.at))
		if !ok || next.numbered {
			break
		}
		head = next
		p.at++
	}
	var end int
	h.Lines, end, ok = p.counted(head)
	if !ok {
		var err error
		if h.Lines, end, err = p.counting(); err != nil {
			return h, err
		}
		if head.numbered {
			p.note("hunk header counts that did not agree with their body were recounted")
		}
	}
	p.at = end
	if p.inEnvelope && p.header(p.at) == endOfFile {
		h.AtEnd = true
		p.at++
	}
	if len(h.Lines) == 0 {
		return h, syntaxf(at, "the hunk is empty")
	}
	if head.numbered && head.oldLines == 0 && len(h.old()) == 0 {
		h.OldStart++ // git states the line after which an insertion goes
	}
	return h, nil
}

type hunkHead struct {
	numbered           bool
	oldStart, oldLines int
	newLines           int
	label              string // of a header without numbers
}

// anchor takes the text of a header without numbers.
func (h *Hunk) anchor(label string) {
	label = strings.TrimSpace(strings.TrimSuffix(label, "@@"))
	if strings.Trim(label, ".… ") != "" {
		h.Anchors = append(h.Anchors, label)
	}
}

// parseHunkHead reads "@@ -1,3 +1,3 @@ section"; "@@", alone or with a text,
// has no numbers.
func parseHunkHead(line string) (hunkHead, bool) {
	rest, ok := strings.CutPrefix(line, "@@ -")
	if !ok {
		plain := line == "@@" || strings.HasPrefix(line, "@@ ")
		return hunkHead{oldStart: -1, label: strings.TrimPrefix(line, "@@")}, plain && !strings.HasPrefix(line, "@@ +")
	}
	ranges, _, ok := strings.Cut(rest, " @@")
	if !ok {
		return hunkHead{}, false
	}
	oldRange, newRange, ok := strings.Cut(ranges, " +")
	if !ok {
		return hunkHead{}, false
	}
	h := hunkHead{numbered: true}
	var okOld, okNew bool
	h.oldStart, h.oldLines, okOld = parseRange(oldRange)
	_, h.newLines, okNew = parseRange(newRange)
	return h, okOld && okNew
}

func parseRange(s string) (start, count int, ok bool) {
	first, second, has := strings.Cut(s, ",")
	n, err := strconv.ParseUint(first, 10, 31)
	if err != nil {
		return 0, 0, false
	}
	m := uint64(1)
	if has {
		if m, err = strconv.ParseUint(second, 10, 31); err != nil {
			return 0, 0, false
		}
	}
	return int(n), int(m), true
}

// counted reads a body of as many lines as the header states. ok is false
// where the body ends early or goes on.
func (p *parser) counted(head hunkHead) (lines []Line, end int, ok bool) {
	if !head.numbered {
		return nil, 0, false
	}
	oldLeft, newLeft := head.oldLines, head.newLines
	at := p.at
	for oldLeft > 0 || newLeft > 0 {
		if at >= len(p.lines) || strings.HasPrefix(p.header(at), "diff --git ") {
			return nil, 0, false
		}
		l, kind := p.bodyLine(at)
		switch kind {
		case isMarker:
			if len(lines) == 0 {
				return nil, 0, false
			}
			lines[len(lines)-1].NoEnd = true
		case isBody:
			if l.Kind != Add {
				oldLeft--
			}
			if l.Kind != Remove {
				newLeft--
			}
			if oldLeft < 0 || newLeft < 0 {
				return nil, 0, false
			}
			lines = append(lines, l)
		default:
			return nil, 0, false
		}
		at++
	}
	if _, kind := p.bodyLine(at); kind == isMarker && len(lines) > 0 {
		lines[len(lines)-1].NoEnd = true
		at++
	}
	return lines, at, !p.goesOn(at)
}

// goesOn is true where another line of a hunk's body follows.
func (p *parser) goesOn(at int) bool {
	if at >= len(p.lines) || p.header(at) == "" || p.endsBody(at) {
		return false
	}
	_, kind := p.bodyLine(at)
	return kind != isOther
}

// counting reads a body whose header cannot be trusted: up to the next header
// or the end, without the empty lines there.
func (p *parser) counting() (lines []Line, end int, err error) {
	at, kept, keptEnd := p.at, 0, p.at
	for ; at < len(p.lines) && !p.endsBody(at); at++ {
		l, kind := p.bodyLine(at)
		switch kind {
		case isMarker:
			if kept == 0 || kept != len(lines) {
				return nil, 0, syntaxf(at+1, "the marker for a missing final newline follows no line")
			}
			lines[kept-1].NoEnd = true
			keptEnd = at + 1
		case isBody:
			lines = append(lines, l)
			if p.header(at) != "" {
				kept, keptEnd = len(lines), at+1
			}
		default:
			if p.header(at-1) == "" || len(lines) == 0 {
				return lines[:kept], keptEnd, nil
			}
			return nil, 0, syntaxf(at+1, "%s begins with none of space, +, - and \\: write each line of a hunk with one of them in front", quoted(p.header(at)))
		}
	}
	return lines[:kept], keptEnd, nil
}

// endsBody is true where a line can only be a header or a mail's signature.
func (p *parser) endsBody(at int) bool {
	line := p.header(at)
	if p.inEnvelope {
		return strings.HasPrefix(line, "@@") || strings.HasPrefix(line, "*** ")
	}
	return strings.HasPrefix(line, "@@") || strings.HasPrefix(line, "diff --git ") ||
		p.atNames(at) && (strings.HasPrefix(p.header(at+2), "@@") || at+2 >= len(p.lines)) ||
		line == "-- " && at+3 >= len(p.lines) || line == "-- " && strings.HasPrefix(p.header(at+1), "2.")
}

// What a line of a body is.
type bodyKind int

const (
	isOther bodyKind = iota
	isBody
	isMarker
)

// bodyLine reads a line of a hunk. An empty line is an empty context line that
// lost its space.
func (p *parser) bodyLine(at int) (Line, bodyKind) {
	if at >= len(p.lines) {
		return Line{}, isOther
	}
	raw := p.raw(at)
	if raw == "" || raw == "\r" {
		return Line{Kind: Context, CR: raw != "", Line: at + 1}, isBody
	}
	switch Kind(raw[0]) {
	case Context, Remove, Add:
		text, cr := strings.CutSuffix(raw[1:], "\r")
		return Line{Kind: Kind(raw[0]), Text: text, CR: cr, Line: at + 1}, isBody
	case '\\':
		return Line{}, isMarker
	}
	return Line{}, isOther
}
