package redact

// An automaton finds every occurrence of its literals in one pass
// (Aho-Corasick, as a full table over the classes of bytes that occur).
type automaton struct {
	class   [256]uint16
	classes uint32
	// next holds, for state and class, the next state times classes.
	next []uint32
	// depth is how much of a literal each state has seen, ends the literals
	// that end there, the longest first.
	depth []int
	ends  [][]int
	// pairs tells which two bytes may begin a literal, first which single one:
	// ordinary text is passed over without walking the table.
	pairs []bool
	first [256]bool
	// wraps makes the automaton pass over a line end inside a literal.
	wraps bool
}

// A cursor is a place in a stream: the state, and how many bytes of line end
// were passed over last.
type cursor struct {
	state uint32
	gap   int
}

// maxGap is the longest line end that is passed over, "\r\n".
const maxGap = 2

func newAutomaton(literals []string, wraps bool) *automaton {
	if len(literals) == 0 {
		return nil
	}
	a := &automaton{wraps: wraps, classes: 1, pairs: make([]bool, 1<<16)}
	for _, lit := range literals {
		a.learn(lit)
	}
	b := newTrie(a, literals)
	b.link()
	return a
}

// learn gives the literal's bytes their classes and notes how it begins.
func (a *automaton) learn(lit string) {
	for i := range len(lit) {
		if a.class[lit[i]] == 0 {
			a.class[lit[i]] = uint16(a.classes)
			a.classes++
		}
	}
	a.first[lit[0]] = true
	if len(lit) == 1 {
		for second := range 256 {
			a.pairs[pair(lit[0], byte(second))] = true
		}
		return
	}
	a.pairs[pair(lit[0], lit[1])] = true
	if a.wraps {
		a.pairs[pair(lit[0], '\n')] = true
		a.pairs[pair(lit[0], '\r')] = true
	}
}

func pair(a, b byte) uint16 { return uint16(a) | uint16(b)<<8 }

// scan walks text[from:] and calls hit with the end of every occurrence.
func (a *automaton) scan(c *cursor, text []byte, from int, hit func(end, literal int)) {
	s, last := c.state, len(text)-1
	for i := from; i <= last; {
		if s == 0 {
			if i = a.ahead(text, i); i > last {
				break
			}
		}
		b := text[i]
		i++
		if a.wraps && s != 0 && (b == '\n' || b == '\r') && c.gap < maxGap {
			c.gap++
			continue
		}
		c.gap = 0
		s = a.next[s+uint32(a.class[b])]
		if s != 0 {
			for _, lit := range a.ends[s/a.classes] {
				hit(i, lit)
			}
		}
	}
	c.state = s
}

// ahead returns the first place from i on where a literal may begin.
func (a *automaton) ahead(text []byte, i int) int {
	pairs := a.pairs
	if len(pairs) != 1<<16 {
		return i
	}
	for ; i+1 < len(text); i++ {
		if pairs[pair(text[i], text[i+1])] {
			return i
		}
	}
	if i < len(text) && !a.first[text[i]] {
		i++
	}
	return i
}

// held is how many bytes at the end of text may belong to a literal that has
// begun.
func (a *automaton) held(c *cursor, text []byte) int {
	want := a.depth[c.state/a.classes]
	if !a.wraps || want == 0 {
		return want
	}
	return a.span(text, len(text), want)
}

// span is how many bytes before end hold n bytes of a literal, the line ends
// within them included.
func (a *automaton) span(text []byte, end, n int) int {
	if !a.wraps {
		return n
	}
	i := end
	for i > 0 && n > 0 {
		i--
		if text[i] != '\n' && text[i] != '\r' {
			n--
		}
	}
	return end - i
}

// A trie is an automaton in the making.
type trie struct {
	a *automaton
	// child has 0 for "none": the root is no one's child.
	child [][]uint32
}

func newTrie(a *automaton, literals []string) *trie {
	t := &trie{a: a}
	t.node(0)
	for id, lit := range literals {
		s := uint32(0)
		for i := range len(lit) {
			k := a.class[lit[i]]
			if t.child[s][k] == 0 {
				t.child[s][k] = t.node(i + 1)
			}
			s = t.child[s][k]
		}
		a.ends[s] = append(a.ends[s], id)
	}
	return t
}

func (t *trie) node(depth int) uint32 {
	t.child = append(t.child, make([]uint32, t.a.classes))
	t.a.depth = append(t.a.depth, depth)
	t.a.ends = append(t.a.ends, nil)
	return uint32(len(t.child) - 1)
}

// link fills the table breadth first: where a state has no child, it goes
// where its longest proper suffix goes.
func (t *trie) link() {
	a := t.a
	a.next = make([]uint32, len(t.child)*int(a.classes))
	fail := make([]uint32, len(t.child))
	queue := []uint32{0}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		if s != 0 {
			a.ends[s] = append(a.ends[s], a.ends[fail[s]]...)
		}
		for k := range a.classes {
			c := t.child[s][k]
			inherited := uint32(0)
			if s != 0 {
				inherited = a.next[fail[s]*a.classes+k]
			}
			if c == 0 {
				a.next[s*a.classes+k] = inherited
				continue
			}
			fail[c] = inherited / a.classes
			a.next[s*a.classes+k] = c * a.classes
			queue = append(queue, c)
		}
	}
}
