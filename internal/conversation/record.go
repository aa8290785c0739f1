package conversation

import (
	"context"
	"encoding/json"
	"time"

	"github.com/airlock-run/airlock/provider"
	"github.com/airlock-run/airlock/workspace"
)

// Settings are what a conversation is held with. They stay through its turns.
type Settings struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
	// ModelURL is the endpoint of the model of the local provider, where the command
	// line named it.
	ModelURL string            `json:"model_url,omitempty"`
	Tool     provider.Tool     `json:"tool"`
	Hints    provider.HintMode `json:"hints"`
	// Instructions are the person's own rules for the model.
	Instructions string `json:"instructions,omitempty"`
	// Project names the project whose folder the replies are about, and to
	// which they report; empty: replies are text and no more.
	Project string `json:"project,omitempty"`
	API     string `json:"api,omitempty"`   // of the project; empty: where its link says
	Phase   string `json:"phase,omitempty"` // of the conversation, such as "E"
	// Policy approves what replies change without asking; nil: a person does.
	Policy *workspace.Policy `json:"policy,omitempty"`
	// Keep leaves at the provider what is made there.
	Keep bool `json:"keep,omitempty"`
	// MaxDownload bounds one output; 0: 100 MiB.
	MaxDownload int64 `json:"max_download,omitempty"`
}

// Conversation is one with a model, as it is kept.
type Conversation struct {
	ID       string    `json:"id"`
	Owner    string    `json:"-"`
	Title    string    `json:"title"` // the beginning of the first prompt
	Created  time.Time `json:"created_at"`
	Updated  time.Time `json:"updated_at"`
	Settings Settings  `json:"settings"`
	// Session and Staged are what is at the provider and can be gone on with:
	// nothing once it was cleaned up.
	Session provider.Session      `json:"session,omitzero"`
	Staged  []provider.Attachment `json:"staged,omitempty"`
	// Cleaned is what the last end of the conversation did at the provider.
	Cleaned *Cleaned `json:"cleaned,omitempty"`
	Turns   []*Turn  `json:"turns,omitempty"`
}

// TurnState says how a turn is.
type TurnState string

// How a turn is.
const (
	TurnRunning     TurnState = "running"
	TurnDone        TurnState = "done"
	TurnFailed      TurnState = "failed"
	TurnInterrupted TurnState = "interrupted"
)

// Turn is a prompt and everything that came of it.
type Turn struct {
	Number  int       `json:"number"` // from 1
	State   TurnState `json:"state"`
	Started time.Time `json:"started_at"`
	Ended   time.Time `json:"ended_at,omitzero"`

	Prompt string   `json:"prompt"`
	Inputs []Upload `json:"inputs"`

	Text string `json:"text"`
	// Answer is the answer as JSON, where a schema was asked for.
	Answer json.RawMessage `json:"answer,omitempty"`
	Steps  []provider.Step `json:"steps"`
	// Order says which steps came where in the text, from the first on. Turns of
	// earlier versions have none; what it does not name came before all text.
	Order     []Place    `json:"order,omitempty"`
	Outputs   []Output   `json:"outputs"`
	Missing   []string   `json:"missing"` // promised by the model and found nowhere
	Notices   []string   `json:"notices"`
	Decisions []Decision `json:"decisions"`
	// Receipts say what was written into folders: one for each time that
	// outputs were saved.
	Receipts []*workspace.Receipt `json:"receipts"`
	// Reply is the id of the proposal that the reply became, and Result what
	// became of it: see Replies. Only of conversations about a project.
	Reply  string  `json:"reply,omitempty"`
	Result *Result `json:"result,omitempty"`

	Model        string         `json:"model,omitempty"` // that answered
	Stop         provider.Stop  `json:"stop,omitempty"`
	StopDetail   string         `json:"stop_detail,omitempty"`
	Usage        provider.Usage `json:"usage"`
	Calls        int            `json:"calls"` // requests that the turn took
	RequestID    string         `json:"request_id,omitempty"`
	HintsVersion string         `json:"hints_version,omitempty"`
	Problem      *Problem       `json:"problem,omitempty"`

	// Exchange is the turn as the provider wants it again. It is kept beside
	// the record and not shown.
	Exchange []provider.Turn `json:"-"`
}

