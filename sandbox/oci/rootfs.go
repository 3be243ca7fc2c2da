package oci

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sandboxd/sandboxd/sandbox"
)

// A hostRoot is what a root filesystem of the machine's own programs consists
// of: read-only binds, and links like /bin -> usr/bin.
type hostRoot struct {
	binds []specs.Mount
	links map[string]string // by name at the top
}

// programDirs hold programs and libraries, and nothing else worth having.
func programDirs() []string {
	return []string{"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"}
}

// skeletonDirs are the empty directories of a root, with their modes. Runtimes
// give a tmpfs the mode of the directory that it covers, whatever its options
// say (runc 1.1 does), so these are the modes in the box.
func skeletonDirs() map[string]fs.FileMode {
	return map[string]fs.FileMode{
		"dev": 0o755, "etc": 0o755, "home": 0o755, "home/sandbox": 0o700, "proc": 0o555, "root": 0o700,
		"run": 0o755, "run/sandboxd": 0o700, "sys": 0o555, "tmp": fs.ModeSticky | 0o777, "var": 0o755,
	}
}

// ownDirs are at the top of every box the box's own; an image's are not shown.
func ownDirs() []string {
	return []string{"boot", "dev", "home", "media", "mnt", "proc", "root", "run", "sys", "tmp"}
}

// lookAtHost finds the machine's directories of programs. Where /bin and its
// like are links into /usr they are links in the box too.
func lookAtHost() (hostRoot, error) {
	h := hostRoot{links: map[string]string{}}
	for _, name := range programDirs() {
		info, err := os.Lstat("/" + name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return h, err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			h.binds = append(h.binds, systemBind("/"+name, "/"+name))
			continue
		}
		if h.links[name], err = os.Readlink("/" + name); err != nil {
			return h, err
		}
	}
	// Binds are not recursive, so what is a file system of its own below
	// (/usr/local on some machines) is bound for itself, after its parent.
	mounted, err := mountPoints()
	if err != nil {
		return h, err
	}
	for _, m := range mounted {
		inside := func(b specs.Mount) bool { return m != b.Source && sandbox.Under(m, b.Source) }
		if slices.ContainsFunc(h.binds, inside) {
			h.binds = append(h.binds, systemBind(m, m))
		}
	}
	return h, nil
}

func systemBind(source, target string) specs.Mount {
	return bind(source, target, true, "nosuid", "nodev")
}

// mountPoints lists where file systems are mounted, parents before children
// (proc_pid_mountinfo(5)).
func mountPoints() ([]string, error) {
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var points []string
	for line := range strings.Lines(string(raw)) {
		if fields := strings.Fields(line); len(fields) > 4 {
			points = append(points, unescapeMount(fields[4]))
		}
	}
	slices.Sort(points)
	return slices.Compact(points), nil
}

