package fs

import (
	"context"
	"io/fs"

	"github.com/sandboxd/sandboxd/runtime"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tools/fs/patch"
)

// step is one section of a patch on its way to a change.
type step struct {
	file   patch.File
	base   string
	src    []byte
	mode   fs.FileMode // of a copy's source
	result *patch.Result
}

// loadSteps reads every file that the patch needs and holds its hash against
// the caller's, before anything is matched.
func loadSteps(ctx context.Context, g *runtime.Grant, in PatchInput, p *patch.Patch) ([]step, error) {
	steps := make([]step, 0, len(p.Files))
	total := 0
	for _, f := range p.Files {
		s := step{file: f}
		if changes(f) {
			s.base = in.base(f.Old)
		}
		if err := s.load(ctx, g); err != nil {
			return nil, err
		}
		if total += len(s.src); total > maxPatchBytes {
			return nil, runtime.Faultf(runtime.CodeFileTooLarge, "The files of this patch have more than %d bytes together. Send it in parts.", maxPatchBytes)
		}
		steps = append(steps, s)
	}
	return steps, nil
}

// maxPatchBytes bounds the files of one patch together: they are held until
// all of them fit.
const maxPatchBytes = 64 << 20

func (s *step) load(ctx context.Context, g *runtime.Grant) error {
	if s.file.Op == patch.OpCreate {
		return nil
	}
	read := load
	if len(s.file.Hunks) > 0 {
		read = loadText
	}
	data, hash, err := read(ctx, g, s.file.Old)
	if err != nil {
		return err
	}
	if s.base != "" && s.base != hash {
		return stalePatch(s.file, data, hash)
	}
	s.src = data
	if s.file.Op != patch.OpCopy {
		return nil
	}
	info, err := g.Box().Files().Stat(ctx, s.file.Old)
	if err != nil {
		return runtime.BoxFault(err)
	}
	s.mode = info.Mode
	return nil
}

// stalePatch also tells whether the patch would fit the file as it is now: a
// caller that knows need not make it anew.
func stalePatch(f patch.File, now []byte, hash string) *runtime.Fault {
	fault := stale(f.Old, hash)
	_, err := f.Apply(now)
	if structured, ok := fault.Structured.(map[string]any); ok {
		structured["patchFits"] = err == nil
	}
	if err == nil {
		fault.Message += " The same patch would fit the file as it is now."
	}
	return fault
}

// change applies the section to what was read.
func (s *step) change() (sandbox.Change, error) {
	f := s.file
	r, err := f.Apply(s.src)
	if err != nil {
		return sandbox.Change{}, err
	}
	s.result = r
	c := sandbox.Change{Op: sandbox.OpWrite, Path: f.New, Data: r.Data, Mode: f.Mode}
	switch f.Op {
	case patch.OpCreate:
		c.Base.Absent = true
	case patch.OpCopy:
		c.Base.Absent = true
		if c.Mode == 0 {
			c.Mode = s.mode
		}
	case patch.OpDelete:
		c = sandbox.Change{Op: sandbox.OpDelete, Path: f.Old}
	case patch.OpRename:
		c.Op, c.Path, c.To = sandbox.OpMove, f.Old, f.New
		if len(f.Hunks) == 0 {
			c.Data = nil
		}
	}
	c.Base.Hash = s.base
	return c, nil
}

func (o *PatchOutput) add(s *step, a sandbox.Applied) {
	f := PatchedFile{
		name: nameOf(s.file.Path()), Op: s.file.Op, Hash: a.Hash, OldHash: a.OldHash, Bytes: a.Bytes,
		Created: s.file.Op == patch.OpCreate || s.file.Op == patch.OpCopy, Deleted: s.file.Op == patch.OpDelete,
		Hunks: append([]patch.Placed{}, s.result.Hunks...), AddedLines: s.result.Added, RemovedLines: s.result.Removed,
	}
	if s.file.Op == patch.OpRename {
		f.MovedFrom = nameOf(s.file.Old).Path
	}
	for _, n := range s.result.Notes {
		o.Notes = append(o.Notes, f.Path+": "+n)
	}
	o.Files = append(o.Files, f)
	o.AddedLines += s.result.Added
	o.RemovedLines += s.result.Removed
}
