// Package sandbox says what a box is: the contract between the kernel, which
// decides what may run, and the drivers, which make the place it runs in.
//
// A box is one container that serves one run and is then removed. Inside it a
// small static program, the agent, is PID 1; it starts commands, does file
// work on the workspace as the box's unprivileged user, and kills process
// trees. The service talks to it over one authenticated session.
//
// The package names no technology. A [Driver] makes boxes (sandbox/docker,
// sandbox/oci); a [Box] runs commands and does file work; an [Error] tells
// what the box refused, in a closed list of kinds. What a command did (exit
// code, signal, memory kill) is data in [Exit]; an error means that our side,
// or the request, failed.
//
// Paths given to a box are relative to its workspace, separated by slashes,
// and are byte strings: they need not be valid UTF-8.
package sandbox
