// Package trick names what makes programs start sooner and could be left out: without a trick all programs
// behave the same and take longer. make bench-ablation measures what each of them pays. For that it builds
// the program with the tag ablation, and names in AIRLOCK_WITHOUT, separated by commas, what a service goes
// without. In every other build On is a constant.
package trick

// The tricks. Each is checked in one place, where its code begins.
const (
	Groups     = "groups"      // control groups are used again
	Namespaces = "namespaces"  // so are namespaces that no program used
	Code       = "code"        // a zygote creates sandboxes in machine code
	Learning   = "learning"    // a waiting sandbox has the memory that programs use
	Plots      = "plots"       // one has the memory that plots use, too
	Lending    = "lending"     // large inputs are lent
	LendingBox = "lending-box" // a sandbox waits for them
	Node       = "node"        // a Node waits
	Commands   = "commands"    // a process waits for a command
	Compiler   = "compiler"    // a compiler waits beside a Node
	Sessions   = "sessions"    // interpreters wait for new live sessions
	Habits     = "habits"      // zygotes import what programs often import
	Records    = "records"     // the records of short runs are written later, several at once
	// Those in programs of package guest:
	IPython    = "ipython"    // cells run less of IPython
	Marks      = "marks"      // the driver of cells reports that no file changed
	Rehearsal  = "rehearsal"  // a waiting interpreter has taken orders
	Specialize = "specialize" // a zygote has run a program until its code is adapted
	Compact    = "compact"    // a zygote fills the gaps between its objects
)
