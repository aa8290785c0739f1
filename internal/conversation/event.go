package conversation

import (
	"github.com/airlock-run/airlock/workspace"
)

// An Event reports what happened in a turn. It is one of the types below or, of
// what the provider reports while it answers, provider.TextDelta, CodeDelta,
// StepStarted, OutputDelta, StepDone or FileFound. Events come in the order in which
// they happened.
type Event any

// A Sink receives events, one at a time.
type Sink func(Event)

// The events of a turn. It begins with Begun and ends with Ended; CleanedUp
// follows when the conversation is closed.
type (
	// Begun is the first event.
	Begun struct {
		Conversation string `json:"conversation"`
		Turn         int    `json:"turn"`
		Provider     string `json:"provider"`
		Model        string `json:"model"`
		Prompt       string `json:"prompt"`
	}
	// Asked says that the turn waits for an answer.
	Asked struct {
		Ask Ask `json:"question"`
	}
	// Answered says what the answer was.
	Answered struct {
		Question string `json:"question"` // id
		Answer   Answer `json:"answer"`
	}
	// Uploading is how far a file is.
	Uploading struct {
		Name string `json:"name"`
		Sent int64  `json:"sent"`
		Size int64  `json:"size"`
	}
	// Uploaded is a file that is there, or was before (Cached), or travels in
	// the request itself (Inline).
	Uploaded struct {
		Upload Upload `json:"upload"`
		Cached bool   `json:"cached,omitempty"`
		Inline bool   `json:"inline,omitempty"`
	}
	// Downloading is how far an output is.
	Downloading struct {
		Name string `json:"name"`
		Done int64  `json:"done"`
		Size int64  `json:"size"` // -1: not said
	}
	// Collected is what the turn has left: all outputs, those that could not
	// be fetched too, and the names that were promised and not found.
	Collected struct {
		Outputs []Output `json:"outputs"`
		Missing []string `json:"missing,omitempty"`
	}
	// Saved says what became of the outputs.
	Saved struct {
		Outputs []Output           `json:"outputs"`
		Receipt *workspace.Receipt `json:"receipt,omitempty"` // nil: nothing was written
	}
	// ReplyProposed is the reply as a proposal for the project's folder.
	ReplyProposed struct {
		Reply  string  `json:"reply"` // the proposal's id
		Result *Result `json:"result"`
	}
	// ReplySettled says what became of the proposal.
	ReplySettled struct {
		Reply  string  `json:"reply"`
		Result *Result `json:"result"`
	}
	// Notice is something that the person should know, in a sentence.
	Notice struct {
		Text string `json:"text"`
		Hint string `json:"hint,omitempty"`
	}
	// Ended is the last event of a turn. The turn is as it is kept.
	Ended struct {
		Turn *Turn `json:"turn"`
	}
	// CleanedUp says what was done at the provider when the conversation was
	// closed.
	CleanedUp struct {
		Cleaned
	}
)
