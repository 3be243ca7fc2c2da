package fs

import (
	"fmt"
	"io/fs"
	"strconv"
)

// modeString is how permission bits are written in results: four octal digits.
func modeString(m fs.FileMode) string { return fmt.Sprintf("%04o", m.Perm()) }

// parseMode reads permission bits as the schema allows them.
func parseMode(s string) (fs.FileMode, error) {
	n, err := strconv.ParseUint(s, 8, 9)
	return fs.FileMode(n), err
}
