package conversation

import (
	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/workspace"
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
	// Asked is a question that waits for an answer.
	Asked struct {
		Ask Ask `json:"question"`
	}
	// Answered is the answer to a question.
	Answered struct {
		Question string `json:"question"` // id
		Answer   Answer `json:"answer"`
	}
	// Uploading is the progress of an upload.
	Uploading struct {
		Name string `json:"name"`
		Sent int64  `json:"sent"`
		Size int64  `json:"size"`
	}
	// Uploaded is a file that the provider has, or had before (Cached), or that travels in
	// the request itself (Inline).
	Uploaded struct {
		Upload Upload `json:"upload"`
		Cached bool   `json:"cached,omitempty"`
		Inline bool   `json:"inline,omitempty"`
	}
	// Downloading is the progress of fetching an output.
	Downloading struct {
		Name string `json:"name"`
		Done int64  `json:"done"`
		Size int64  `json:"size"` // -1: not said
	}
	// Collected lists all outputs of the turn, including failed fetches, and the promised
	// names that do not exist.
	Collected struct {
		Outputs []Output `json:"outputs"`
		Missing []string `json:"missing,omitempty"`
	}
	// Saved lists the outputs with their new states.
	Saved struct {
		Outputs []Output           `json:"outputs"`
		Receipt *workspace.Receipt `json:"receipt,omitempty"` // nil: nothing was written
	}
	// ReplyProposed names the reply's proposal for the project's folder.
	ReplyProposed struct {
		Reply  string          `json:"reply"` // the proposal's id
		Result *changes.Result `json:"result"`
	}
	// ReplySettled is the outcome of the proposal.
	ReplySettled struct {
		Reply  string          `json:"reply"`
		Result *changes.Result `json:"result"`
	}
	// Notice is a message to the user, in a sentence.
	Notice struct {
		Text string `json:"text"`
		Hint string `json:"hint,omitempty"`
		// File is the missing file that it is about. The record lists it as missing, and not among the notices.
		File string `json:"file,omitempty"`
	}
	// Ended is the last event of a turn, with its record.
	Ended struct {
		Turn *Turn `json:"turn"`
	}
	// CleanedUp is the result of the clean-up when the conversation was closed.
	CleanedUp struct {
		Cleaned
	}
)
