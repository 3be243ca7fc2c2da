package summary

import (
	"regexp"
	"strconv"
	"strings"
)

// number reads a line or column; what is out of bounds is unknown.
func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > maxNumber {
		return 0
	}
	return n
}

// gcc, clang and everything that follows GNU's form: file:line:column: error:
// message. Warnings and notes are left out.
var gnuError = regexp.MustCompile(`^([^\s:][^:]*):(\d+):(?:(\d+):)? (?:fatal )?error: (.+)$`)

// linkError is what ld says of a missing symbol.
var linkError = regexp.MustCompile(`^(?:/\S*ld: )?(?:[^\s:]+:)?([^\s:()]+):(?:(\d+)|\([^)]*\)): (undefined reference to .+|multiple definition of .+)$`)

func parseCompiler(lines []string) []Finding {
	var found []Finding
	for _, line := range lines {
		if m := gnuError.FindStringSubmatch(line); m != nil {
			found = append(found, Finding{m[1], number(m[2]), number(m[3]), m[4]})
		} else if m := linkError.FindStringSubmatch(line); m != nil {
			found = append(found, Finding{m[1], number(m[2]), 0, m[3]})
		}
	}
	return found
}

// tsc: file(line,column): error TS2322: message, or, with --pretty,
// file:line:column - error TS2322: message.
var (
	tscPlain  = regexp.MustCompile(`^(\S[^(]*)\((\d+),(\d+)\): error (TS\d+: .+)$`)
	tscPretty = regexp.MustCompile(`^(\S[^:]*):(\d+):(\d+) - error (TS\d+: .+)$`)
)

func parseTSC(lines []string) []Finding {
	var found []Finding
	for _, line := range lines {
		m := tscPlain.FindStringSubmatch(line)
		if m == nil {
			m = tscPretty.FindStringSubmatch(line)
		}
		if m != nil {
			found = append(found, Finding{m[1], number(m[2]), number(m[3]), m[4]})
		}
	}
	return found
}

// javac: File.java:line: error: message; Maven puts it as
// [ERROR] /path/File.java:[line,column] message.
var (
	javacError = regexp.MustCompile(`^(\S.*\.java):(\d+): error: (.+)$`)
	mavenError = regexp.MustCompile(`^\[ERROR\] (\S.*\.(?:java|kt)):\[(\d+),(\d+)\] (.+)$`)
	// surefire: [ERROR]   AppTest.adds:14 expected: <3> but was: <2>
	surefireError = regexp.MustCompile(`^\[ERROR\]   (\w+)\.\w+(?:\([^)]*\))?:(\d+)(?:->\S+)? (.+)$`)
)

func parseJavac(lines []string) []Finding {
	var found []Finding
	for _, line := range lines {
		if m := javacError.FindStringSubmatch(line); m != nil {
			found = append(found, Finding{m[1], number(m[2]), 0, m[3]})
		} else if m := mavenError.FindStringSubmatch(line); m != nil {
			found = append(found, Finding{m[1], number(m[2]), number(m[3]), m[4]})
		} else if m := surefireError.FindStringSubmatch(line); m != nil {
			found = append(found, Finding{m[1] + ".java", number(m[2]), 0, m[3]})
		}
	}
	return found
}

// cargo and rustc say the message first and the place on the next line that
// begins with an arrow. A failed test is a panic with its place.
var (
	rustError = regexp.MustCompile(`^error(?:\[(E\d+)\])?: (.+)$`)
	rustPlace = regexp.MustCompile(`^\s+--> (\S.*):(\d+):(\d+)$`)
	rustPanic = regexp.MustCompile(`^thread '([^']+)' (?:\(\d+\) )?panicked at (\S+):(\d+):(\d+):$`)
	// before Rust 1.73
	rustOldPanic = regexp.MustCompile(`^thread '([^']+)' panicked at '(.+)', (\S+):(\d+):(\d+)$`)
)

func parseCargo(lines []string) []Finding {
	var found []Finding
	message := ""
	for i, line := range lines {
		if m := rustError.FindStringSubmatch(line); m != nil {
			message = strings.TrimSpace(m[1] + " " + m[2])
		} else if m := rustPlace.FindStringSubmatch(line); m != nil && message != "" {
			found, message = append(found, Finding{m[1], number(m[2]), number(m[3]), message}), ""
		} else if m := rustPanic.FindStringSubmatch(line); m != nil {
			text := m[1] + " panicked"
			if i+1 < len(lines) && lines[i+1] != "" {
				text = m[1] + ": " + lines[i+1]
			}
			found = append(found, Finding{m[2], number(m[3]), number(m[4]), text})
		} else if m := rustOldPanic.FindStringSubmatch(line); m != nil {
			found = append(found, Finding{m[3], number(m[4]), number(m[5]), m[1] + ": " + m[2]})
		}
	}
	return found
}
