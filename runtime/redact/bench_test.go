package redact_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/runtime/redact"
)

// ordinaryOutput looks like what builds and tests print.
func ordinaryOutput() []byte {
	var b strings.Builder
	for i := 0; b.Len() < 1<<20; i++ {
		fmt.Fprintf(&b, "ok  \tgithub.com/example/project/internal/pkg%d\t%d.%03ds coverage: %d%% of statements\n", i, i%9, i%1000, i%100)
		fmt.Fprintf(&b, "2026-01-02T15:04:05Z INFO request served path=/api/v1/things/%d status=200 bytes=%d task=risk-check key=monkey\n", i, i*17)
		fmt.Fprintf(&b, "--- PASS: TestThing/%d (0.00s) see https://example.org/docs/%d\n", i, i)
	}
	return []byte(b.String())
}

func BenchmarkOrdinaryOutput(b *testing.B) {
	text := ordinaryOutput()
	values := map[string]string{}
	for i := range 10 {
		values[fmt.Sprintf("S%d", i)] = fmt.Sprintf("%s-%d", alnum36, i)
	}
	for name, c := range map[string]redact.Config{
		"formats":        {KnownFormats: true, HostPaths: []string{"/var/lib/engine"}},
		"formats+values": {KnownFormats: true, Values: values, HostPaths: []string{"/var/lib/engine"}},
	} {
		b.Run(name, func(b *testing.B) {
			r := redact.New(c)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				w := r.Writer(io.Discard)
				for rest := text; len(rest) > 0; {
					n := min(len(rest), 32<<10)
					if _, err := w.Write(rest[:n]); err != nil {
						b.Fatal(err)
					}
					rest = rest[n:]
				}
				if err := w.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		redact.New(redact.Config{KnownFormats: true, Values: map[string]string{"A": alnum64}})
	}
}

// BenchmarkHostileOutput is text made of keywords, in small writes: the work
// must stay in proportion to the text.
func BenchmarkHostileOutput(b *testing.B) {
	r := redact.New(redact.Config{KnownFormats: true, Values: map[string]string{"A": strings.Repeat("a", 64)}})
	for name, unit := range map[string]string{"jwt": "-eyJ", "urls": "://a:", "value": "a", "keys": "-----BEGIN PRIVATE KEY-----", "bearer": "Bearer aaaa", "lines": "a\n"} {
		text := []byte(strings.Repeat(unit, (128<<10)/len(unit)))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				w := r.Writer(io.Discard)
				for rest := text; len(rest) > 0; {
					n := min(len(rest), 16)
					if _, err := w.Write(rest[:n]); err != nil {
						b.Fatal(err)
					}
					rest = rest[n:]
				}
				if err := w.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkNewManyValues(b *testing.B) {
	values := map[string]string{}
	for i := range 10 {
		values[fmt.Sprintf("S%d", i)] = alnum64[i:] + alnum64[:i] // no common beginnings
	}
	b.ReportAllocs()
	for b.Loop() {
		redact.New(redact.Config{KnownFormats: true, Values: values})
	}
}
