// Command airlock-gvisor makes the sandboxes of Airlock's wall gvisor. In each a program has a
// kernel of its own: gVisor's, a process that carries out system calls without passing them on.
//
// It is runsc, gVisor's own command, with fewer commands and one more: cell. Airlock's executor
// starts it; nobody else needs to. It is a program of its own because gVisor starts
// itself again, with other rights each time, and is larger than all of Airlock.
package main

import (
	"os"

	"gvisor.dev/gvisor/runsc/cli"
	"gvisor.dev/gvisor/runsc/cmd"
	"gvisor.dev/gvisor/runsc/cmd/sentry/sentrycmd"
	"gvisor.dev/gvisor/runsc/cmd/util"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == terminalArgument {
		attendTerminal()
		return
	}
	const internal = "internal" // what gVisor starts itself
	cli.Run(nil, map[util.SubCommand]string{
		new(cell):             "",
		new(sentrycmd.Boot):   internal,
		new(cmd.Gofer):        internal,
		new(sentrycmd.Umount): internal,
	}, nil)
}
