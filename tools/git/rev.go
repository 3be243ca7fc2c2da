package git

import (
	"context"
	"strings"
	"unicode"

	"github.com/sandboxd/sandboxd/runtime"
)

// checkRev refuses what cannot be a revision, above all what git would take
// for an option or for the rev:path and :/search forms (gitrevisions(7)).
func checkRev(pointer, rev string) *runtime.Fault {
	bad := strings.HasPrefix(rev, "-") || strings.HasPrefix(rev, "^") || strings.Contains(rev, "{/") || strings.Contains(rev, "..") ||
		strings.ContainsFunc(rev, func(r rune) bool {
			return unicode.IsControl(r) || unicode.IsSpace(r) || strings.ContainsRune(`:?*[\`, r)
		})
	if bad || rev == "" {
		return runtime.Faultf(runtime.CodeSchemaViolation, "%s: this is no revision. Give a branch, a tag, a commit id, or a form like HEAD~2.", pointer)
	}
	return nil
}

// A span is what a diff compares: from and to, where to is "" for the
// worktree or index.
type span struct {
	from, to string
	// fork compares with where to left from ("a...b").
	fork bool
}

// readSpan reads "a", "a..b" or "a...b"; a missing side is HEAD.
func readSpan(base string) span {
	if from, to, ok := strings.Cut(base, "..."); ok {
		return span{orHead(from), orHead(to), true}
	}
	if from, to, ok := strings.Cut(base, ".."); ok {
		return span{orHead(from), orHead(to), false}
	}
	return span{from: base}
}

func orHead(rev string) string {
	if rev == "" {
		return "HEAD"
	}
	return rev
}

// checkSpan refuses a span with a side that cannot be a revision.
func checkSpan(pointer string, s span) *runtime.Fault {
	if fault := checkRev(pointer, s.from); fault != nil || s.to == "" {
		return fault
	}
	return checkRev(pointer, s.to)
}

// commit resolves a revision to a commit's id. rev-parse exits with 1 where it
// names nothing, and with 128 where it names no commit, or many.
func (r repo) commit(ctx context.Context, rev string) (string, error) {
	out, err := r.output(ctx, "rev-parse", "--verify", "--quiet", rev+"^{commit}")
	id := strings.TrimSpace(string(out))
	if code := exitCode(err); code == 1 || code == 128 || err == nil && !isObjectID(id) {
		return "", runtime.Faultf(runtime.CodeGitFailed, "The repository has no commit %q. Name a branch, a tag or a commit id that it has.", rev)
	}
	return id, err
}

// isObjectID tells a plain id, of SHA-1 or SHA-256.
func isObjectID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

// head is the id of HEAD's commit, or "" where there is none yet.
func (r repo) head(ctx context.Context) (string, error) {
	out, err := r.output(ctx, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
	if exitCode(err) == 1 {
		return "", nil
	}
	return strings.TrimSpace(string(out)), err
}

// emptyTree is the id of the tree without entries in this repository's hash.
func (r repo) emptyTree(ctx context.Context) (string, error) {
	out, err := r.output(ctx, "hash-object", "-t", "tree", "--stdin")
	return strings.TrimSpace(string(out)), err
}

// resolve makes commit ids of a span.
func (r repo) resolve(ctx context.Context, s span) (from, to string, err error) {
	if from, err = r.commit(ctx, s.from); err != nil || s.to == "" {
		return from, "", err
	}
	if to, err = r.commit(ctx, s.to); err != nil || !s.fork {
		return from, to, err
	}
	out, err := r.output(ctx, "merge-base", from, to)
	if exitCode(err) == 1 {
		return "", "", r.noMergeBase(ctx, s)
	}
	base, _, _ := strings.Cut(string(out), "\n")
	return base, to, err
}

// noMergeBase tells a shallow clone, where the common commit was never
// fetched, from histories that are not related.
func (r repo) noMergeBase(ctx context.Context, s span) error {
	out, err := r.output(ctx, "rev-parse", "--is-shallow-repository")
	if err != nil {
		return err
	}
	why := "their histories are not related"
	if strings.TrimSpace(string(out)) == "true" {
		why = "this is a shallow clone that lacks the older commits"
	}
	return runtime.Faultf(runtime.CodeGitFailed, "%q and %q have no common commit here: %s. Compare the two directly with base %q.", s.from, s.to, why, s.from+".."+s.to)
}
