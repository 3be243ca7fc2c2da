package sandboxtest

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandboxd/sandboxd/sandbox"
)

// walk holds what sandbox.Files promises of trees.
func (s *suite) walk(t *testing.T) {
	box := s.box(t, nil)
	t.Run("a walk visits everything in order", func(t *testing.T) { walkOrder(t, box) })
	t.Run("a walk hands out hashes and content where asked", func(t *testing.T) { walkContent(t, box) })
	t.Run("what cannot be read does not end a walk", func(t *testing.T) { walkErrors(t, box) })
	t.Run("a stream fills the workspace", func(t *testing.T) { fill(t, box) })
	t.Run("a stream that leads out is stopped", func(t *testing.T) { fillEscapes(t, box) })
}

// visited walks and returns the paths.
func visited(t *testing.T, box sandbox.Box, req sandbox.WalkRequest) []string {
	t.Helper()
	var paths []string
	require.NoError(t, box.Files().Walk(t.Context(), req, func(e sandbox.Entry, _ io.Reader) error {
		paths = append(paths, e.Path)
		return nil
	}))
	return paths
}

func walkOrder(t *testing.T, box sandbox.Box) {
	ok(t, box, `mkdir -p w/b/c w/a .git/x && echo 1 >w/b/c/f && echo 2 >w/b/z && echo 3 >w/a.txt && ln -s /etc w/link && ln -s b w/blink && touch .git/x/y`)
	require.Equal(t, []string{"w/a", "w/a.txt", "w/b", "w/b/c", "w/b/c/f", "w/b/z", "w/blink", "w/link"}, visited(t, box, sandbox.WalkRequest{Path: "w"}))
	require.Equal(t, []string{"w/a", "w/a.txt", "w/b", "w/blink", "w/link"}, visited(t, box, sandbox.WalkRequest{Path: "w", Depth: 1}))
	require.Equal(t, []string{"w/a", "w/a.txt", "w/b", "w/b/c", "w/b/z", "w/blink", "w/link"}, visited(t, box, sandbox.WalkRequest{Path: "w", Depth: 2}))
	all := visited(t, box, sandbox.WalkRequest{Prune: []string{".git"}})
	require.Contains(t, all, ".git")
	require.NotContains(t, all, ".git/x")
	for _, path := range []string{"w/link", "../etc", "/etc"} {
		err := box.Files().Walk(t.Context(), sandbox.WalkRequest{Path: path}, func(sandbox.Entry, io.Reader) error { return nil })
		require.Contains(t, []sandbox.Kind{sandbox.KindPathEscapes, sandbox.KindNotDirectory}, sandbox.KindOf(err), "%s: %v", path, err)
	}
	requireKind(t, sandbox.KindNotFound, box.Files().Walk(t.Context(), sandbox.WalkRequest{Path: "missing"}, nil))
	requireKind(t, sandbox.KindNotDirectory, box.Files().Walk(t.Context(), sandbox.WalkRequest{Path: "w/a.txt"}, nil))
	stop := errors.New("enough")
	n := 0
	err := box.Files().Walk(t.Context(), sandbox.WalkRequest{Path: "w"}, func(sandbox.Entry, io.Reader) error { n++; return stop })
	require.ErrorIs(t, err, stop)
	require.Equal(t, 1, n)
	require.Equal(t, "on", ok(t, box, "echo on"))
}

func walkContent(t *testing.T, box sandbox.Box) {
	ok(t, box, "mkdir -p c && printf small >c/small && head -c 3000000 /dev/zero >c/large && mkfifo c/pipe && ln -s small c/ln")
	got := map[string]string{}
	hashes := map[string]string{}
	collect := func(e sandbox.Entry, content io.Reader) error {
		hashes[e.Path] = e.Hash
		if content == nil {
			return nil
		}
		b, err := io.ReadAll(content)
		got[e.Path] = string(b)
		return err
	}
	require.NoError(t, box.Files().Walk(t.Context(), sandbox.WalkRequest{Path: "c", ContentMax: 100, Hash: true}, collect))
	require.Equal(t, map[string]string{"c/small": "small"}, got)
	require.Equal(t, hashOf("small"), hashes["c/small"])
	require.Equal(t, hashOf(strings.Repeat("\x00", 3000000)), hashes["c/large"])
	require.Empty(t, hashes["c/pipe"])
	require.Empty(t, hashes["c/ln"])
	clear(got)
	require.NoError(t, box.Files().Walk(t.Context(), sandbox.WalkRequest{Path: "c", ContentMax: -1}, collect))
	require.Len(t, got["c/large"], 3000000)
	clear(got)
	require.NoError(t, box.Files().Walk(t.Context(), sandbox.WalkRequest{Path: "c", ContentMax: -1, Names: map[string]bool{"c/small": true}}, collect))
	require.Equal(t, map[string]string{"c/small": "small"}, got)
	// A visitor need not read what it is offered.
	require.NoError(t, box.Files().Walk(t.Context(), sandbox.WalkRequest{Path: "c", ContentMax: -1}, func(sandbox.Entry, io.Reader) error { return nil }))
}

