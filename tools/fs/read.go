package fs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"net/http"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tools/fs/text"
)

// The bounds of reading. A file is streamed in parts; beyond maxScanBytes only
// a range is returned, without hash and totals. UTF-16 is held whole.
const (
	firstPart     = 256 << 10
	furtherPart   = 4 << 20
	maxScanBytes  = 64 << 20
	maxUTF16Bytes = 16 << 20
)

// ReadInput are the arguments of file.read.
type ReadInput struct {
	target
	StartLine int64 `json:"startLine"`
	EndLine   int64 `json:"endLine"`
	MaxBytes  int   `json:"maxBytes"`
}

// ReadOutput is the answer of file.read.
type ReadOutput struct {
	name
	Content       string `json:"content"`
	Hash          string `json:"hash,omitempty"`
	StartLine     int64  `json:"startLine"`
	EndLine       int64  `json:"endLine"`
	TotalLines    *int64 `json:"totalLines,omitempty"`
	Bytes         int64  `json:"bytes"`
	Mode          string `json:"mode"`
	Encoding      string `json:"encoding"`
	EOL           string `json:"eol"`
	HasBOM        bool   `json:"hasBom"`
	FinalNewline  bool   `json:"finalNewline"`
	Binary        bool   `json:"binary"`
	MediaType     string `json:"mediaType,omitempty"`
	Truncated     bool   `json:"truncated"`
	NextLine      int64  `json:"nextLine,omitempty"`
	LineTruncated bool   `json:"lineTruncated,omitempty"`
}

func readTool() *runtime.Tool {
	return runtime.NewTool(looking("file.read", "read.json", runtime.Definition{
		Title: "Read a file",
		Description: "Reads a text file, whole or a range of lines, and returns its content as it is (no line numbers), with the hash of the whole file that changing it asks for. " +
			"A long answer is cut at a line; go on with startLine at nextLine. A binary file is described, not shown.",
		AlwaysLoad: true, MaxResultChars: 100_000,
	}), runtime.Handlers[ReadInput]{
		Check: ReadInput.check, Paths: func(in ReadInput) []runtime.PathUse { return in.reads() },
		Activity: func(in ReadInput) string { return "Reading " + nameOf(in.raw()).Path },
		Run:      read,
	})
}

func (in ReadInput) check() *runtime.Fault {
	if fault := in.target.check(); fault != nil {
		return fault
	}
	if in.EndLine != 0 && in.EndLine < in.from() {
		return runtime.Faultf(runtime.CodeSchemaViolation, "/endLine is %d, before startLine %d. Lines count from 1, both ends are included.", in.EndLine, in.from())
	}
	return nil
}

func (in ReadInput) from() int64 { return max(in.StartLine, 1) }

func (in ReadInput) to() int64 {
	if in.EndLine == 0 {
		return math.MaxInt64
	}
	return in.EndLine
}

func read(ctx context.Context, g *runtime.Grant, in ReadInput) (runtime.Output, error) {
	limit := in.MaxBytes
	if limit == 0 {
		limit = g.MaxChars()
	}
	r := &reading{in: in, limit: limit, files: g.Box().Files(), path: in.clean()}
	if err := r.stream(ctx); err != nil {
		return runtime.Output{}, err
	}
	out := r.output()
	return runtime.Output{Structured: out, Message: r.message(out), Truncated: out.Truncated}, nil
}

// reading is one pass over a file.
type reading struct {
	in    ReadInput
	limit int
	files sandbox.Files
	path  string

	info    sandbox.FileInfo
	head    []byte
	scanner *text.Scanner
	window  *text.Window
	hash    string
	whole   bool
	total   int64
}

// stream reads the file part by part, until its end or, in a file that is too
// large for that, until the range is complete.
func (r *reading) stream(ctx context.Context) error {
	first, err := r.part(ctx, 0, firstPart)
	if err != nil {
		return err
	}
	r.info = first.Info
	r.head = bytes.Clone(first.Data[:min(len(first.Data), 512)])
	r.scanner, r.window = text.NewScanner(), text.NewWindow(r.in.from(), r.in.to(), r.limit)
	if mark := text.ByMark(first.Data); mark.IsUTF16() {
		return r.utf16(ctx, mark)
	}
	r.whole = r.info.Bytes <= maxScanBytes
	if !r.whole && r.in.EndLine == 0 && r.in.StartLine == 0 {
		return runtime.Faultf(runtime.CodeFileTooLarge, "%q has %d bytes, too many to read whole. Ask for a range with startLine and endLine, or search it.", nameOf(r.path).Path, r.info.Bytes)
	}
	sum := sha256.New()
	data := first.Data
	for at := int64(0); len(data) > 0; {
		sum.Write(data)
		r.take(data, at)
		at += int64(len(data))
		if at >= r.info.Bytes || !r.whole && (r.window.Done() || at >= maxScanBytes) {
			break
		}
		next, err := r.part(ctx, at, furtherPart)
		if err != nil {
			return err
		}
		data = next.Data
	}
	if !r.whole && !r.window.Done() {
		return runtime.Faultf(runtime.CodeFileTooLarge, "The range was not reached in the first %d bytes of %q. Use a command in the box, such as sed -n, for lines further on.", int64(maxScanBytes), nameOf(r.path).Path)
	}
	if r.whole {
		r.hash, r.total = "sha256:"+hex.EncodeToString(sum.Sum(nil)), r.scanner.Lines()
	}
	return nil
}

