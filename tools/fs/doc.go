// Package fs has the tools over the files of a run's workspace: file.read,
// file.list, file.stat, file.write, file.edit, file.patch, file.delete,
// file.move, repo.glob and repo.search.
//
// All file work is done in the box, by its agent, with the rights of the box's
// user; nothing here opens a file. What is changed goes through one call of
// sandbox.Files.Apply, which holds every precondition against the very file
// that it replaces and changes all files or none. A tool that refuses has
// written nothing.
//
// An existing file is changed only by someone who shows the hash of what they
// read (baseHash), or, in file.edit, its exact old text. Paths are relative to
// the workspace; where a name is not UTF-8 it goes as pathBase64. Paths that
// the run may not read never appear in what list, glob and search return.
//
// Reading streams in parts of bounded size, so that neither a huge file nor a
// single huge line costs memory. The hash is taken over the bytes that were
// returned from, in the same pass: if a file changes meanwhile, the hash fits
// no state of it, and a change based on it is refused.
package fs
