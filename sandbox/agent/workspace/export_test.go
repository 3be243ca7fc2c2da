package workspace

import "os"

// WithoutOpenat2 makes r resolve paths as on a kernel that has no openat2.
func WithoutOpenat2(r *Root, path string) (err error) {
	r.root, err = os.OpenRoot(path)
	return err
}
