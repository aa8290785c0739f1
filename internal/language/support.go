package language

import _ "embed"

var (
	//go:embed node.cjs
	nodePrelude []byte
	//go:embed waiting.cjs
	nodeWaiting []byte
)

// A Node that is started before there is a program for it asks for one with a
// call that makes no sense otherwise: it cuts the file HandoffFD, which cannot be
// open, to one of these lengths. It is answered by who started it; without
// such a one the call fails, and Node goes on with the program at once. The
// program is described, as JSON, by the file NodeHanded, open when the last
// call returns. waiting.cjs knows all of these.
const (
	HandoffFD   = 0x6e6f6465
	NodeMayWait = 0 // "am I to wait?"
	NodeWaits   = 1 // "I wait"; returns with the program
	NodeHanded  = 60
)

// NodeProgram is that file.
type NodeProgram struct {
	Args    []string    // of the program
	Env     [][2]string // what is to be set in the environment
	Compile string      // for a shell, before the program runs; may be empty
}

// SupportFiles are the files that the sandbox must have in the folder Support,
// by name.
func SupportFiles() map[string][]byte {
	return map[string][]byte{"node.cjs": nodePrelude, "waiting.cjs": nodeWaiting}
}
