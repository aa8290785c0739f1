package provider

import (
	"context"
	"encoding/json"
	"iter"
	"sync/atomic"
	"time"
)

// Tool is the tool with which a model runs code.
type Tool string

// The tools. ToolAuto is the first of
// Capabilities.Tools that the model supports.
const (
	ToolAuto   Tool = "auto"
	ToolPython Tool = "python"
	ToolShell  Tool = "shell"
	ToolNone   Tool = "none"
)

// RunRequest is one turn of a conversation.
type RunRequest struct {
	Model string
	// Instructions are the system instructions. The caller has added those of
	// [Instruct].
	Instructions string
	// Input is the conversation so far. Its last turn is to be answered.
	Input []Turn
	// Files are those of the last turn. Files of earlier turns are in the session, or
	// in the turns' Files where there is none.
	Files []Attachment
	// Session is the session to run in; empty lets the provider choose.
	Session string
	Tool    Tool
	// ToolVersion pins the provider's version of the tool ("code_execution_20250825");
	// empty takes the one that this package was tested with.
	ToolVersion string
	Network     Network
	Functions   []Function
	Schema      json.RawMessage // of the answer; empty: free text
	SchemaName  string
	// MaxCalls bounds the requests of one turn (paused turns, function calls);
	// 0 takes the provider's default.
	MaxCalls int
	// MaxTokens of the answer; 0 takes the provider's default.
	MaxTokens int
}

// Attachment is a file that the model may work with.
type Attachment struct {
	File FileInfo `json:"file"`
	// See also shows it to the model itself (an image, a PDF), not only to its code.
	See bool `json:"see,omitempty"`
}

// Role is the role of a turn.
type Role string

// The roles.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

// Turn is a message of a conversation.
type Turn struct {
	Role  Role         `json:"role"`
	Text  string       `json:"text,omitempty"`
	Files []Attachment `json:"files,omitempty"`
	// Raw is the turn in the provider's format (items, blocks, parts with their
	// signatures), which later requests repeat. Only the provider of that name uses
	// it; others use Text.
	Raw      json.RawMessage `json:"raw,omitempty"`
	Provider string          `json:"provider,omitempty"`
}

// Function is a function of the caller that the model may call.
type Function struct {
	Name        string
	Description string
	Parameters  json.RawMessage // JSON schema of an object
	// Call runs while the model waits. An error ends the turn; failures for the model
	// go into the reply.
	Call func(ctx context.Context, arguments json.RawMessage) (FunctionReply, error)
}

// FunctionReply is a function's reply to the model.
type FunctionReply struct {
	Text  string
	Files []Attachment // added to the session before the model continues
}

// RunResult is the result of a turn.
type RunResult struct {
	Text  string `json:"text"`
	Steps []Step `json:"steps,omitempty"`
	// Artifacts are the files that the reply names: citations, ids in result blocks,
	// inline parts. The [Collector] also finds other files.
	Artifacts []Artifact `json:"artifacts,omitempty"`
	// Sessions are those that the reply names, in order; the next turn uses the last.
	Sessions []Session `json:"sessions,omitempty"`
	Stop     Stop      `json:"stop"`
	// StopDetail is the provider's value, where it says more than Stop.
	StopDetail string          `json:"stop_detail,omitempty"`
	Usage      Usage           `json:"usage"`
	Model      string          `json:"model,omitempty"` // that answered
	RequestID  string          `json:"request_id,omitempty"`
	Calls      int             `json:"calls"` // requests that the turn took
	Raw        json.RawMessage `json:"raw,omitempty"`
	// Next is appended to Input for the next turn.
	Next []Turn `json:"next,omitempty"`
}

// Stop is the reason why the model stopped.
type Stop string

// The reasons why the model stopped.
const (
	StopDone    Stop = "done"
	StopLength  Stop = "length"  // no more tokens
	StopCalls   Stop = "calls"   // MaxCalls
	StopRefused Stop = "refused" // filter, refusal
	StopTime    Stop = "time"
	StopError   Stop = "error"
)

// Usage counts tokens.
type Usage struct {
	Input  int64 `json:"input"`
	Output int64 `json:"output"`
	Cached int64 `json:"cached,omitempty"`
}

// Add adds v to u.
func (u *Usage) Add(v Usage) {
	u.Input += v.Input
	u.Output += v.Output
	u.Cached += v.Cached
}

