package patch

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/sandboxd/sandboxd/tools/fs/text"
)

// Result is what a section makes of a file.
type Result struct {
	// Data is the new content; nil where the file is deleted.
	Data           []byte
	Hunks          []Placed
	Added, Removed int
	Notes          []string
}

// Placed tells where a hunk was applied.
type Placed struct {
	// Line is its first line in the new file, Offset how far that place is from
	// the one stated, in lines of the old file.
	Line   int `json:"line"`
	Offset int `json:"offset"`
}

// Apply makes the new bytes of one file; src is not changed. The error is a
// *MismatchError.
func (f File) Apply(src []byte) (*Result, error) {
	switch {
	case f.Op == OpDelete && (f.Whole || len(src) == 0):
		return &Result{Removed: bytes.Count(src, []byte(text.LF))}, nil
	case f.Op != OpDelete && len(f.Hunks) == 0:
		return &Result{Data: append([]byte{}, src...)}, nil
	}
	b := newBody(src)
	b.takeMark(f.Hunks)
	places, err := b.locateAll(f)
	if err != nil {
		return nil, err
	}
	w := &writer{body: b, file: f, exact: b.exactEnds(f.Hunks, places), result: &Result{}}
	if err := w.run(places); err != nil {
		return nil, err
	}
	for _, p := range places {
		if p.note != "" {
			w.result.Notes = append(w.result.Notes, p.note)
		}
	}
	if f.Op == OpDelete {
		if len(w.out) > 0 {
			e := &MismatchError{Path: f.Path(), Reason: ReasonIncomplete, PatchLine: f.Line}
			e.Message = fmt.Sprintf("the patch deletes %q, but removes only %d of its %d lines. Remove every line, or use file.delete.", f.Path(), w.result.Removed, len(b.lines))
			return nil, e
		}
		return w.result, nil
	}
	w.result.Data = b.with(w.out)
	return w.result, nil
}

// locateAll places every hunk and refuses what overlaps or is out of order.
func (b *body) locateAll(f File) ([]place, error) {
	places := make([]place, len(f.Hunks))
	for i, h := range f.Hunks {
		from := 0
		if i > 0 {
			from = places[i-1].at + places[i-1].n
		}
		p, e := b.locate(f, i+1, h, from)
		if e != nil {
			return nil, e
		}
		places[i] = p
		if i == 0 {
			continue
		}
		last := places[i-1]
		switch {
		case p.at < last.at || p.at == last.at && p.n == 0 && last.n == 0:
			e = mismatch(f, i+1, h, ReasonOrder)
			e.Message = fmt.Sprintf("hunk %d applies at line %d of %q, before or at hunk %d. Send the hunks in the file's order, each place once.", i+1, p.at+1, f.Path(), i)
			return nil, e
		case p.at < last.at+last.n:
			e = mismatch(f, i+1, h, ReasonOverlap)
			e.Message = fmt.Sprintf("hunk %d (from line %d) overlaps hunk %d (lines %d-%d) of %q. Make one hunk of them.", i+1, p.at+1, i, last.at+1, last.at+last.n, f.Path())
			return nil, e
		}
	}
	return places, nil
}

// exactEnds is true where the patch states endings itself and as the file has
// them: its added lines then say their own ending.
func (b *body) exactEnds(hunks []Hunk, places []place) bool {
	cr := false
	for i, h := range hunks {
		if !b.matches(h.old(), places[i].at, true) {
			return false
		}
		for _, l := range h.Lines {
			cr = cr || l.CR
		}
	}
	return cr
}

// writer puts the new file together.
type writer struct {
	body   *body
	file   File
	exact  bool
	out    []text.Line
	at     int // next line of the old file
	noEnd  int // 1 + index in out of a line that must be the last, or 0
	hunk   int
	result *Result
}