// Upload is a file that the person gave to a turn.
type Upload struct {
	Path   string           `json:"path"`             // as the person knows it
	Local  string           `json:"local,omitempty"`  // its absolute path on this machine, where it has one
	Stored string           `json:"stored,omitempty"` // its id among the uploaded files, where it is one of them
	Name   string           `json:"name"`
	MIME   string           `json:"mime,omitempty"`
	Size   int64            `json:"size"`
	See    bool             `json:"see,omitempty"`
	SHA256 string           `json:"sha256,omitempty"` // of what was sent; empty: it was not
	Remote provider.FileRef `json:"remote,omitzero"`
	// Asked says that the model has asked for it.
	Asked bool `json:"asked,omitempty"`
	// Made says that code of an earlier turn made it.
	Made    bool     `json:"made,omitempty"`
	Problem *Problem `json:"problem,omitempty"` // why it was not sent
}

// OutputState says what became of an output.
type OutputState string

// What can become of an output.
const (
	OutputFetched   OutputState = "fetched" // it is held here, and nobody has decided yet
	OutputSaved     OutputState = "saved"
	OutputUnchanged OutputState = "unchanged" // the same bytes were there already
	OutputExists    OutputState = "exists"    // another file has the name, and nobody chose what to do
	OutputDeclined  OutputState = "declined"
	OutputRefused   OutputState = "refused" // the folder's rules forbid it
	OutputFailed    OutputState = "failed"  // it could not be fetched, or not be saved
)

// Output is a file that the model's code made.
type Output struct {
	ID      string              `json:"id"` // "o1", "o2", ... of its turn
	Name    string              `json:"name"`
	Size    int64               `json:"size"` // -1: not known
	MIME    string              `json:"mime,omitempty"`
	SHA256  string              `json:"sha256,omitempty"` // of what is held here
	FoundBy []provider.Evidence `json:"found_by"`
	Step    string              `json:"step,omitempty"`
	Remote  provider.FileRef    `json:"remote,omitzero"`
	State   OutputState         `json:"state"`
	Saved   string              `json:"saved,omitempty"` // the file, as an absolute path
	Problem *Problem            `json:"problem,omitempty"`
}

// artifact is the output as package provider knows it.
func (o *Output) artifact() provider.Artifact {
	return provider.Artifact{Ref: o.Remote, Name: o.Name, MIME: o.MIME, Size: o.Size, SHA256: o.SHA256, FoundBy: o.FoundBy,
		StepID: o.Step}
}

// Decision is what the user has decided.
type Decision struct {
	Ask    Ask       `json:"question"`
	Answer Answer    `json:"answer"`
	At     time.Time `json:"at"`
	// Notices is how many of the turn's notices came before it.
	Notices int `json:"notices,omitempty"`
}

// Problem is an error as it is kept and shown.
type Problem struct {
	// Kind is one of provider.Kinds, or "approval_needed", "declined",
	// "interrupted", "failed".
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// Cleaned is what a clean-up did at the provider.
type Cleaned struct {
	At      time.Time `json:"at"`
	Deleted int       `json:"deleted"`
	Kept    int       `json:"kept"`
	Left    []string  `json:"left,omitempty"` // could not be deleted, and why: the next clean-up tries again
	// Others were made while a turn ran whose reply got lost, and may be
	// somebody else's: only a person can tell, and delete them.
	Others []provider.FileInfo `json:"others,omitempty"`
}

// Page is a part of a list, newest first.
type Page struct {
	Limit  int    // at most; 0: 50
	Before string // the last id of the page before; empty: the first page
}

// Archive keeps conversations.
type Archive interface {
	// PutConversation keeps a conversation, but of its turns only those that
	// are given, each in the place of the one with its number. All of it is
	// kept, or nothing.
	PutConversation(ctx context.Context, c *Conversation, turns ...*Turn) error
	// Conversation returns one with its turns, or ErrNotFound.
	Conversation(ctx context.Context, owner, id string) (*Conversation, error)
	// Conversations returns an owner's, without turns.
	Conversations(ctx context.Context, owner string, p Page) ([]*Conversation, error)
	// DropConversation forgets one, or returns ErrNotFound.
	DropConversation(ctx context.Context, owner, id string) error
}
