package provider

import (
	"context"
	"encoding/json"
	"iter"
	"time"
)

// Tool is what the model runs its code with.
type Tool string

// What the model runs its code with. ToolAuto takes the first of
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
	// Instructions go where the provider takes rules for the model. Those of
	// [Instruct] are part of it already when a provider sees it.
	Instructions string
	// Input is the conversation so far, its last turn the one to be answered.
	Input []Turn
	// Files are those that the last turn brings. Those of earlier turns are in
	// the session, or in the turns' Files where there is none.
	Files []Attachment
	// Session is where to run; empty lets the provider choose.
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
	// See shows it to the model as well (an image, a PDF), not to its code only.
	See bool `json:"see,omitempty"`
}

// Role says who speaks.
type Role string

// Who speaks.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

// Turn is one contribution to a conversation.
type Turn struct {
	Role  Role         `json:"role"`
	Text  string       `json:"text,omitempty"`
	Files []Attachment `json:"files,omitempty"`
	// Raw is the turn as the provider sent it (items, blocks, parts with their
	// signatures) and wants it again. Only the provider of that name uses it;
	// another one takes Text.
	Raw      json.RawMessage `json:"raw,omitempty"`
	Provider string          `json:"provider,omitempty"`
}

// Function is an object of Airlock that the model may call.
type Function struct {
	Name        string
	Description string
	Parameters  json.RawMessage // JSON schema of an object
	// Call runs while the model waits. An error ends the turn; what the model
	// shall know about is said in the reply.
	Call func(ctx context.Context, arguments json.RawMessage) (FunctionReply, error)
}

// FunctionReply is what the model gets to read.
type FunctionReply struct {
	Text  string
	Files []Attachment // put into the session before the model goes on
}

// RunResult is what a turn brought.
type RunResult struct {
	Text  string `json:"text"`
	Steps []Step `json:"steps,omitempty"`
	// Artifacts are the files that the reply itself speaks of: citations, ids in
	// result blocks, inline parts. The [Collector] adds what it finds elsewhere.
	Artifacts []Artifact `json:"artifacts,omitempty"`
	// Sessions are those that the reply names, in order; the last is to continue with.
	Sessions []Session `json:"sessions,omitempty"`
	Stop     Stop      `json:"stop"`
	// StopDetail is the provider's word, when Stop does not say it all.
	StopDetail string          `json:"stop_detail,omitempty"`
	Usage      Usage           `json:"usage"`
	Model      string          `json:"model,omitempty"` // that answered
	RequestID  string          `json:"request_id,omitempty"`
	Calls      int             `json:"calls"` // requests that the turn took
	Raw        json.RawMessage `json:"raw,omitempty"`
	// Next is to be appended to Input for the turn after this one.
	Next []Turn `json:"next,omitempty"`
}

// Stop says why the model stopped.
type Stop string

// Why the model stopped.
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

// Add sums over the calls of a turn.
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
	Detail   string    `json:"detail,omitempty"` // the provider's word for the outcome
	Started  time.Time `json:"started,omitzero"`
	Ended    time.Time `json:"ended,omitzero"`
}

// Outcome is how an execution ended.
type Outcome string

// How an execution ended.
const (
	OutcomeOK             Outcome = "OK"
	OutcomeFailed         Outcome = "FAILED"
	OutcomeTimeout        Outcome = "DEADLINE_EXCEEDED"
	OutcomeUnavailable    Outcome = "UNAVAILABLE"
	OutcomeOutputTooLarge Outcome = "OUTPUT_TOO_LARGE"
	OutcomeUnknown        Outcome = "UNKNOWN"
)

// Evidence is why we believe that there is a file.
type Evidence string

// Why we believe that there is a file, from the best reason to the weakest.
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
	SHA256  string     `json:"sha256,omitempty"` // of what we hold, hex
	FoundBy []Evidence `json:"found_by"`
	StepID  string     `json:"step_id,omitempty"`
	// Created helps to choose between two files of one path.
	Created time.Time `json:"created,omitzero"`
}

// Sink takes events.
type Sink func(Event)

// Event is something that happened during a turn: one of the types below.
type Event interface{ event() }

// The events.
type (
	// TextDelta is more of the answer.
	TextDelta struct{ Text string }
	// CodeDelta is more of the code of a step.
	CodeDelta struct{ StepID, Language, Code string }
	// StepStarted says that the code is whole and runs.
	StepStarted struct{ Step Step }
	// OutputDelta is output of running code; Stream is "stdout" or "stderr".
	OutputDelta struct{ StepID, Stream, Data string }
	// StepDone is the finished step.
	StepDone struct{ Step Step }
	// FileFound is a file that the reply speaks of.
	FileFound struct{ Artifact Artifact }
	// SessionStarted names the session as soon as it is known, so that it can be
	// recorded and cleaned up.
	SessionStarted struct{ Session Session }
	// Paused says that the provider broke off a long turn and is asked to continue.
	Paused struct{ Calls int }
	// FunctionCalled says that the model calls a function of the caller.
	FunctionCalled struct {
		Name      string
		Arguments json.RawMessage
	}
	// Notice is something that the person should know, in a sentence.
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

// Send hands an event over, if anybody listens.
func (s Sink) Send(e Event) {
	if s != nil {
		s(e)
	}
}

// Stream runs a turn as a sequence of events, the last of which is [Done] or
// comes with an error. Leaving the loop cancels the turn.
func Stream(ctx context.Context, p Provider, r RunRequest) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
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
