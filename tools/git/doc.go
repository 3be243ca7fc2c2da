// Package git holds the tools that look at a git repository in the workspace.
//
// They run the box's own git, in the box, as its user: a repository's
// configuration and attributes name programs that git then runs (filters, diff
// drivers, file system monitors, signature checkers), and no list of switches
// turns all of them off. In the box they reach nothing that a command of the
// run could not. What can be switched off is, so that the answers depend on
// the repository's content and not on its settings; see [repo.command].
//
// The road of each tool is the same: open the repository (its top directory
// must lie in the workspace), resolve revisions to object ids, run git with
// NUL-separated output, parse that in a pure function, leave out what the run
// may not read. Revisions and paths never become options: a revision is
// checked by form and resolved first, paths stand after "--" and are literal.
//
// All paths, in arguments and answers, are relative to the workspace. Text of
// a diff names paths relative to the repository, as git does.
package git
