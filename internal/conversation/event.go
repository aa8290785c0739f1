package conversation

import (
	"github.com/airlock-run/airlock/provider"
	"github.com/airlock-run/airlock/workspace"
)

// Event is something that happened in a turn: one of the types below, in the
// order in which it happened. As JSON each is an object; Kind is its name.
type Event interface{ Kind() string }

// Sink takes events, one at a time.
type Sink func(Event)

// The events of a turn. It begins with Begun and ends with Ended; Cleaned
// comes when the conversation is closed.
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
	// Text is more of the answer.
	Text struct {
		Text string `json:"text"`
	}
	// Code is more of the code of a step.
	Code struct {
		Step     string `json:"step"`
		Language string `json:"language,omitempty"`
		Code     string `json:"code"`
	}
	// CodeStarted is code that is whole, and runs.
	CodeStarted struct {
		Step provider.Step `json:"step"`
	}
	// CodeOutput is output of running code; Stream is "stdout" or "stderr".
	CodeOutput struct {
		Step   string `json:"step"`
		Stream string `json:"stream"`
		Data   string `json:"data"`
	}
	// CodeEnded is a finished step, with its outcome.
	CodeEnded struct {
		Step provider.Step `json:"step"`
	}
	// Found is a file that the reply speaks of.
	Found struct {
		Name string `json:"name"`
		Size int64  `json:"size"`           // -1: not said
		ID   string `json:"id,omitempty"`   // at the provider
		Step string `json:"step,omitempty"` // that made it, where that is said
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

// Kind implements Event.
func (Begun) Kind() string { return "begun" }

// Kind implements Event.
func (Asked) Kind() string { return "asked" }

// Kind implements Event.
func (Answered) Kind() string { return "answered" }

// Kind implements Event.
func (Uploading) Kind() string { return "uploading" }

// Kind implements Event.
func (Uploaded) Kind() string { return "uploaded" }

// Kind implements Event.
func (Text) Kind() string { return "text" }

// Kind implements Event.
func (Code) Kind() string { return "code" }

// Kind implements Event.
func (CodeStarted) Kind() string { return "code_started" }

// Kind implements Event.
func (CodeOutput) Kind() string { return "code_output" }

// Kind implements Event.
func (CodeEnded) Kind() string { return "code_ended" }

// Kind implements Event.
func (Found) Kind() string { return "found" }

// Kind implements Event.
func (Downloading) Kind() string { return "downloading" }

// Kind implements Event.
func (Collected) Kind() string { return "collected" }

// Kind implements Event.
func (Saved) Kind() string { return "saved" }

// Kind implements Event.
func (ReplyProposed) Kind() string { return "proposed" }

// Kind implements Event.
func (ReplySettled) Kind() string { return "applied" }

// Kind implements Event.
func (Notice) Kind() string { return "notice" }

// Kind implements Event.
func (Ended) Kind() string { return "ended" }

// Kind implements Event.
func (CleanedUp) Kind() string { return "cleaned" }
