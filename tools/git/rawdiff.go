package git

import (
	"fmt"
	"strconv"
	"strings"
)

// change is one file of "git diff --raw --numstat -z".
type change struct {
	path, from     string
	status         byte
	added, deleted int
	binary         bool
}

// word says the status letter (git-diff(1), "Raw output format").
func (c change) word() string {
	switch c.status {
	case 'A':
		return "added"
	case 'D':
		return "deleted"
	case 'R':
		return "renamed"
	case 'C':
		return "copied"
	case 'T':
		return "type-changed"
	case 'U':
		return "conflicted"
	}
	return "modified"
}

// parseDiff reads raw records and then the line counts of the same files. On
// error it returns what came before.
func parseDiff(raw []byte) ([]change, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	records := strings.Split(strings.TrimSuffix(string(raw), "\x00"), "\x00")
	var changes []change
	at := map[string]int{}
	for i := 0; i < len(records); {
		if !strings.HasPrefix(records[i], ":") {
			n, err := readCounts(records[i:], changes, at)
			if err != nil {
				return changes, err
			}
			i += n
			continue
		}
		c, n, err := readRaw(records[i:])
		if err != nil {
			return changes, err
		}
		// A conflicted file has a record of its own before the one of its
		// worktree; the conflict is what counts.
		if known, ok := at[c.path]; ok {
			if changes[known].status != 'U' {
				changes[known].status = c.status
			}
		} else {
			at[c.path] = len(changes)
			changes = append(changes, c)
		}
		i += n
	}
	return changes, nil
}

// readRaw reads ":modes ids status" and its one or two paths.
func readRaw(records []string) (change, int, error) {
	fields := strings.Fields(records[0])
	if len(fields) != 5 || fields[4] == "" || len(records) < 2 {
		return change{}, 0, fmt.Errorf("%w: %.60q", errStatus, records[0])
	}
	c := change{status: fields[4][0], path: records[1]}
	if c.status != 'R' && c.status != 'C' {
		return c, 2, nil
	}
	if len(records) < 3 {
		return change{}, 0, fmt.Errorf("%w: rename without its end", errStatus)
	}
	c.from, c.path = records[1], records[2]
	return c, 3, nil
}

// readCounts reads "added TAB deleted TAB path", where a rename's paths follow
// in records of their own, and a binary file has dashes.
func readCounts(records []string, changes []change, at map[string]int) (int, error) {
	parts := strings.SplitN(records[0], "\t", 3)
	if len(parts) != 3 {
		return 0, fmt.Errorf("%w: %.60q", errStatus, records[0])
	}
	path, used := parts[2], 1
	if path == "" {
		if len(records) < 3 {
			return 0, fmt.Errorf("%w: rename without its end", errStatus)
		}
		path, used = records[2], 3
	}
	i, ok := at[path]
	if !ok {
		return used, nil
	}
	if parts[0] == "-" {
		changes[i].binary = true
		return used, nil
	}
	var err1, err2 error
	changes[i].added, err1 = strconv.Atoi(parts[0])
	changes[i].deleted, err2 = strconv.Atoi(parts[1])
	if err1 != nil || err2 != nil {
		return 0, fmt.Errorf("%w: %.60q", errStatus, records[0])
	}
	return used, nil
}
