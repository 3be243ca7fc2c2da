package oci

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// etcFiles are the files that a box's /etc has whatever the machine's says.
func etcFiles() map[string]string {

	return map[string]string{
		"passwd":        "root:x:0:0:root:/root:/usr/sbin/nologin\nsandbox:x:1000:1000:sandbox:/home/sandbox:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
		"group":         "root:x:0:\ntty:x:5:\nsandbox:x:1000:\nnogroup:x:65534:\n",
		"hostname":      "sandbox\n",
		"hosts":         "127.0.0.1\tlocalhost sandbox\n::1\tlocalhost ip6-localhost ip6-loopback\n",
		"nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\nprotocols: files\nservices: files\n",
		// Nothing answers there unless the agent does.
		"resolv.conf": "nameserver 127.0.0.1\noptions timeout:2 attempts:1\n",
		"shells":      "/bin/sh\n/bin/bash\n",
	}
}

// etcCopied are patterns of what is copied from the machine's /etc: what
// programs under /usr do not work without, and nothing that says who uses the
// machine or how to get in.
func etcCopied() []string {
	return []string{
		"alternatives", "debian_version", "fonts", "java-*", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "magic",
		"mime.types", "os-release", "perl", "protocols", "python3*", "rpc", "services", "ssl/certs", "ssl/openssl.cnf",
		"ca-certificates/extracted", "pki/ca-trust/extracted", "pki/tls/cert.pem", "pki/tls/certs", "pki/tls/openssl.cnf",
	}
}

// An etc remembers which directory is /etc of boxes, and what the machine's
// looked like when it was made.
type etc struct {
	mu   sync.Mutex
	seen string
	dir  string
}

// glance describes the machine's /etc at the cost of a few calls. Installing
// and removing packages renames files, which shows in the directories.
func glance() string {
	var b strings.Builder
	for _, dir := range []string{"", "alternatives", "ld.so.conf.d", "ssl/certs", "pki/tls/certs", "pki/ca-trust/extracted", "ca-certificates/extracted"} {
		if info, err := os.Stat(filepath.Join("/etc", dir)); err == nil {
			fmt.Fprintln(&b, dir, info.ModTime().UnixNano())
		}
	}
	return b.String()
}

// currentEtc returns a directory that is /etc of boxes, made from the machine's
// present one. It is made anew when that has changed, under another name, for
// there may be boxes with the old one.
func (d *Driver) currentEtc() (string, error) {
	d.etc.mu.Lock()
	defer d.etc.mu.Unlock()
	now := glance()
	if _, err := os.Lstat(d.etc.dir); err == nil && now == d.etc.seen {
		return d.etc.dir, nil
	}
	sources, err := etcSources("/etc")
	if err != nil {
		return "", err
	}
	dir := filepath.Join(d.etcDir(), sources.fingerprint)
	if err := makeOnce(dir, func(work string) error { return makeEtc(work, "/etc", sources.paths) }); err != nil {
		return "", err
	}
	d.etc.seen, d.etc.dir = now, dir
	return dir, nil
}

type sources struct {
	paths       []string // relative to /etc
	fingerprint string
}

// etcSources finds what is to be copied, with a fingerprint of its state.
func etcSources(from string) (sources, error) {
	var s sources
	var b strings.Builder
	fmt.Fprintln(&b, etcFiles()) // maps print in the order of their keys
	for _, pattern := range etcCopied() {
		found, err := filepath.Glob(filepath.Join(from, pattern))
		if err != nil {
			return s, err
		}
		for _, p := range found {
			info, err := os.Lstat(p)
			if err != nil {
				continue // gone since the glob
			}
			rel := strings.TrimPrefix(p, from+"/")
			s.paths = append(s.paths, rel)
			fmt.Fprintln(&b, rel, info.Mode(), info.Size(), info.ModTime().UnixNano())
		}
	}
	slices.Sort(s.paths)
	s.fingerprint = fingerprint(b.String())
	return s, nil
}

// fingerprint names what a description describes.
func fingerprint(description string) string {
	sum := sha256.Sum256([]byte(description))
	return fmt.Sprintf("%x", sum[:12])
}

// makeEtc fills dir.
func makeEtc(dir, from string, paths []string) error {
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // commands read it
		return err
	}
	for _, rel := range paths {
		err := filepath.WalkDir(filepath.Join(from, rel), func(p string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return copyEntry(p, filepath.Join(dir, strings.TrimPrefix(p, from+"/")), e)
		})
		if err != nil {
			return err
		}
	}
	for name, content := range etcFiles() {
		if err := writeFile(filepath.Join(dir, name), []byte(content)); err != nil {
			return err
		}
	}
	return nil
}

// copyEntry copies one directory, link or file that everybody may read. Others
// are left out: what the machine hides from its users stays hidden.
func copyEntry(from, to string, e fs.DirEntry) error {
	info, err := e.Info()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	switch {
	case e.IsDir():
		return os.MkdirAll(to, 0o755)
	case e.Type()&fs.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	case e.Type().IsRegular() && info.Mode()&0o004 != 0:
		content, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		return writeFile(to, content)
	}
	return nil
}

// writeFile writes a file for everybody to read, past the service's umask.
func writeFile(path string, content []byte) error {
	if err := os.WriteFile(path, content, 0o644); err != nil { //nolint:gosec // commands read it
		return err
	}
	return os.Chmod(path, 0o644) //nolint:gosec // commands read it
}
