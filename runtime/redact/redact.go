package redact

import (
	"bytes"
	"slices"
	"strings"
)

// Config says what to take out.
type Config struct {
	// Values are the run's secrets by name. The name goes into the mark, as
	// "[REDACTED:secret:NAME]"; the value is kept in memory only.
	Values map[string]string
	// HostPaths are absolute paths of the host that nobody in a box should
	// see, such as the engine's data root.
	HostPaths []string
	// KnownFormats takes out tokens and keys of well-known formats too.
	KnownFormats bool
}

// Found says how often a kind of secret was taken out. It never holds a value.
type Found struct {
	Kind  string
	Count int
}

// A Redactor takes secrets out of text. It is immutable and safe for
// concurrent use.
type Redactor struct {
	exact, wrapped             *automaton
	exactTargets, wrapsTargets []target
	kinds                      []string
	tooShort                   []string
}

// A target is what a literal stands for: a value's form, or a format's
// keyword.
type target struct {
	kind   int // index in Redactor.kinds
	length int
	format *format
}

// New builds a redactor.
func New(c Config) *Redactor {
	r := &Redactor{}
	b := builder{r: r, seen: map[string]bool{}}
	names := make([]string, 0, len(c.Values))
	for name := range c.Values {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		b.value(name, c.Values[name])
	}
	for _, path := range c.HostPaths {
		b.hostPath(path)
	}
	if c.KnownFormats {
		for _, f := range knownFormats() {
			b.format(&f)
		}
	}
	r.exact = newAutomaton(b.exact, false)
	r.wrapped = newAutomaton(b.wraps, true)
	return r
}

// TooShort names the values that are too short to be redacted.
func (r *Redactor) TooShort() []string { return slices.Clone(r.tooShort) }

// A builder collects literals.
type builder struct {
	r            *Redactor
	exact, wraps []string
	seen         map[string]bool
}

func (b *builder) kind(name string) int {
	if i := slices.Index(b.r.kinds, name); i >= 0 {
		return i
	}
	b.r.kinds = append(b.r.kinds, name)
	return len(b.r.kinds) - 1
}

func (b *builder) value(name, value string) {
	value = strings.TrimSpace(value)
	if len(value) < MinValueBytes {
		b.r.tooShort = append(b.r.tooShort, name)
		return
	}
	kind := b.kind("secret:" + safeName(name))
	for _, form := range plainForms(value) {
		b.literal(form, target{kind: kind, length: len(form)}, false)
	}
	for _, form := range wrappedForms(value) {
		b.literal(form, target{kind: kind, length: len(form)}, true)
	}
}

func (b *builder) literal(text string, t target, wraps bool) {
	key := text
	if wraps {
		key = "\n" + text
	}
	if b.seen[key] {
		return // another secret or form has it already
	}
	b.seen[key] = true
	if wraps {
		b.wraps = append(b.wraps, text)
		b.r.wrapsTargets = append(b.r.wrapsTargets, t)
		return
	}
	b.exact = append(b.exact, text)
	b.r.exactTargets = append(b.r.exactTargets, t)
}

func (b *builder) hostPath(path string) {
	path = strings.TrimRight(path, "/")
	if path == "" {
		return // the root of every path is no secret
	}
	b.format(&format{kind: "host-path", keywords: []string{path}, match: pathEnd})
}

func (b *builder) format(f *format) {
	kind := b.kind(f.kind)
	for _, word := range f.keywords {
		b.exact = append(b.exact, word)
		b.r.exactTargets = append(b.r.exactTargets, target{kind: kind, length: len(word), format: f})
	}
}

// safeName keeps a name printable and short inside a mark.
func safeName(name string) string {
	const longest = 64
	clean := func(r rune) rune {
		if r < 0x80 && (classWord[byte(r)] || r == '.' || r == '-') {
			return r
		}
		return '_'
	}
	name = strings.Map(clean, name)
	return name[:min(len(name), longest)]
}

// Bytes returns text without its secrets, and what was taken out, by kind in
// order of name. The result shares memory with text when there was nothing.
func (r *Redactor) Bytes(text []byte) ([]byte, []Found) {
	var out bytes.Buffer
	s := stream{r: r}
	// A bytes.Buffer does not fail.
	_ = s.feed(&out, text, true)
	if len(s.counts) == 0 {
		return text, nil
	}
	return out.Bytes(), s.found()
}

// String is Bytes for strings.
func (r *Redactor) String(text string) (string, []Found) {
	out, found := r.Bytes([]byte(text))
	if found == nil {
		return text, nil
	}
	return string(out), found
}
