// Package api is the service's edge for programs: REST over the kernel.
//
// A request passes, in this order: a request id and one log line, the guard
// against panics, the check of Host and Origin, the key, the run that the path
// names (another tenant's is as unknown as one that never was), and then one
// handler. A handler decodes once and strictly (package runtime/schema holds
// each body against a JSON file of this package), asks the kernel, and writes
// what the kernel answered. It decides nothing about tools.
//
// Two kinds of failure are kept apart. What a tool did, or was refused, is an
// answer: status 200 with a result that says it. Only a request that never
// became a call is an HTTP error: an RFC 9457 problem with a code of the closed
// list, the request's id, and what to do about it.
//
// The package knows the kernel by the interfaces of kernel.go, and is the one
// that imports the router.
package api
