// Package agentproto is the conversation between the service and the agent,
// the small static program that is PID 1 in every box. Both ends import it:
// the service calls [Open] on a connection that a driver made and gets a
// [Session]; the agent (package sandbox/agent) answers.
//
// # The launch contract
//
// A driver that makes a box starts the agent as the container's first process:
//
//	/run/sandboxd/agent --socket /run/sandboxd/agent.sock    service and engine share a host
//	/run/sandboxd/agent --stdio                              session over attached stdin/stdout
//
// Mounts. /run/sandboxd is a directory of the host made for this run, owned by
// root, mode 0700, bound read-write with nosuid and nodev (not noexec: the
// agent's binary is in it). It holds, before the start:
//
//	agent              the static binary, 0755, preferably a read-only bind of its own
//	token              the session's token, 0600 (optional with --stdio)
//	cgroup/unified     mount point: the box's parent in the cgroup2 tree, read-write (optional)
//	cgroup/pids        mount point: the same in the v1 pids hierarchy, read-write (optional)
//	fill               mount point: the workspace once more, read-write, where it is read-only (optional)
//
// The agent creates agent.sock there; [WaitSocket] waits for it without
// polling. /proc must be mounted and be of the box's own pid namespace.
//
// Rights. The agent is uid 0 with exactly CAP_SETUID, CAP_SETGID and CAP_KILL
// in the bounding set (root then has them and no others), no_new_privs set. The container's
// seccomp profile must leave it clone3, execve, openat2, renameat2, pidfd_open,
// pidfd_send_signal, seccomp and prctl; commands get a second filter
// ([Config].Filter) between clone and exec, which closes clone3 again. The
// ulimits of the container are the hard limits: the agent cannot raise them.
//
// Cgroups. [Config].Cgroup2Dir and [Config].PidsCgroupDir name, as paths inside
// the box, the exact directory in which the agent may create command cgroups,
// usually /run/sandboxd/cgroup/unified/<container's cgroup> and
// /run/sandboxd/cgroup/pids/<container's cgroup>. The container's own processes
// live in that directory (or, on pure v2 with a pids controller to delegate, in
// a child of it). The agent makes cmd-<slot>-<n> below the first and cmds/<slot> below
// the second; it never removes the directory itself.
//
// # Conversation
//
// The connection is a yamux session (the service is yamux client); one stream
// carries one operation at a time, and after one that ended cleanly the next. A
// stream is a sequence of frames: a type byte, a length of four bytes, big
// endian, and the payload, which is at most [MaxMessage] bytes. Small messages are CBOR (RFC 8949) with integer keys,
// decoded strictly; file contents and output are raw bytes. The first stream
// is the hello: version, token and [Config]; the agent compares the token in
// constant time and answers with its [Welcome]. The first hello's Config
// counts; a later authenticated session replaces the earlier one, whose
// commands are killed, since nobody can hear them any more.
//
// # Hostility
//
// Commands may have taken over the agent, so the service treats what it reads
// as hostile: a frame of unknown type, out of order, too long, or garbled ends
// the session with sandbox.KindUnavailable, and everything that was under way
// with it. Memory per stream is bounded by yamux's window; yamux pings and
// streams that the service did not ask for are refused.
package agentproto
