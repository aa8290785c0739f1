// Package linux runs programs in sandboxes made of what the kernel offers:
// namespaces, control groups, landlock, seccomp, and a tmpfs for each.
//
// It has two halves that share no memory. The service's half (sandbox.go,
// run.go) has no rights: it sends requests. The executor (executor.go, program.go) is
// a process of its own that makes sandboxes and does nothing else. Between them is one
// socket, described in wire.go, over which open files are passed. launcher.go starts
// executors.
//
// A sandbox is made in this order: a workspace (workspace.go, and collect.go for
// what is left in it), a control group
// (package cgroup), landlock rules (landlock.go), and a list of system calls
// (confine.go) that a copy of the executor walks (package spawn), down to the filter
// of system calls (seccomp.go) and the program itself. The root that it sees is
// made once, in image.go.
//
// Python starts warm: zygote.go keeps an interpreter for each tier (python.go) with its
// packages imported, and pool.go a few sandboxes forked from it (waiting.go), in which
// warm.go places a program. Package guest has their programs; those have the same list of
// system calls walked as a cold sandbox (spawn/request.go, spawn/spawn_amd64.s). What no
// program has used of a sandbox is reused (namespaces.go, cgroup/reuse.go). Node cannot be
// forked: one or two are started that wait for their program in a system call (notify.go,
// waiting_process.go), with a compiler beside them (waiting_node.go). For all other
// languages a process waits that executes the command which it is handed;
// pool_process.go keeps all of these.
//
// While a program runs in a held workspace, other processes may be started in its
// sandbox (standing.go, enter.go, terminal.go), its ports be reached (dial.go), and the
// workspace's files be read and changed (live_files.go, live_watch.go); inside.go and
// inside_files.go are the service's side of it.
//
// Every protection can be left out by name in a test, and protection_test.go
// shows that it is then missed.
package linux
