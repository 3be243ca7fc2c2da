// Package runtime is the tool kernel: the one road that every tool call of a
// model takes, from proposal to recorded result.
//
// A model's call is a proposal, never a command. [Kernel.Do] in kernel.go is
// that road as one straight line; each stage has a file of its name. The types
// carry the order: a [Proposal] is recorded as a [Call]; check makes it a
// checked call; authorize mints a [Grant]; and only a Grant reaches a tool's
// handler. What came of it is a [Result], and it is in the ledger before
// anybody hears of it.
//
// # Glossary
//
// One word, one meaning, in code, documents and API:
//
//   - run: an agent's piece of work, with one workspace, one box, one ledger chain
//   - call: one tool call of a run
//   - tool: a definition that calls name, with its handler
//   - box: the sandbox of a run (package sandbox)
//   - command, process: what runs in a box
//   - artifact: stored output of a call, too large for its result
//   - event: one row of the ledger
//   - fault: a refusal or failure with a code from the closed list
//   - approval: a person's decision on a waiting call
//
// The package knows no Docker, no HTTP and no SQL: drivers come in through
// package sandbox, the ledger through [Journal], and package cmd/sandboxd
// wires them. Types that are recorded (Call, Result, Event, Run) carry the
// JSON names under which the ledger keeps them; the API shows the same bytes.
package runtime
