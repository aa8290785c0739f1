package providertest

import "encoding/json"

// Turn is the scripted answer of the model to the next request. Each server sends it in its
// provider's format and creates the files if the provider has files.
type Turn struct {
	Steps []Step
	Text  string // the answer, with its links
	// Calls are calls of functions of the caller. The next Turn of the script answers the
	// replies.
	Calls []Call
	// Pause interrupts the turn after the steps (Anthropic's pause_turn). The next Turn of
	// the script continues it. Providers without pauses continue at once.
	Pause bool
	// Unmentioned leaves out the annotations of files. The files exist.
	Unmentioned bool
	// Refuse ends the turn with the provider's refusal.
	Refuse bool
}

// Step is one execution of code.
type Step struct {
	Language string // "python" when empty
	Code     string
	Stdout   string
	Stderr   string
	Exit     int
	TimedOut bool
	Files    []Made
}

// Made is a file that the code writes.
type Made struct {
	Name string
	Data []byte
	// Shown is a picture that the code also displays: the reply has it twice, once without
	// its name, where the provider does so.
	Shown bool
}

// Call is a call of a function of the caller.
type Call struct {
	Name      string
	Arguments json.RawMessage
}