// Step is one execution of code.
type Step struct {
	ID       string    `json:"id"`
	Tool     string    `json:"tool,omitempty"` // the provider's name of it
	Language string    `json:"language,omitempty"`
	Code     string    `json:"code"`
	Stdout   string    `json:"stdout,omitempty"` // and stderr, where the provider mixes them
	Stderr   string    `json:"stderr,omitempty"`
	ExitCode *int      `json:"exit_code,omitempty"`
	Outcome  Outcome   `json:"outcome"`
	Detail   string    `json:"detail,omitempty"` // the provider's value of the outcome
	Started  time.Time `json:"started,omitzero"`
	Ended    time.Time `json:"ended,omitzero"`
}

// Outcome is how an execution ended.
type Outcome string

// The outcomes.
const (
	OutcomeOK             Outcome = "OK"
	OutcomeFailed         Outcome = "FAILED"
	OutcomeTimeout        Outcome = "DEADLINE_EXCEEDED"
	OutcomeUnavailable    Outcome = "UNAVAILABLE"
	OutcomeCancelled      Outcome = "CANCELLED" // the user stopped it
	OutcomeOutputTooLarge Outcome = "OUTPUT_TOO_LARGE"
	OutcomeUnknown        Outcome = "UNKNOWN"
)

// Evidence is a reason to believe that a file exists.
type Evidence string

// The kinds of evidence, from the best to the weakest.
const (
	ByListing     Evidence = "listing"
	ByResultBlock Evidence = "result_block"
	ByAnnotation  Evidence = "annotation"
	ByInline      Evidence = "inline"
	ByStdout      Evidence = "stdout"
	ByLinkText    Evidence = "link_text"
)

// Artifact is a file that the code made.
type Artifact struct {
	Ref     FileRef    `json:"ref"`
	Name    string     `json:"name"` // cleaned: a base name that every file system takes
	MIME    string     `json:"mime,omitempty"`
	Size    int64      `json:"size"`             // -1: not known yet
	SHA256  string     `json:"sha256,omitempty"` // of the fetched bytes, hex
	FoundBy []Evidence `json:"found_by"`
	StepID  string     `json:"step_id,omitempty"`
	// Created helps to choose between two files of one path.
	Created time.Time `json:"created,omitzero"`
}

// Sink receives events.
type Sink func(Event)

// Event is something that happened during a turn: one of the types below.
type Event interface{ event() }

// The events.
type (
	// TextDelta is more of the answer.
	TextDelta struct{ Text string }
	// CodeDelta is more of the code of a step.
	CodeDelta struct{ StepID, Language, Code string }
	// StepStarted says that the code is complete and runs.
	StepStarted struct{ Step Step }
	// OutputDelta is output of running code; Stream is "stdout" or "stderr".
	OutputDelta struct{ StepID, Stream, Data string }
	// StepDone is a finished step.
	StepDone struct{ Step Step }
	// FileFound is a file that the reply names.
	FileFound struct{ Artifact Artifact }
	// SessionStarted names the session as soon as it is known, so that it can be
	// recorded and cleaned up.
	SessionStarted struct{ Session Session }
	// Paused says that the provider interrupted a long turn and is asked to continue.
	Paused struct{ Calls int }
	// FunctionCalled says that the model calls a function of the caller.
	FunctionCalled struct {
		Name      string
		Arguments json.RawMessage
	}
	// Notice is a sentence for the user.
	Notice struct{ Text string }
	// Done is the last event of [Stream].
	Done struct{ Result *RunResult }
)

func (TextDelta) event()      {}
func (CodeDelta) event()      {}
func (StepStarted) event()    {}
func (OutputDelta) event()    {}
func (StepDone) event()       {}
func (FileFound) event()      {}
func (SessionStarted) event() {}
func (Paused) event()         {}
func (FunctionCalled) event() {}
func (Notice) event()         {}
func (Done) event()           {}

// Send calls s unless it is nil.
func (s Sink) Send(e Event) {
	if s != nil {
		s(e)
	}
}

// Stream runs a turn as a sequence of events, the last of which is [Done] or
// comes with an error. Leaving the loop cancels the turn. The sequence can be read once.
func Stream(ctx context.Context, p Provider, r RunRequest) iter.Seq2[Event, error] {
	var begun atomic.Bool
	return func(yield func(Event, error) bool) {
		if begun.Swap(true) { // the turn would run, and cost, once more
			yield(nil, &Error{Kind: Invalid, Provider: p.Name(), Op: "run",
				Message: "the events of this turn were read before", Hint: "Call Stream again for another turn."})
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		left := false
		result, err := p.Run(ctx, r, func(e Event) {
			if !left && !yield(e, nil) {
				left = true
				cancel()
			}
		})
		if !left {
			yield(Done{Result: result}, err)
		}
	}
}
