// Package workspace brings files into a run's workspace and tells what came of
// them. It works through [sandbox.Files] alone: what a box holds is read and
// written by the box's agent, with the rights of its unprivileged user.
//
// In: [ImportTar] unpacks an archive, [CopyDir] copies a directory of the host.
// Both look at everything first and write only then, so that an archive with
// one bad entry leaves nothing behind. Out: [ExportTar] writes an archive.
//
// A [Store] also keeps the base of each run: the state of its workspace at the
// start, as one file on the service's disk with a manifest and the content of
// small text files. [Store.Diff] writes what has changed since then in the
// form of git; it reads hashes first, and content only where they differ.
//
// What git keeps for itself (anything named .git) is no part of a base or a
// diff: it changes with every command, and a patch to it cannot be applied.
package workspace