func (w *writer) run(places []place) error {
	for i, h := range w.file.Hunks {
		w.hunk = i
		w.out = append(w.out, w.body.lines[w.at:places[i].at]...)
		w.at = places[i].at
		w.result.Hunks = append(w.result.Hunks, Placed{Line: len(w.out) + 1, Offset: places[i].offset})
		eightBit := w.body.touches8Bit(places[i].at, places[i].n)
		for lines := h.Lines; len(lines) > 0; {
			if lines[0].Kind == Context {
				w.out = append(w.out, w.body.lines[w.at])
				w.at++
				lines = lines[1:]
				continue
			}
			n := blockLength(lines)
			if err := w.block(lines[:n], eightBit); err != nil {
				return err
			}
			lines = lines[n:]
		}
	}
	w.out = append(w.out, w.body.lines[w.at:]...)
	return w.finish()
}

// blockLength counts the removed and added lines up to the next context.
func blockLength(lines []Line) int {
	for i, l := range lines {
		if l.Kind == Context {
			return i
		}
	}
	return len(lines)
}

// block replaces a run of removed lines by a run of added ones.
func (w *writer) block(lines []Line, eightBit bool) error {
	var removed, added []Line
	for _, l := range lines {
		if l.Kind == Remove {
			removed = append(removed, l)
		} else {
			added = append(added, l)
		}
	}
	from := w.at
	w.at += len(removed)
	w.result.Removed += len(removed)
	w.result.Added += len(added)
	for j, l := range added {
		raw, ok := w.body.encode(l, eightBit)
		if !ok {
			return w.unencodable(l)
		}
		if w.body.mark && len(w.out) == 0 {
			raw = []byte(strings.TrimPrefix(string(raw), text.BOM)) // one mark is enough
		}
		line := text.Line{Raw: raw, End: w.ending(l, j, from, removed)}
		if l.NoEnd {
			line.End = text.None
			if l.CR && w.exact {
				line.Raw = append(line.Raw, '\r')
			}
			w.noEnd = len(w.out) + 1
		}
		w.out = append(w.out, line)
	}
	return nil
}

// ending chooses the ending of the j-th added line of a block whose removed
// lines begin at index from.
func (w *writer) ending(l Line, j, from int, removed []Line) string {
	switch {
	case w.exact:
		return l.end()
	case len(removed) > 0:
		k := min(j, len(removed)-1)
		end := w.body.lines[from+k].End
		if end == text.None && removed[k].NoEnd {
			return w.near(from + k) // the patch knew, and adds the newline
		}
		return end
	case len(w.body.lines) == 0:
		return l.end() // a new or empty file takes the patch's own
	}
	return w.near(from)
}

// near is the ending of the line before this index of the old file, else of
// the line at it, else what most lines have.
func (w *writer) near(at int) string {
	for _, i := range []int{at - 1, at} {
		if i >= 0 && i < len(w.body.lines) && w.body.lines[i].End != text.None {
			return w.body.lines[i].End
		}
	}
	return w.body.dominant
}

func (w *writer) unencodable(l Line) error {
	e := mismatch(w.file, w.hunk+1, w.file.Hunks[w.hunk], ReasonUnencodable)
	e.PatchLine = l.Line
	e.Message = fmt.Sprintf("%q is not UTF-8 (%s), and the added text %s holds characters that it cannot store. Use characters up to U+00FF, or write the file anew with file.write.", w.file.Path(), w.body.encoding, quoted(l.Text))
	return e
}

// finish gives an ending to every line but the last.
func (w *writer) finish() error {
	if w.noEnd > 0 && w.noEnd != len(w.out) {
		e := mismatch(w.file, w.hunk+1, w.file.Hunks[w.hunk], ReasonFinalEnd)
		e.Message = fmt.Sprintf("the marker for a missing final newline stands at a line of %q that is not its last. Leave the marker out.", w.file.Path())
		return e
	}
	for i := range w.out[:max(0, len(w.out)-1)] {
		if w.out[i].End == text.None {
			w.out[i].End = w.body.dominant
			if i > 0 {
				w.out[i].End = w.out[i-1].End
			}
			w.result.Notes = append(w.result.Notes, fmt.Sprintf("line %d had no newline at its end and got one", i+1))
		}
	}
	return nil
}