func walkErrors(t *testing.T, box sandbox.Box) {
	ok(t, box, "mkdir -p e/closed e/open && touch e/closed/f e/open/f e/secret && chmod 0 e/closed e/secret")
	t.Cleanup(func() { ok(t, box, "chmod 755 e/closed e/secret") })
	errs := map[string]*sandbox.Error{}
	var paths []string
	require.NoError(t, box.Files().Walk(t.Context(), sandbox.WalkRequest{Path: "e", Hash: true}, func(e sandbox.Entry, _ io.Reader) error {
		paths = append(paths, e.Path)
		if e.Err != nil {
			errs[e.Path] = e.Err
		}
		return nil
	}))
	require.Contains(t, paths, "e/open/f")
	require.Contains(t, paths, "e/closed")
	require.Equal(t, sandbox.KindPermission, errs["e/closed"].Kind)
	require.Equal(t, sandbox.KindPermission, errs["e/secret"].Kind)
}

// entries makes a stream for Fill.
func entries(list ...sandbox.Entry) func() (sandbox.Entry, io.Reader, error) {
	return func() (sandbox.Entry, io.Reader, error) {
		if len(list) == 0 {
			return sandbox.Entry{}, nil, io.EOF
		}
		e := list[0]
		list = list[1:]
		if e.Info.Type == sandbox.TypeFile {
			content := strings.Repeat("x", int(e.Info.Bytes))
			return e, strings.NewReader(content), nil
		}
		return e, nil, nil
	}
}

func file(path string, n int64) sandbox.Entry {
	return sandbox.Entry{Path: path, Info: sandbox.FileInfo{Type: sandbox.TypeFile, Bytes: n, Mode: 0o640}}
}

func link(path, target string) sandbox.Entry {
	return sandbox.Entry{Path: path, Info: sandbox.FileInfo{Type: sandbox.TypeSymlink, Target: target}}
}

func fill(t *testing.T, box sandbox.Box) {
	write(t, box, "fill/replaced", "old")
	n, err := box.Files().Fill(t.Context(), entries(
		sandbox.Entry{Path: "fill/dir", Info: sandbox.FileInfo{Type: sandbox.TypeDir, Mode: 0o750}},
		file("fill/dir/f", 5), file("fill/parents/are/made", 0), file("fill/replaced", 3),
		link("fill/link", "dir/f"), file("fill/large", 5<<20)))
	require.NoError(t, err, cause(err))
	require.Equal(t, 6, n)
	require.Equal(t, "750 640 5242880 1000", ok(t, box, "echo $(stat -c %a fill/dir) $(stat -c %a fill/dir/f) $(stat -c %s fill/large) $(stat -c %u fill/large)"))
	require.Equal(t, "xxx xxxxx", ok(t, box, "echo $(cat fill/replaced) $(cat fill/link)"))
	broken := errors.New("the upload broke off")
	_, err = box.Files().Fill(t.Context(), func() (sandbox.Entry, io.Reader, error) { return sandbox.Entry{}, nil, broken })
	require.ErrorIs(t, err, broken)
	require.Equal(t, "on", ok(t, box, "echo on"))
}

