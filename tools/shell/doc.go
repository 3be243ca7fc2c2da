// Package shell holds the tools that run commands in a run's box.
//
// shell.run starts one program, waits for it and tells what it did. The
// command is given as argv, which reaches the program as it is, or as a script,
// which is one argument of the box's own shell: nothing is quoted, split or
// expanded on the way. Each call is on its own: working directory and
// environment are arguments, and nothing of them outlives the call.
//
// What the command did is data: exit code, signal, memory kill, leftover
// processes. A failure of ours is a fault with a code. Output streams through
// a capture of the kernel, so memory stays bounded whatever a command writes,
// and what came before a timeout or a cancel is kept.
//
// Two things are read off a command before it runs, both to explain early and
// neither to protect (the box does that): a remote target that it plainly
// names ([RemoteTarget]) and whether it only reads or plainly destroys
// ([Weigh]). What cannot be read off for certain is not guessed.
package shell
