// Command airlock runs untrusted code in a sandbox, from the command line and
// as a service. Its command line is package internal/cli.
package main

import (
	"os"

	"github.com/airlock-run/airlock/internal/cli"
	"github.com/airlock-run/airlock/internal/egress"
	"github.com/airlock-run/airlock/internal/language/typescript"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/gvisor"
	"github.com/airlock-run/airlock/internal/sandbox/linux"
)

// The linker sets these. If they are empty, the Go tool's record counts.
var version, commit, date string

func main() {
	// The same binary is also the executor.
	if len(os.Args) > 1 && os.Args[1] == "executor" {
		os.Exit(executor.Main(os.Args[2:], map[string]func() executor.Wall{"": linux.New, gvisor.Name: gvisor.New}))
	}
	// It is also the egress process, which carries the connections of programs.
	if len(os.Args) > 1 && os.Args[1] == egress.Name {
		os.Exit(egress.Main(os.Args[2:]))
	}
	// Inside a sandbox it is also the compiler.
	if len(os.Args) > 2 && os.Args[1] == "compile" && os.Args[2] == "typescript" {
		os.Exit(typescript.Main(os.Args[3:], os.Stderr))
	}
	os.Exit(cli.Main(cli.Release{Version: version, Commit: commit, Date: date}))
}
