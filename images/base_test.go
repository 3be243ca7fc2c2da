package images_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rootTar returns the base image's root filesystem, built or from the cache.
func rootTar(t *testing.T) string {
	t.Helper()
	if testing.Short() && os.Getenv("SANDBOXD_TEST_REQUIRE") != "1" {
		t.Skip("NOT TESTED: -short builds no image")
	}
	cmd := exec.Command("./build.sh", "--tar", "base")
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		if os.Getenv("CI") == "true" || os.Getenv("SANDBOXD_TEST_REQUIRE") == "1" {
			require.NoError(t, err, log.String())
		}
		t.Skip("NOT TESTED: the base image cannot be built here: " + log.String())
	}
	return strings.TrimSpace(string(out))
}

// scan calls visit for each entry, with the start of its content.
func scan(t *testing.T, file string, visit func(h *tar.Header, head []byte)) {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	archive := tar.NewReader(f)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		head, err := io.ReadAll(io.LimitReader(archive, 64<<10))
		require.NoError(t, err)
		h.Name = path.Join("/", h.Name)
		visit(h, head)
	}
}

func TestTheBaseImageHoldsWhatToolsNeedAndNothingThatRaisesRights(t *testing.T) {
	file := rootTar(t)
	seen := map[string]*tar.Header{}
	content := map[string]string{}
	scan(t, file, func(h *tar.Header, head []byte) {
		seen[h.Name] = h
		content[h.Name] = string(head)
		require.Zero(t, h.Mode&0o6000&^dirSetgid(h), "%s has a set-id bit", h.Name)
		require.NotContains(t, []byte{tar.TypeBlock, tar.TypeChar, tar.TypeFifo}, h.Typeflag, h.Name)
		require.NotContains(t, h.PAXRecords, "SCHILY.xattr.security.capability", h.Name)
	})
	// The control: the programs are there.
	for _, program := range []string{"git", "rg", "python3", "curl", "bash", "jq", "make", "patch", "perl", "ps", "setsid"} {
		require.Contains(t, seen, "/usr/bin/"+program)
	}
	for _, module := range []string{"unittest/__init__.py", "sqlite3/__init__.py", "json/__init__.py", "asyncio/__init__.py"} {
		require.Condition(t, func() bool {
			for name := range seen {
				if strings.HasPrefix(name, "/usr/lib/python3") && strings.HasSuffix(name, "/"+module) {
					return true
				}
			}
			return false
		}, module)
	}
	require.Contains(t, seen, "/etc/ssl/certs/ca-certificates.crt")
	require.Contains(t, content["/etc/passwd"], "\nsandbox:x:1000:1000:")
	for _, dir := range []string{"/workspace", "/home/sandbox"} {
		require.Equal(t, 1000, seen[dir].Uid, dir)
	}
}

// dirSetgid is the one set-id bit that is harmless: files made in such a
// directory inherit its group.
func dirSetgid(h *tar.Header) int64 {
	if h.Typeflag == tar.TypeDir {
		return 0o2000
	}
	return 0
}

func TestTheBaseImageTellsNothingOfTheMachineThatBuiltIt(t *testing.T) {
	file := rootTar(t)
	host, err := os.Hostname()
	require.NoError(t, err)
	scan(t, file, func(h *tar.Header, head []byte) {
		for _, dir := range []string{"/etc/apt/sources.list", "/etc/apt/auth.conf", "/var/lib/apt/lists/", "/var/cache/apt/archives/"} {
			if strings.HasPrefix(h.Name, dir) && h.Typeflag == tar.TypeReg && len(head) > 0 {
				require.NotContains(t, string(head), "http", h.Name)
			}
		}
		if strings.HasPrefix(h.Name, "/etc/apt/apt.conf") || h.Name == "/etc/resolv.conf" || h.Name == "/etc/hosts" {
			require.NotContains(t, strings.ToLower(string(head)), "proxy", h.Name)
			require.NotContains(t, string(head), "nameserver", h.Name)
		}
		if h.Name == "/etc/hostname" && len(host) > 3 {
			require.NotContains(t, string(head), host)
		}
		require.NotEqual(t, "/etc/machine-id", h.Name)
	})
}

func TestBothWaysToBuildTheBaseImageReadOneList(t *testing.T) {
	for _, file := range []string{"base/Dockerfile", "build.sh"} {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Contains(t, string(b), "/packages")
		require.Contains(t, string(b), "setup.sh")
	}
}
