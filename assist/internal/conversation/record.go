package conversation

import (
	"context"
	"encoding/json"
	"time"

	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/workspace"
)

// Settings are the settings of a conversation, for all its turns.
type Settings struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
	// ModelURL is the endpoint of the local provider's model, if the command line or the
	// page named it.
	ModelURL string            `json:"model_url,omitempty"`
	Tool     provider.Tool     `json:"tool"`
	Hints    provider.HintMode `json:"hints"`
	// Instructions are the user's rules for the model.
	Instructions string `json:"instructions,omitempty"`
	// Project names the project whose folder replies may change, and to which they
	// report; empty: replies are only text.
	Project string `json:"project,omitempty"`
	API     string `json:"api,omitempty"`   // of the project; empty: where its link says
	Phase   string `json:"phase,omitempty"` // of the conversation, such as "E"
	// Policy approves changes without asking; nil: the user approves them.
	Policy *workspace.Policy `json:"policy,omitempty"`
	// Keep leaves objects at the provider.
	Keep bool `json:"keep,omitempty"`
	// MaxDownload bounds one output; 0: 100 MiB.
	MaxDownload int64 `json:"max_download,omitempty"`
}

// A Conversation is the record of a conversation with a model.
type Conversation struct {
	ID       string    `json:"id"`
	Owner    string    `json:"-"`
	Title    string    `json:"title"` // the beginning of the first prompt
	Created  time.Time `json:"created_at"`
	Updated  time.Time `json:"updated_at"`
	Settings Settings  `json:"settings"`
	// Session and Staged are at the provider, for the next turn: empty after a clean-up.
	Session provider.Session      `json:"session,omitzero"`
	Staged  []provider.Attachment `json:"staged,omitempty"`
	// Cleaned is the result of the last clean-up.
	Cleaned *Cleaned `json:"cleaned,omitempty"`
	Turns   []*Turn  `json:"turns,omitempty"`
}

// TurnState is the state of a turn.
type TurnState string

// The states of a turn.
const (
	TurnRunning     TurnState = "running"
	TurnDone        TurnState = "done"
	TurnFailed      TurnState = "failed"
	TurnInterrupted TurnState = "interrupted"
)

// A Turn is the record of a prompt and its results.
type Turn struct {
	Number  int       `json:"number"` // from 1
	State   TurnState `json:"state"`
	Started time.Time `json:"started_at"`
	Ended   time.Time `json:"ended_at,omitzero"`

	Prompt string   `json:"prompt"`
	Inputs []Upload `json:"inputs"`

	Text string `json:"text"`
	// Answer is the answer as JSON, if the prompt has a schema.
	Answer json.RawMessage `json:"answer,omitempty"`
	Steps  []provider.Step `json:"steps"`
	// Order places the steps in the text, the first one first. Turns of earlier versions
	// have none; steps that it does not name came before all text.
	Order     []Place    `json:"order,omitempty"`
	Outputs   []Output   `json:"outputs"`
	Missing   []string   `json:"missing"` // promised by the model and found nowhere
	Notices   []string   `json:"notices"`
	Decisions []Decision `json:"decisions"`
	// Receipts say what was written into folders, one for each time that outputs were
	// saved.
	Receipts []*workspace.Receipt `json:"receipts"`
	// Reply is the id of the reply's proposal, and Result its outcome, in conversations
	// about a project: see Replies.
	Reply  string          `json:"reply,omitempty"`
	Result *changes.Result `json:"result,omitempty"`

	Model        string         `json:"model,omitempty"` // that answered
	Stop         provider.Stop  `json:"stop,omitempty"`
	StopDetail   string         `json:"stop_detail,omitempty"`
	Usage        provider.Usage `json:"usage"`
	Calls        int            `json:"calls"` // requests that the turn took
	RequestID    string         `json:"request_id,omitempty"`
	HintsVersion string         `json:"hints_version,omitempty"`
	Problem      *Problem       `json:"problem,omitempty"`

	// Exchange is the turn in the provider's form, for later requests. It is saved beside
	// the record and not shown.
	Exchange []provider.Turn `json:"-"`
}

