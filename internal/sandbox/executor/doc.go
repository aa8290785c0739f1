// Package executor runs programs in sandboxes that a wall makes: it knows no wall.
//
// It has two halves that share no memory. The service's half (sandbox.go, run.go) has
// no privileges: it sends requests. The executor (executor.go, program.go) is a
// separate process that only creates and runs sandboxes. One socket connects them,
// described in wire.go, over which they pass open files. launcher.go starts executors.
//
// The seam is in wall.go. A [Wall] makes a [Cell] from a [Box], which holds what the
// executor provides for a sandbox: the request, a user, a workspace (workspace.go, and
// collect.go for its outputs), a control group (package cgroup). watch.go supervises the
// cell until its last process has ended, and freeze.go, rest.go and poll.go account for
// its processes as the host sees them.
//
// Python starts warm: pool.go keeps a zygote for each tier (python.go), and a few
// sandboxes forked from it (waiting.go). For programs of Node and for all other commands
// pool_process.go keeps processes that wait. The wall makes all of these.
//
// While a program runs in a held workspace (held.go), the service can start other
// processes in its sandbox (entered.go, enter.go, terminal.go), connect to its ports
// (dial.go), and read and change the workspace's files (live_files.go, live_watch.go).
// inside.go and inside_files.go are the service's side.
package executor