// take feeds a part that begins at this offset. In a file that is not read
// whole, what follows the range says nothing of it.
func (r *reading) take(data []byte, at int64) {
	shown := data
	if at == 0 {
		shown = bytes.TrimPrefix(shown, []byte(text.BOM))
	}
	if r.whole {
		r.scanner.Write(data)
		r.window.Write(shown)
		return
	}
	r.window.Write(shown)
	if !r.window.Done() {
		r.scanner.Write(data)
	} else {
		r.scanner.Write(r.window.Content())
	}
}

func (r *reading) part(ctx context.Context, offset, limit int64) (sandbox.ReadResult, error) {
	part, err := r.files.Read(ctx, sandbox.ReadRequest{Path: r.path, Offset: offset, Limit: limit, NoHash: true})
	if err != nil {
		return part, runtime.BoxFault(err)
	}
	return part, nil
}

// utf16 reads a UTF-16 file whole and shows its lines as UTF-8.
func (r *reading) utf16(ctx context.Context, mark text.Encoding) error {
	all, err := r.part(ctx, 0, maxUTF16Bytes+1)
	if err != nil {
		return err
	}
	if len(all.Data) > maxUTF16Bytes {
		return runtime.Faultf(runtime.CodeFileTooLarge, "%q is UTF-16 and has %d bytes; up to %d are converted. Convert it with iconv in the box.", nameOf(r.path).Path, r.info.Bytes, maxUTF16Bytes)
	}
	r.whole, r.hash = true, hashOf(all.Data)
	decoded, ok := text.DecodeUTF16(all.Data, mark)
	if !ok {
		r.scanner.Write([]byte{0}) // damaged: not text that could be kept
		return nil
	}
	r.scanner.Write(decoded)
	r.window.Write(decoded)
	r.total = r.scanner.Lines()
	r.scanner.Mark16(mark)
	return nil
}

func (r *reading) output() ReadOutput {
	out := ReadOutput{
		name: nameOf(r.path), Hash: r.hash, Bytes: r.info.Bytes, Mode: modeString(r.info.Mode),
		Encoding: string(r.scanner.Encoding()), EOL: r.scanner.Endings(), FinalNewline: r.scanner.FinalNewline(),
		HasBOM: r.scanner.Mark() != "" && r.scanner.Encoding() != text.Binary,
	}
	if r.scanner.Encoding() == text.Binary {
		out.Binary, out.MediaType, out.EOL, out.FinalNewline = true, http.DetectContentType(r.head), "none", false
		return out
	}
	if r.whole {
		out.TotalLines = &r.total
	}
	out.Content = r.content()
	out.StartLine, out.EndLine = r.in.from(), r.window.Last()
	if out.Bytes == 0 && r.in.StartLine == 0 {
		out.StartLine = 0
	}
	if r.window.Full() {
		out.Truncated, out.LineTruncated, out.NextLine = true, r.window.Cut(), r.window.Last()+1
	}
	return out
}

// content is what was kept, as UTF-8.
func (r *reading) content() string {
	kept := r.window.Content()
	if e := r.scanner.Encoding(); e != text.Latin1 && e != text.Unknown8Bit {
		return string(kept)
	}
	return string(text.ViewLines(kept))
}

// message says what a model would otherwise have to guess.
func (r *reading) message(out ReadOutput) string {
	switch {
	case out.Binary:
		return fmt.Sprintf("%s is binary (%s, %d bytes) and not shown. Use a command in the box to look into it.", out.Path, out.MediaType, out.Bytes)
	case out.Bytes == 0:
		return out.Path + " is empty."
	case out.LineTruncated:
		return fmt.Sprintf("Line %d is longer than %d bytes and cut; ask for more with maxBytes.", out.StartLine, r.limit)
	case out.Truncated:
		return fmt.Sprintf("Lines %d to %d are shown; go on with startLine %d.", out.StartLine, out.EndLine, out.NextLine)
	case out.EndLine < out.StartLine && out.TotalLines != nil:
		return fmt.Sprintf("The file has %d lines, so there is nothing from line %d on.", *out.TotalLines, out.StartLine)
	}
	return ""
}
