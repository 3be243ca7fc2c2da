package artifact_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/sandboxd/sandboxd/runtime/artifact"
)

// BenchmarkArtifact is the whole road of large output: redacted, hashed,
// stored, synced, with its head and tail kept.
func BenchmarkArtifact(b *testing.B) {
	var text bytes.Buffer
	for i := 0; text.Len() < 32<<10; i++ {
		fmt.Fprintf(&text, "2026-01-02T15:04:05Z INFO request served path=/api/v1/things/%d status=200 task=risk-check\n", i)
	}
	const size = 64 << 20
	s, err := artifact.Open(b.TempDir(), artifact.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		w, err := s.Create(artifact.Meta{RunID: run}, redacting(map[string]string{"A": "a-secret-of-the-run-0123456789"}))
		if err != nil {
			b.Fatal(err)
		}
		out := io.MultiWriter(artifact.NewCapture(16<<10, 16<<10), w)
		for n := 0; n < size; n += text.Len() {
			if _, err := out.Write(text.Bytes()); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := w.Commit(); err != nil {
			b.Fatal(err)
		}
		if err := s.DeleteRun(run); err != nil {
			b.Fatal(err)
		}
	}
}
