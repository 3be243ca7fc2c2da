package workspace

import (
	"fmt"

	"github.com/sandboxd/sandboxd/runtime"
)

// Limits bound what comes in and what is kept. All sizes are in bytes.
type Limits struct {
	// Entries bounds the files, directories and links of one import; parents
	// that an archive leaves unsaid count. BaseEntries bounds a workspace that is
	// kept as a base or compared with one.
	Entries, BaseEntries int
	// TotalBytes bounds the content of one import, FileBytes one file of it.
	TotalBytes, FileBytes int64
	// Ratio is how many times larger than its compressed form an archive may
	// become; it is looked at once RatioFloor bytes have come out.
	Ratio, RatioFloor int64
	// BaseFileBytes is the largest text file whose content a base keeps and a
	// diff shows; larger ones are compared by hash and named as binary.
	BaseFileBytes int64
	// BaseBytes bounds the content that one base keeps.
	BaseBytes int64
	// DiffBytes bounds the hunks of one diff; files after that are only named.
	DiffBytes int64
}

// DefaultLimits are for repositories of an ordinary size.
func DefaultLimits() Limits {
	return Limits{
		Entries:       200_000,
		BaseEntries:   500_000,
		TotalBytes:    2 << 30,
		FileBytes:     1 << 30,
		Ratio:         200,
		RatioFloor:    16 << 20,
		BaseFileBytes: 1 << 20,
		BaseBytes:     256 << 20,
		DiffBytes:     32 << 20,
	}
}

// Stats tell what came in.
type Stats struct {
	runtime.UploadStats
	// Skipped names what was left out, with the reason.
	Skipped []string
}

func (s *Stats) add(e planned) {
	switch e.kind {
	case kindDir:
		s.Directories++
	case kindSymlink:
		s.Symlinks++
	default:
		s.Files++
		s.Bytes += e.size
	}
}

// refused is the problem of an entry that may not come in. The name is quoted,
// because it is a stranger's.
func refused(name, why string) error {
	return runtime.Problemf(runtime.ProblemBadRequest, "Entry %s: %s Nothing was unpacked.", quoted(name), why)
}

func tooLarge(format string, args ...any) error {
	return runtime.Problemf(runtime.ProblemTooLarge, format+" Nothing was unpacked.", args...)
}

// quoted shows at most the end of a name.
func quoted(name string) string {
	const most = 200
	if len(name) > most {
		return "…" + fmt.Sprintf("%q", name[len(name)-most:])
	}
	return fmt.Sprintf("%q", name)
}
