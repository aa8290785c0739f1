// Package linux runs programs in sandboxes made of kernel features: namespaces, control
// groups, landlock, seccomp, and a tmpfs for each sandbox.
//
// It has two halves that share no memory. The service's half (sandbox.go, run.go) has
// no privileges: it sends requests. The executor (executor.go, program.go) is a
// separate process that only creates and runs sandboxes. One socket connects them,
// described in wire.go, over which they pass open files. launcher.go starts executors.
//
// A sandbox is created in this order: a workspace (workspace.go, and collect.go for its
// outputs), a control group (package cgroup), landlock rules (landlock.go), and a list
// of system calls (confine.go). A copy of the executor executes that list (package
// spawn), which ends with the system-call filter (seccomp.go) and the program itself.
// The sandbox's root is created once, in image.go.
//
// Python starts warm: zygote.go keeps an interpreter for each tier (python.go) with its
// packages imported. pool.go keeps a few sandboxes forked from it (waiting.go), and
// warm.go hands them programs. Package guest has their code, which executes the same
// list of system calls as a cold sandbox (spawn/request.go, spawn/spawn_amd64.s). Parts
// of a sandbox that no program has used are reused (namespaces.go, cgroup/reuse.go).
// Node cannot be forked: one or two Nodes wait for their program in a system call
// (notify.go, waiting_process.go), with a compiler beside them (waiting_node.go). For
// all other languages a process waits and executes the command that it receives.
// pool_process.go keeps all of these.
//
// While a program runs in a held workspace, the service can start other processes in
// its sandbox (standing.go, enter.go, terminal.go), connect to its ports (dial.go), and
// read and change the workspace's files (live_files.go, live_watch.go). inside.go and
// inside_files.go are the service's side.
//
// A test can disable every protection by name, and protection_test.go checks that its
// absence is detected.
package linux