// An Upload is the record of an input.
type Upload struct {
	Path   string           `json:"path"`             // as the user named it
	Local  string           `json:"local,omitempty"`  // its absolute path on this machine, if it has one
	Stored string           `json:"stored,omitempty"` // its id, if it is an uploaded file
	Name   string           `json:"name"`
	MIME   string           `json:"mime,omitempty"`
	Size   int64            `json:"size"`
	See    bool             `json:"see,omitempty"`
	SHA256 string           `json:"sha256,omitempty"` // of what was sent; empty: it was not
	Remote provider.FileRef `json:"remote,omitzero"`
	// Asked reports that the model requested it.
	Asked bool `json:"asked,omitempty"`
	// Made reports that code of an earlier turn made it.
	Made    bool     `json:"made,omitempty"`
	Problem *Problem `json:"problem,omitempty"` // why it was not sent
}

// OutputState is the state of an output.
type OutputState string

// The states of an output.
const (
	OutputFetched   OutputState = "fetched" // in quarantine, undecided
	OutputSaved     OutputState = "saved"
	OutputUnchanged OutputState = "unchanged" // the folder has the same bytes already
	OutputExists    OutputState = "exists"    // another file has the name, and the user has not decided
	OutputDeclined  OutputState = "declined"
	OutputRefused   OutputState = "refused" // the folder's rules forbid it
	OutputFailed    OutputState = "failed"  // it could not be fetched, or not be saved
)

// An Output is a file that the model's code made.
type Output struct {
	ID      string              `json:"id"` // "o1", "o2", ... of its turn
	Name    string              `json:"name"`
	Size    int64               `json:"size"` // -1: not known
	MIME    string              `json:"mime,omitempty"`
	SHA256  string              `json:"sha256,omitempty"` // of the content in quarantine
	FoundBy []provider.Evidence `json:"found_by"`
	Step    string              `json:"step,omitempty"`
	Remote  provider.FileRef    `json:"remote,omitzero"`
	State   OutputState         `json:"state"`
	Saved   string              `json:"saved,omitempty"` // the file, as an absolute path
	Problem *Problem            `json:"problem,omitempty"`
}

// artifact returns the output as a provider's artifact.
func (o *Output) artifact() provider.Artifact {
	return provider.Artifact{Ref: o.Remote, Name: o.Name, MIME: o.MIME, Size: o.Size, SHA256: o.SHA256, FoundBy: o.FoundBy,
		StepID: o.Step}
}

// A Decision is a question with the user's answer.
type Decision struct {
	Ask    Ask       `json:"question"`
	Answer Answer    `json:"answer"`
	At     time.Time `json:"at"`
	// Notices is how many of the turn's notices came before it.
	Notices int `json:"notices,omitempty"`
}

// A Problem is an error, as records and users have it.
type Problem struct {
	// Kind is one of provider.Kinds, or "approval_needed", "declined",
	// "interrupted", "failed".
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// Cleaned is the result of a clean-up at the provider.
type Cleaned struct {
	At      time.Time `json:"at"`
	Deleted int       `json:"deleted"`
	Kept    int       `json:"kept"`
	Left    []string  `json:"left,omitempty"` // could not be deleted, and why: the next clean-up tries again
	// Others were made while a turn ran whose reply was lost, and may be another user's:
	// only a person can tell, and delete them.
	Others []provider.FileInfo `json:"others,omitempty"`
}

// A Page is a part of a list, newest first.
type Page struct {
	Limit  int    // at most; 0: 50
	Before string // the last id of the page before; empty: the first page
}

// An Archive stores conversations.
type Archive interface {
	// PutConversation saves a conversation with the given turns, each in place of the one
	// with its number, atomically. Its other turns stay as they are.
	PutConversation(ctx context.Context, c *Conversation, turns ...*Turn) error
	// Conversation returns one with its turns, or ErrNotFound.
	Conversation(ctx context.Context, owner, id string) (*Conversation, error)
	// Conversations returns an owner's, without turns.
	Conversations(ctx context.Context, owner string, p Page) ([]*Conversation, error)
	// DropConversation deletes one, or returns ErrNotFound.
	DropConversation(ctx context.Context, owner, id string) error
}