func fillEscapes(t *testing.T, box sandbox.Box) {
	ok(t, box, "mkdir -p /tmp/outside fe && ln -sfn /tmp/outside fe/out")
	for name, list := range map[string][]sandbox.Entry{
		"through a link that is there":   {file("fe/ok", 1), file("fe/out/x", 1)},
		"through a link that is brought": {link("fe/brought", "/tmp/outside"), file("fe/brought/x", 1)},
		"through dots":                   {file("fe/ok", 1), file("fe/../../tmp/outside/x", 1)},
		"by an absolute path":            {file("fe/ok", 1), file("/tmp/outside/x", 1)},
	} {
		n, err := box.Files().Fill(t.Context(), entries(list...))
		requireKind(t, sandbox.KindPathEscapes, err, name)
		require.Equal(t, 1, n, "%s: what was made is counted", name)
	}
	require.Empty(t, ok(t, box, "ls -A /tmp/outside"))
	for _, typ := range []sandbox.FileType{sandbox.TypeDevice, sandbox.TypeFIFO, sandbox.TypeSocket, "other"} {
		_, err := box.Files().Fill(t.Context(), entries(sandbox.Entry{Path: "fe/odd", Info: sandbox.FileInfo{Type: typ}}))
		require.Contains(t, []sandbox.Kind{sandbox.KindInvalid, sandbox.KindNotRegular, sandbox.KindUnsupported}, sandbox.KindOf(err), "%s: %v", typ, err)
	}
}

// readOnly holds that a read-only workspace is changed by nobody: the host's not
// at all, the box's own only by what fills it before the work.
func (s *suite) readOnly(t *testing.T) {
	t.Run("a workspace of the box's own can be filled and not changed", s.readOnlyOwn)
	if !s.opt.Apart {
		t.Run("a directory of the host's cannot be changed", s.readOnlyHost)
	}
}

func (s *suite) readOnlyOwn(t *testing.T) {
	box := s.box(t, func(spec *sandbox.Spec) { spec.Workspace.ReadOnly = true })
	n, err := box.Files().Fill(t.Context(), entries(file("given", 5), file("dir/file", 3), link("link", "given")))
	require.NoError(t, err, cause(err))
	require.Equal(t, 3, n)
	require.Equal(t, "xxxxx", ok(t, box, "cat link"))
	unchangeable(t, box)
	_, err = box.Files().Fill(t.Context(), entries(file("../x", 1)))
	requireKind(t, sandbox.KindPathEscapes, err)
	r := sh(t, box, "echo x >/run/sandboxd/fill/given")
	require.NotZero(t, r.Code, "the way that fills it is the agent's alone")
	require.Equal(t, "xxxxx", ok(t, box, "cat given"))
}

func (s *suite) readOnlyHost(t *testing.T) {
	host := t.TempDir()
	require.NoError(t, os.Chmod(host, 0o777))
	given := filepath.Join(host, "given")
	require.NoError(t, os.WriteFile(given, []byte("given"), 0o666))
	require.NoError(t, os.Chmod(given, 0o666))
	d := s.driver(t)
	box, _ := s.create(t, d, func(spec *sandbox.Spec) {
		spec.Workspace = sandbox.Workspace{ReadOnly: true, HostDir: host}
	})
	require.Equal(t, "given", string(read(t, box, "given").Data), "the control: it can be read")
	require.Equal(t, "given", ok(t, box, "cat given"))
	unchangeable(t, box)
	_, err := box.Files().Fill(t.Context(), entries(file("new", 1)))
	requireKind(t, sandbox.KindReadOnly, err)
	b, err := os.ReadFile(given)
	require.NoError(t, err)
	require.Equal(t, "given", string(b))

	// The control: the same directory, not read-only.
	open, _ := s.create(t, d, func(spec *sandbox.Spec) { spec.Workspace = sandbox.Workspace{HostDir: host, Path: "/src"} })
	write(t, open, "given", "changed")
	require.Equal(t, "/src changed", ok(t, open, "echo $(pwd) $(cat given)"))
}

// unchangeable demands that file work and commands are refused for one reason.
// The workspace holds a file called given.
func unchangeable(t *testing.T, box sandbox.Box) {
	t.Helper()
	for _, c := range []sandbox.Change{
		writeChange("given", "x"), writeChange("new", "x"),
		{Op: sandbox.OpDelete, Path: "given"}, {Op: sandbox.OpMove, Path: "given", To: "b"},
	} {
		_, err := apply(box, c)
		requireKind(t, sandbox.KindReadOnly, err, "%+v", c)
	}
	for _, try := range []string{"echo x >given", "touch new", "mkdir new", "chmod 600 given", "ln given x", "rm given", "touch -d 2001-01-01 given"} {
		r := sh(t, box, try)
		require.NotZero(t, r.Code, try)
		require.Contains(t, r.Err, "Read-only file system", try)
	}
}
