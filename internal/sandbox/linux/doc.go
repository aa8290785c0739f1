// Package linux is a wall made of kernel features: namespaces, landlock and seccomp. Its
// sandboxes share the kernel of the machine. Package executor decides what a sandbox is
// given, and when it ends.
//
// A sandbox is created in this order: landlock rules (landlock.go), and a list of system
// calls (confine.go, limits.go). A copy of the executor executes that list (package
// spawn), which ends with the system-call filter (seccomp.go) and the program itself.
// cell.go has the first and the last of it.
//
// zygote.go starts an interpreter with its packages imported, and forks sandboxes from
// it. Package guest has their code, which executes the same list of system calls as a
// cold sandbox (spawn/request.go, spawn/spawn_amd64.s). Namespaces that no program has
// used are reused (namespaces.go). Node cannot be forked: it waits for its program in a
// system call (notify.go, waiting_process.go), with a compiler beside it
// (waiting_node.go). For all other languages a process waits and executes the command
// that it receives. enter.go starts processes in a sandbox that is there.
//
// A test can disable every protection by name, and protection_test.go checks that its
// absence is detected.
package linux