// unescapeMount resolves the kernel's octal escapes of blanks and backslashes.
func unescapeMount(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// A system is what fills a box's skeleton.
type system struct {
	binds []specs.Mount
	links map[string]string
}

// system returns the root filesystem of an image, or of the machine, for a box
// that mounts at places.
func (d *Driver) system(image string, places []string) (system, error) {
	etc, err := d.currentEtc()
	if err != nil {
		return system{}, err
	}
	if image == HostImage {
		return system{binds: append(slices.Clone(d.host.binds), systemBind(etc, "/etc")), links: d.host.links}, nil
	}
	return d.imageSystem(image, etc, places)
}

// imagePattern is a name like sandboxd/base or python:3.12.
func imagePattern() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)*(:[A-Za-z0-9][A-Za-z0-9._-]*)?$`)
}

// imageSystem binds the top level of an unpacked image. The image's directory
// itself stays untouched: mount points are made in the box's skeleton.
func (d *Driver) imageSystem(image, etc string, places []string) (system, error) {
	missing := &sandbox.Error{Kind: sandbox.KindImageMissing, Message: fmt.Sprintf(
		"the image %q is not here; unpack its root filesystem to images/%s/rootfs below the data directory, or leave the image out to use the machine's own programs", image, image)}
	if !imagePattern().MatchString(image) {
		return system{}, missing
	}
	root := filepath.Join(d.cfg.DataDir, "images", filepath.FromSlash(image), "rootfs")
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return system{}, missing
	}
	if err != nil {
		return system{}, err
	}
	s := system{links: map[string]string{}}
	for _, e := range entries {
		// What is mounted takes the place of what the image has there.
		if slices.Contains(ownDirs(), e.Name()) || slices.Contains(places, "/"+e.Name()) {
			continue
		}
		if err := s.add(root, e); err != nil {
			return system{}, err
		}
	}
	if err := s.holds(root, places); err != nil {
		return system{}, err
	}
	for _, name := range []string{"hostname", "hosts", "resolv.conf"} {
		if info, err := os.Lstat(filepath.Join(root, "etc", name)); err == nil && info.Mode().IsRegular() {
			s.binds = append(s.binds, systemBind(filepath.Join(etc, name), path.Join("/etc", name)))
		}
	}
	return s, nil
}

// add takes over one entry of an image's top level.
func (s *system) add(root string, e fs.DirEntry) error {
	switch {
	case e.Type()&fs.ModeSymlink != 0:
		target, err := os.Readlink(filepath.Join(root, e.Name()))
		s.links[e.Name()] = target
		return err
	case e.IsDir():
		s.binds = append(s.binds, systemBind(filepath.Join(root, e.Name()), "/"+e.Name()))
	}
	return nil
}

// holds checks that an image has the places in its own directories where
// something is to be mounted: they are read-only, so none can be made.
func (s *system) holds(root string, places []string) error {
	image, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer func() { _ = image.Close() }()
	for _, p := range places {
		inside := func(b specs.Mount) bool { return sandbox.Under(p, b.Destination) }
		if !slices.ContainsFunc(s.binds, inside) {
			continue
		}
		if info, err := image.Stat(strings.TrimPrefix(p, "/")); err != nil || !info.IsDir() {
			return sandbox.Invalidf("the image has no directory %q to mount at; choose a place outside its directories", p)
		}
	}
	return nil
}

// skeleton returns a directory of empty directories and links that is the root
// of boxes with this system and further places to mount at. It is read-only in
// a box and holds every mount point already, so all boxes alike share it.
func (d *Driver) skeleton(s system, places []string) (string, error) {
	// Maps print in the order of their keys.
	dir := filepath.Join(d.rootsDir(), fingerprint(fmt.Sprint(skeletonDirs(), s.links, s.tops(), places)))
	return dir, makeOnce(dir, func(work string) error { return s.makeSkeleton(work, places) })
}

// makeOnce makes dir by filling a directory beside it, unless it is there. Of
// two that do so at once, one is faster and both are content.
func makeOnce(dir string, fill func(work string) error) error {
	if _, err := os.Lstat(dir); err == nil {
		return nil
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), ".new-")
	if err != nil {
		return err
	}
	if err = fill(work); err == nil {
		err = os.Rename(work, dir)
	}
	if err == nil {
		return nil
	}
	err = errors.Join(err, os.RemoveAll(work))
	if _, there := os.Lstat(dir); there == nil {
		return nil
	}
	return err
}

// tops are the places at the top that binds need.
func (s system) tops() []string {
	var tops []string
	for _, b := range s.binds {
		if path.Dir(b.Destination) == "/" {
			tops = append(tops, b.Destination)
		}
	}
	return tops
}

func (s system) makeSkeleton(dir string, places []string) error {
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // it is / of boxes
		return err
	}
	for name, mode := range skeletonDirs() {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(p, 0o755); err != nil {
			return err
		}
		// Mkdir's mode passes through the service's umask.
		if err := os.Chmod(p, mode); err != nil {
			return err
		}
	}
	for name, target := range s.links {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	if !slices.Contains(s.tops(), "/var") {
		if err := os.Symlink("../tmp", filepath.Join(dir, "var", "tmp")); err != nil {
			return err
		}
	}
	for _, p := range append(s.tops(), places...) {
		if err := makePlace(dir, p); err != nil {
			return err
		}
	}
	return nil
}

// makePlace makes the directories down to a mount point. No link is followed:
// one at the top might be absolute and lead out.
func makePlace(dir, place string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	at := ""
	for _, name := range strings.Split(strings.TrimPrefix(place, "/"), "/") {
		at = path.Join(at, name)
		err := root.Mkdir(at, 0o755)
		if err == nil {
			err = root.Chmod(at, 0o755)
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}
