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
// such a one the call fails, and Node runs the program at once. The
// program is described, as JSON, by the file NodeHanded, open when the last
// call returns. waiting.cjs knows all of these.
const (
	HandoffFD   = 0x6e6f6465
	NodeMayWait = 0 // "am I to wait?"
	NodeWaits   = 1 // "I wait"; returns with the program
	NodeHanded  = 60

	// NodeCompiled is the number of a pipe from which it reads how the compilation
	// ended, if a compiler waits beside it: a byte, 0 where there is a result.
	NodeCompiled = 61
)

// CompilerWaits is the argument with which our own compiler waits for a
// CompilerOrder.
const CompilerWaits = "--wait"

// CompilerOrder is what the compiler is told, as JSON, over the socket CompilerOrders,
// with the file that it says its errors to. It writes how it ended to CompilerVerdict.
type CompilerOrder struct{ Source, Result string }

// The numbers of these files.
const (
	CompilerOrders  = 3
	CompilerVerdict = 4
)

// NodeProgram is that file.
type NodeProgram struct {
	Args    []string    // of the program
	Env     [][2]string // what is to be set in the environment
	Compile string      // for a shell, before the program runs; may be empty
	// Compiled says that a compiler that waited has been told to do it.
	Compiled bool
}

// SupportFiles are the files that the sandbox must have in the folder Support,
// by name.
func SupportFiles() map[string][]byte {
	return map[string][]byte{"node.cjs": nodePrelude, "waiting.cjs": nodeWaiting}
}
