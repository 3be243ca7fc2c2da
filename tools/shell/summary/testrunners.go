package summary

import (
	"path"
	"regexp"
	"strings"
)

// go build and vet: file.go:line:column: message after a "# package" line; go
// test: "--- FAIL: Test" with indented file_test.go:line: message below it, a
// package's path in the FAIL line at the end; a panic with its stack.
var (
	goCompile  = regexp.MustCompile(`^(?:vet: )?(\S[^:]*\.go):(\d+)(?::(\d+))?: (.+)$`)
	goFail     = regexp.MustCompile(`^\s*--- FAIL: (\S+)`)
	goTestLine = regexp.MustCompile(`^\s{4,}(\S[^:]*\.go):(\d+): ?(.*)$`)
	goPanic    = regexp.MustCompile(`^panic: (.+)$`)
	goStack    = regexp.MustCompile(`^\t(\S.*\.go):(\d+)(?: \+0x[0-9a-f]+)?$`)
	// a module's path ends in its major version from the second on
	majorVersion = regexp.MustCompile(`^v\d+$`)
	goResult     = regexp.MustCompile(`^FAIL\t(\S+)\t`)
)

func parseGoTest(lines []string) []Finding {
	var found []Finding
	test, panicked, start := "", "", 0
	for i, line := range lines {
		if m := goFail.FindStringSubmatch(line); m != nil {
			test = m[1]
		} else if m := goTestLine.FindStringSubmatch(line); m != nil && test != "" {
			found = append(found, Finding{m[1], number(m[2]), 0, test + ": " + goMessage(m[3], lines[i+1:])})
		} else if m := goCompile.FindStringSubmatch(line); m != nil {
			found = append(found, Finding{m[1], number(m[2]), number(m[3]), m[4]})
		} else if m := goPanic.FindStringSubmatch(line); m != nil {
			text, _, _ := strings.Cut(m[1], " [recovered")
			panicked = "panic: " + text
		} else if m := goStack.FindStringSubmatch(line); m != nil && panicked != "" && !strings.Contains(m[1], "/src/runtime/") && !strings.Contains(m[1], "/src/testing/") {
			found, panicked = append(found, Finding{m[1], number(m[2]), 0, panicked}), ""
		} else if m := goResult.FindStringSubmatch(line); m != nil {
			test, start = "", placeInPackage(found, start, m[1])
		}
	}
	return found
}

// placeInPackage puts the directory of a package before the bare file names
// that its tests reported, where the package's path tells it.
func placeInPackage(found []Finding, start int, pkg string) int {
	parts := strings.Split(pkg, "/")
	if strings.Contains(parts[0], ".") && len(parts) > 3 { // host/owner/module[/v2]/dir…
		dir := parts[3:]
		if majorVersion.MatchString(dir[0]) {
			dir = dir[1:]
		}
		for i := start; i < len(found); i++ {
			if !strings.Contains(found[i].File, "/") {
				found[i].File = path.Join(path.Join(dir...), found[i].File)
			}
		}
	}
	return len(found)
}

// goMessage takes the first line that says something: testify begins its
// report with an empty line and an error trace.
func goMessage(first string, rest []string) string {
	if strings.TrimSpace(first) != "" {
		return first
	}
	for _, line := range rest[:min(len(rest), 12)] {
		if _, text, ok := strings.Cut(line, "Error:"); ok && strings.TrimSpace(text) != "" {
			return strings.TrimSpace(text)
		}
	}
	return "failed"
}

// pytest: "E   message" lines end in "file.py:line: Error"; the short summary
// names each failed test.
var (
	pytestPlace = regexp.MustCompile(`^(\S[^:]*\.py):(\d+): (\w[\w.]*)?$`)
	pytestShort = regexp.MustCompile(`^(?:FAILED|ERROR) (\S+?\.py)(?:::(\S+))?(?: - (.+))?$`)
	pytestMark  = regexp.MustCompile(`^=+ (?:FAILURES|ERRORS|short test summary info) =+$`)
)

func parsePytest(lines []string) []Finding {
	var found, short []Finding
	message, marked := "", false
	for _, line := range lines {
		if pytestMark.MatchString(line) {
			marked = true
		} else if text, ok := strings.CutPrefix(line, "E   "); ok && message == "" {
			message = strings.TrimSpace(text)
		} else if m := pytestPlace.FindStringSubmatch(line); m != nil && marked {
			if message != "" {
				found = append(found, Finding{m[1], number(m[2]), 0, message})
			}
			message = ""
		} else if m := pytestShort.FindStringSubmatch(line); m != nil && marked {
			short = append(short, Finding{m[1], 0, 0, strings.Trim(m[2]+": "+m[3], ": ")})
		}
	}
	if len(found) == 0 {
		return short
	}
	return found
}

// unittest, and any Python traceback: the last place named before the
// exception's own line.
var (
	pyPlace     = regexp.MustCompile(`^\s+File "([^"]+)", line (\d+)`)
	pyException = regexp.MustCompile(`^(\w[\w.]*(?:Error|Exception|Exit|Interrupt|Failed|Warning)\b.*)$`)
	pyTest      = regexp.MustCompile(`^(?:FAIL|ERROR): (\w+)`)
)

func parseUnittest(lines []string) []Finding {
	var found []Finding
	var place Finding
	test := ""
	for _, line := range lines {
		if m := pyTest.FindStringSubmatch(line); m != nil {
			test = m[1]
		} else if m := pyPlace.FindStringSubmatch(line); m != nil {
			if place.File == "" || !inPythonLibrary(m[1]) {
				place = Finding{File: m[1], Line: number(m[2])}
			}
		} else if m := pyException.FindStringSubmatch(line); m != nil && place.File != "" {
			place.Message = m[1]
			if test != "" {
				place.Message = test + ": " + m[1]
			}
			found, place, test = append(found, place), Finding{}, ""
		}
	}
	return found
}

// inPythonLibrary tells frames of the library, where a fault rarely is.
func inPythonLibrary(file string) bool {
	return strings.Contains(file, "/lib/python") || strings.Contains(file, "site-packages") || strings.HasPrefix(file, "<frozen")
}

// jest and vitest: "● suite › test", the message, and "at … (file:line:col)".
var (
	jestTest  = regexp.MustCompile(`^\s*● (.+)$`)
	jestPlace = regexp.MustCompile(`^\s+at (?:.*\()?([^()\s]+\.[cm]?[jt]sx?):(\d+):(\d+)\)?$`)
)

func parseJest(lines []string) []Finding {
	var found []Finding
	var test, message string
	for _, line := range lines {
		text := strings.TrimSpace(line)
		if m := jestTest.FindStringSubmatch(line); m != nil {
			test, message = m[1], ""
		} else if m := jestPlace.FindStringSubmatch(line); m != nil && test != "" {
			if !strings.Contains(m[1], "node_modules/") {
				found = append(found, Finding{m[1], number(m[2]), number(m[3]), strings.Trim(test+": "+message, ": ")})
				test, message = "", ""
			}
		} else if test != "" && message == "" && text != "" {
			message = text
		}
	}
	return found
}
