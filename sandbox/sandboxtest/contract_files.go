package sandboxtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/sandbox"
)

// files holds what sandbox.Files promises of single files and of changes.
func (s *suite) files(t *testing.T) {
	box := s.box(t, nil)
	for name, test := range map[string]func(*testing.T, sandbox.Box){
		"what is written is read back, whole and in part":       writeRead,
		"a stale base is refused and the file untouched":        staleBase,
		"of writers with one base one wins":                     oneWinner,
		"all changes are made or none":                          allOrNone,
		"files move, with or without new content":               moves,
		"files are deleted":                                     deletes,
		"readers see the old file or the new one":               wholeFiles,
		"no path leads out of the workspace":                    escapes,
		"a symlink that is swapped meanwhile leads nowhere":     swappedLink,
		"only regular files are read and written, without wait": notRegular,
		"the command user's rights hold":                        rights,
		"names are byte strings":                                names,
	} {
		t.Run(name, func(t *testing.T) { test(t, box) })
	}
}

func hashOf(content string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(content))) }

func apply(box sandbox.Box, changes ...sandbox.Change) ([]sandbox.Applied, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return box.Files().Apply(ctx, changes)
}

func writeChange(path, content string) sandbox.Change {
	return sandbox.Change{Op: sandbox.OpWrite, Path: path, Data: []byte(content)}
}

func writeRead(t *testing.T, box sandbox.Box) {
	a := write(t, box, "wr/new/file", "hello\n")
	require.Equal(t, sandbox.Applied{Path: "wr/new/file", Created: true, Hash: hashOf("hello\n"), Bytes: 6}, a)
	require.Equal(t, "hello", ok(t, box, "cat wr/new/file"))
	require.Equal(t, "1000 1000 644", ok(t, box, "stat -c '%u %g %a' wr/new/file"))
	require.Equal(t, "1000 755", ok(t, box, "stat -c '%u %a' wr/new"), "parents are made")
	ok(t, box, "chmod 750 wr/new/file")
	a = write(t, box, "wr/new/file", "0123456789")
	require.False(t, a.Created)
	require.Equal(t, hashOf("hello\n"), a.OldHash)
	require.Equal(t, "750", ok(t, box, "stat -c %a wr/new/file"), "the mode stays")
	_, err := apply(box, sandbox.Change{Op: sandbox.OpWrite, Path: "wr/x", Data: []byte("x"), Mode: 0o700})
	require.NoError(t, err)
	require.Equal(t, "700", ok(t, box, "stat -c %a wr/x"))

	r := read(t, box, "wr/new/file")
	require.Equal(t, "0123456789", string(r.Data))
	require.Equal(t, hashOf("0123456789"), r.Hash)
	require.Equal(t, sandbox.TypeFile, r.Info.Type)
	require.EqualValues(t, 10, r.Info.Bytes)
	for _, c := range []struct {
		offset, limit int64
		want          string
	}{{0, 4, "0123"}, {4, 3, "456"}, {8, 100, "89"}, {10, 5, ""}, {99, 5, ""}, {3, 0, ""}} {
		part, err := box.Files().Read(t.Context(), sandbox.ReadRequest{Path: "wr/new/file", Offset: c.offset, Limit: c.limit})
		require.NoError(t, err)
		require.Equal(t, c.want, string(part.Data))
		require.Equal(t, hashOf("0123456789"), part.Hash, "the hash is of the whole")
	}
	bare, err := box.Files().Read(t.Context(), sandbox.ReadRequest{Path: "wr/new/file", Limit: 10, NoHash: true})
	require.NoError(t, err)
	require.Empty(t, bare.Hash)
	big := bytes.Repeat([]byte{0, 1, 254, 255}, 1<<20)
	_, err = apply(box, sandbox.Change{Op: sandbox.OpWrite, Path: "wr/big", Data: big})
	require.NoError(t, err)
	back, err := box.Files().Read(t.Context(), sandbox.ReadRequest{Path: "wr/big", Limit: 8 << 20})
	require.NoError(t, err)
	require.True(t, bytes.Equal(big, back.Data))
	write(t, box, "wr/empty", "")
	require.Equal(t, hashOf(""), read(t, box, "wr/empty").Hash)
	for _, bad := range []sandbox.ReadRequest{{Path: "wr/x", Offset: -1, Limit: 1}, {Path: "wr/x", Limit: -1}, {Path: "wr/x", Limit: sandbox.MaxReadBytes + 1}} {
		_, err := box.Files().Read(t.Context(), bad)
		requireKind(t, sandbox.KindInvalid, err, "%+v", bad)
	}
}

