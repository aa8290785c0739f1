package providertest

import "encoding/json"

// Turn is what the scripted model does when it is asked next. Each server says it
// in its provider's format, with the files made for real where the provider has
// files.
type Turn struct {
	Steps []Step
	Text  string // the answer; links in it are up to the script
	// Calls are functions of the caller that the model calls before it answers: the
	// next Turn of the script is what it does with the replies.
	Calls []Call
	// Pause breaks the turn off after the steps (Anthropic's pause_turn); the next
	// Turn of the script continues. Providers that never pause continue by themselves.
	Pause bool
	// Unmentioned leaves out what the reply would say of its files: annotations.
	// The files are there all the same.
	Unmentioned bool
	// Refuse ends the turn with the provider's way to refuse.
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
	// Shown is a picture that the code displays as well: the reply has it a second
	// time, without its name, where the provider does so.
	Shown bool
}

// Call is a call of a function of the caller.
type Call struct {
	Name      string
	Arguments json.RawMessage
}
