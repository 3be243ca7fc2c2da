package artifact_test

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// smallDisk mounts a file system of 1 MiB, for which it must be root.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		if os.Getenv("CI") == "true" || os.Getenv("SANDBOXD_TEST_REQUIRE") == "1" {
			t.Fatalf("cannot mount a small disk: %v", err)
		}
		t.Logf("NOT PROVED: a really full disk, for which a mount is needed: %v", err)
		return ""
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}