func staleBase(t *testing.T, box sandbox.Box) {
	write(t, box, "stale", "one")
	change := writeChange("stale", "two")
	change.Base.Hash = hashOf("something else")
	_, err := apply(box, change)
	requireKind(t, sandbox.KindHashMismatch, err)
	var stale *sandbox.Error
	require.ErrorAs(t, err, &stale)
	require.Equal(t, hashOf("one"), stale.CurrentHash)
	require.Equal(t, "one", string(read(t, box, "stale").Data))
	change.Base.Hash = hashOf("one")
	_, err = apply(box, change)
	require.NoError(t, err, "the control: the right base is taken")
	require.Equal(t, "two", string(read(t, box, "stale").Data))

	missing := writeChange("stale-missing", "x")
	missing.Base.Hash = hashOf("one")
	_, err = apply(box, missing)
	require.Contains(t, []sandbox.Kind{sandbox.KindHashMismatch, sandbox.KindNotFound}, sandbox.KindOf(err), "a base demands the file")
	require.Equal(t, "gone", ok(t, box, "test -e stale-missing || echo gone"))
	absent := writeChange("stale", "three")
	absent.Base.Absent = true
	_, err = apply(box, absent)
	require.Contains(t, []sandbox.Kind{sandbox.KindExists, sandbox.KindHashMismatch}, sandbox.KindOf(err), "%v", err)
	require.Equal(t, "two", string(read(t, box, "stale").Data))
}

func oneWinner(t *testing.T, box sandbox.Box) {
	for round := range 10 {
		path := fmt.Sprintf("race/%d", round)
		write(t, box, path, "base")
		const writers = 8
		var group sync.WaitGroup
		errs := make([]error, writers)
		for i := range writers {
			group.Go(func() {
				c := writeChange(path, fmt.Sprint("winner ", i))
				c.Base.Hash = hashOf("base")
				_, errs[i] = apply(box, c)
			})
		}
		group.Wait()
		winner := -1
		for i, err := range errs {
			if err == nil {
				require.Equal(t, -1, winner, "two won")
				winner = i
				continue
			}
			requireKind(t, sandbox.KindHashMismatch, err)
		}
		require.NotEqual(t, -1, winner, "nobody won")
		require.Equal(t, fmt.Sprint("winner ", winner), string(read(t, box, path).Data))
	}
}

func allOrNone(t *testing.T, box sandbox.Box) {
	write(t, box, "all/a", "a")
	write(t, box, "all/b", "b")
	before := ok(t, box, "ls -lR --time-style=full-iso all; cat all/*")
	stale := writeChange("all/b", "B")
	stale.Base.Hash = hashOf("not b")
	for name, last := range map[string]sandbox.Change{
		"a stale base":        stale,
		"a missing file":      {Op: sandbox.OpDelete, Path: "all/missing"},
		"below a file":        writeChange("all/b/c", "x"),
		"onto a file":         {Op: sandbox.OpMove, Path: "all/a", To: "all/b"},
		"out of the box":      writeChange("../x", "x"),
		"an unknown kind":     {Op: "chmod", Path: "all/a"},
		"a directory's place": writeChange("all", "x"),
	} {
		_, err := apply(box,
			writeChange("all/a", "A"),
			writeChange("all/new/deep/file", "new"),
			sandbox.Change{Op: sandbox.OpMove, Path: "all/b", To: "all/moved", Base: sandbox.Precondition{Hash: hashOf("b")}},
			sandbox.Change{Op: sandbox.OpMove, Path: "all/moved", To: "all/b"},
			last)
		require.Error(t, err, name)
		require.NotEqual(t, sandbox.KindInternal, sandbox.KindOf(err), "%s: %v", name, err)
		after := ok(t, box, "ls -lR --time-style=full-iso all; cat all/*")
		require.Equal(t, strip(before), strip(after), name)
	}
	done, err := apply(box, writeChange("all/a", "A"), writeChange("all/new/deep/file", "new"), sandbox.Change{Op: sandbox.OpDelete, Path: "all/b"})
	require.NoError(t, err, "the control: without the last all are made")
	require.Len(t, done, 3)
	require.Equal(t, "Anew", ok(t, box, "cat all/a all/new/deep/file"))
}

