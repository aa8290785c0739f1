// Package gvisor is a wall that gives each program a kernel of its own: gVisor, which carries out the
// system calls of a sandbox in a process without rights. Package executor decides what a
// sandbox is given, and when it ends.
//
// The command airlock-gvisor (cmd/airlock-gvisor) makes the sandboxes. It is a program
// of its own, beside airlock. The executor starts it once for each sandbox, in new pid and mount
// namespaces, so that the end of that process is the end of all that gVisor has started and
// mounted.
package gvisor