// strip leaves out the directory's own times and sizes of a listing: a rolled
// back change may touch those.
func strip(listing string) string {
	var kept []string
	for line := range strings.Lines(listing) {
		if !strings.HasPrefix(line, "d") && !strings.HasPrefix(line, "total") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

func moves(t *testing.T, box sandbox.Box) {
	write(t, box, "mv/a", "content")
	_, err := apply(box, sandbox.Change{Op: sandbox.OpMove, Path: "mv/a", To: "mv/deep/b"})
	require.NoError(t, err)
	require.Equal(t, "content", string(read(t, box, "mv/deep/b").Data))
	_, err = apply(box, sandbox.Change{Op: sandbox.OpMove, Path: "mv/deep/b", To: "mv/c", Data: []byte("changed"), Base: sandbox.Precondition{Hash: hashOf("content")}})
	require.NoError(t, err)
	require.Equal(t, "changed", ok(t, box, "cat mv/c; test ! -e mv/deep/b"))
	write(t, box, "mv/d", "other")
	_, err = apply(box, sandbox.Change{Op: sandbox.OpMove, Path: "mv/c", To: "mv/d"})
	requireKind(t, sandbox.KindExists, err)
	require.Equal(t, "changed other", ok(t, box, "echo $(cat mv/c) $(cat mv/d)"))
	_, err = apply(box, sandbox.Change{Op: sandbox.OpMove, Path: "mv/none", To: "mv/e"})
	requireKind(t, sandbox.KindNotFound, err)
}

func deletes(t *testing.T, box sandbox.Box) {
	write(t, box, "del/a", "content")
	_, err := apply(box, sandbox.Change{Op: sandbox.OpDelete, Path: "del/a", Base: sandbox.Precondition{Hash: hashOf("other")}})
	requireKind(t, sandbox.KindHashMismatch, err)
	done, err := apply(box, sandbox.Change{Op: sandbox.OpDelete, Path: "del/a", Base: sandbox.Precondition{Hash: hashOf("content")}})
	require.NoError(t, err)
	require.Equal(t, hashOf("content"), done[0].OldHash)
	require.Empty(t, done[0].Hash)
	_, err = box.Files().Stat(t.Context(), "del/a")
	requireKind(t, sandbox.KindNotFound, err)
}

// wholeFiles has a command read a file all the time that is replaced.
func wholeFiles(t *testing.T, box sandbox.Box) {
	contents := [2]string{strings.Repeat("a", 100000), strings.Repeat("b", 100000)}
	write(t, box, "whole", contents[0])
	p := start(t, box, sandbox.Command{Argv: []string{"perl", "-e",
		`while (!-e "whole-stop") { open F, "whole" or exit 2; local $/; my $x = <F>; close F; $n++; exit 3 unless length $x == 100000 && $x !~ /ab|ba/ } exit($n > 10 ? 0 : 4)`}})
	for i := range 100 {
		write(t, box, "whole", contents[i%2])
	}
	write(t, box, "whole-stop", "")
	exit, err := wait(t, p)
	require.NoError(t, err)
	require.Zero(t, exit.Code, "2: missing for a moment, 3: a part was seen, 4: hardly read")
}

func escapes(t *testing.T, box sandbox.Box) {
	ok(t, box, `mkdir -p esc/in && echo in >esc/in/file && cd esc && ln -sfn in good && ln -sfn in/file goodfile &&
		ln -sfn /etc abs && ln -sfn ../../../../../etc up && ln -sfn /etc/passwd passwd && ln -sfn loop loop &&
		ln -sfn /proc/self/root root && ln -sfn /workspace/esc/in absin`)
	require.Equal(t, "in\n", string(read(t, box, "esc/good/file").Data), "the control: links inside are followed")
	require.Equal(t, "in\n", string(read(t, box, "esc/goodfile").Data))
	for _, path := range []string{
		"esc/abs/passwd", "esc/up/passwd", "esc/passwd", "esc/root/etc/passwd", "../etc/passwd", "esc/../../etc/passwd", "/etc/passwd",
	} {
		_, err := box.Files().Read(t.Context(), sandbox.ReadRequest{Path: path, Limit: 10})
		requireKind(t, sandbox.KindPathEscapes, err, path)
		_, err = apply(box, writeChange(path, "x"))
		require.Contains(t, []sandbox.Kind{sandbox.KindPathEscapes, sandbox.KindNotRegular}, sandbox.KindOf(err), "%s: %v", path, err)
	}
	for _, path := range []string{"esc/abs/new", "esc/up/new", "../new"} {
		for _, c := range []sandbox.Change{writeChange(path, "x"), {Op: sandbox.OpMove, Path: "esc/in/file", To: path}} {
			_, err := apply(box, c)
			requireKind(t, sandbox.KindPathEscapes, err, path)
		}
	}
	for _, path := range []string{"esc/loop", "esc/in/file\x00", "", strings.Repeat("n", 256), strings.Repeat("d/", 3000)} {
		_, err := box.Files().Read(t.Context(), sandbox.ReadRequest{Path: path, Limit: 10})
		require.NotContains(t, []sandbox.Kind{"", sandbox.KindInternal, sandbox.KindUnavailable}, sandbox.KindOf(err), "%.40q: %v", path, err)
	}
	_, err := apply(box, writeChange("esc/goodfile", "x"))
	requireKind(t, sandbox.KindNotRegular, err, "a link in the place of the file is not written through")
	info, err := box.Files().Stat(t.Context(), "esc/passwd")
	require.NoError(t, err, "what a link is may be asked")
	require.Equal(t, sandbox.TypeSymlink, info.Type)
	require.Equal(t, "/etc/passwd", info.Target)
}

// swappedLink has a command swap a directory for a link to /etc all the time.
func swappedLink(t *testing.T, box sandbox.Box) {
	write(t, box, "swap/a/passwd", "ours")
	ok(t, box, "cd swap && ln -sfn a link && ln -sfn /etc evil")
	p := start(t, box, sandbox.Command{Dir: "swap", Argv: []string{"perl", "-e",
		`while (1) { symlink("/etc", "t") and rename("t", "link"); symlink("a", "t") and rename("t", "link") }`}})
	control := ok(t, box, `cd swap; for i in $(seq 3000); do read -r x <link/passwd; [[ $x = root* ]] && echo astray && break; done; true`)
	require.Equal(t, "astray", control, "the control: a naive reader is led astray")
	ours, refused := 0, 0
	for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end); {
		r, err := box.Files().Read(t.Context(), sandbox.ReadRequest{Path: "swap/link/passwd", Limit: 100})
		if err == nil {
			require.Equal(t, "ours", string(r.Data))
			ours++
			continue
		}
		require.Contains(t, []sandbox.Kind{sandbox.KindPathEscapes, sandbox.KindNotFound}, sandbox.KindOf(err), "%v", err)
		refused++
	}
	require.Positive(t, ours)
	require.Positive(t, refused)
	require.NoError(t, p.Kill(t.Context(), 0))
}

func notRegular(t *testing.T, box sandbox.Box) {
	ok(t, box, `mkdir -p odd/dir && mkfifo odd/fifo && perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local=>"odd/socket", Listen=>1) or die'; cd odd && ln -sfn fifo link`)
	for path, want := range map[string]sandbox.FileType{"odd/dir": sandbox.TypeDir, "odd/fifo": sandbox.TypeFIFO, "odd/socket": sandbox.TypeSocket} {
		info, err := box.Files().Stat(t.Context(), path)
		require.NoError(t, err)
		require.Equal(t, want, info.Type)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for path, want := range map[string]sandbox.Kind{"odd/dir": sandbox.KindIsDirectory, "odd/fifo": sandbox.KindNotRegular, "odd/socket": sandbox.KindNotRegular, "odd/link": sandbox.KindNotRegular} {
		_, err := box.Files().Read(ctx, sandbox.ReadRequest{Path: path, Limit: 10})
		requireKind(t, want, err, path)
		_, err = box.Files().Apply(ctx, []sandbox.Change{writeChange(path, "x")})
		require.Contains(t, []sandbox.Kind{want, sandbox.KindNotRegular}, sandbox.KindOf(err), "%s: %v", path, err)
	}
	require.NoError(t, ctx.Err(), "no FIFO holds anybody up")
	ok(t, box, "test -p odd/fifo -a -S odd/socket -a -d odd/dir; rm -rf odd")
}

func rights(t *testing.T, box sandbox.Box) {
	ok(t, box, "mkdir -p own && echo mine >own/file && chmod 600 own/file")
	require.Equal(t, "mine\n", string(read(t, box, "own/file").Data))
	ok(t, box, "chmod 0 own/file")
	_, err := box.Files().Read(t.Context(), sandbox.ReadRequest{Path: "own/file", Limit: 10})
	requireKind(t, sandbox.KindPermission, err, "file work has no more rights than a command")
	ok(t, box, "chmod 600 own/file && chmod 555 own")
	_, err = apply(box, writeChange("own/new", "x"))
	requireKind(t, sandbox.KindPermission, err)
	ok(t, box, "chmod 755 own")
}

func names(t *testing.T, box sandbox.Box) {
	for _, name := range []string{"spa ce", "new\nline", "\xff\xfe", "-rf", "ünï", "\u202egnp.exe", strings.Repeat("n", 255), "*", "~", "a\\b"} {
		write(t, box, "names/"+name, name)
		require.Equal(t, name, string(read(t, box, "names/"+name).Data), "%q", name)
		require.Equal(t, name, ok(t, box, `cat "names/$1"`, name))
	}
}
