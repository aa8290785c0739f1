package conversation

import (
	"context"
	"errors"

	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/workspace"
)

// A Prompter puts questions to the user. A turn waits for each answer. When the turn's
// context ends, Answer returns its error. Without a user it returns ErrNonInteractive,
// and the turn does nothing that needs an answer.
type Prompter interface {
	Answer(ctx context.Context, q Ask) (Answer, error)
}

// Errors that end a turn, on which callers branch.
var (
	ErrNotFound = changes.ErrNotFound
	ErrInvalid  = changes.ErrInvalid
	// ErrNonInteractive is returned by a Prompter that has no user to ask.
	ErrNonInteractive = errors.New("there is nobody to ask")
	// ErrApproval is returned if a turn needs an answer and there is no user.
	ErrApproval = errors.New("it needs your approval first")
	// ErrDeclined is returned if the user did not agree.
	ErrDeclined = errors.New("it was turned down")
	// ErrTurn is returned if a turn is in progress already, or if another process has the
	// conversation.
	ErrTurn = errors.New("the conversation is going on")
	// ErrMany is returned if as many conversations of an owner as may be in progress have a turn
	// in progress.
	ErrMany = errors.New("too many conversations are going on")
)

// AskKind is the kind of a question.
type AskKind string

// The kinds of questions. The comments give the meaning of an Answer with OK, and of one
// without.
const (
	// AskSend: may these files leave the machine? OK: the picked ones are sent. Else the
	// turn ends with ErrDeclined, and nothing is sent.
	AskSend AskKind = "send"
	// AskSkip: these files cannot be sent; continue without them? Else the turn
	// ends with the error of the first.
	AskSkip AskKind = "skip"
	// AskInline: these files could not be sent by themselves, since the provider has no
	// file store, or it is down; may they travel in the request? OK: the picked ones do.
	// The others cannot be sent.
	AskInline AskKind = "inline"
	// AskMore: the model requests further files of the project. OK: the picked ones are
	// sent. Else the model is told no.
	AskMore AskKind = "more"
	// AskSave: which outputs are to be saved? OK: the picked ones, each as its pick says.
	// Else all are declined, and stay in quarantine for a while.
	AskSave AskKind = "save"
	// AskApply: is the reply to be applied to the project's folder? OK: as Answer.Consent
	// says. Later: it stays a proposal. Else it is declined.
	AskApply AskKind = "apply"
)

// An Ask is a question to the user. Its kind tells which of the parts below it has.
type Ask struct {
	ID   string  `json:"id"` // unique in its conversation
	Turn int     `json:"turn"`
	Kind AskKind `json:"kind"`
	// Text is the question in a sentence.
	Text string `json:"text"`

	// Of AskSend, AskSkip, AskInline and AskMore: the files, with where they would go.
	Files       []FileAsked `json:"files,omitempty"`
	Bytes       int64       `json:"bytes,omitempty"`       // of all of them
	Destination string      `json:"destination,omitempty"` // "OpenAI (api.openai.com)"
	Reason      string      `json:"reason,omitempty"`      // AskMore: the model's, unchecked

	// Of AskSave: the outputs and the folder that they would be saved into.
	Outputs []OutputAsked `json:"outputs,omitempty"`
	Folder  string        `json:"folder,omitempty"`

	// Of AskApply.
	Handled  *changes.ReplyRecord `json:"handled,omitempty"`
	Proposal *workspace.Proposal  `json:"proposal,omitempty"`
}

// A FileAsked is a file that a question is about.
type FileAsked struct {
	ID   string `json:"id"` // "f1", ...: for Pick
	Path string `json:"path"`
	Name string `json:"name"` // the model's name for it
	Size int64  `json:"size"`
	MIME string `json:"mime,omitempty"`
	See  bool   `json:"see,omitempty"` // the model itself is shown it too
	// Again reports that an earlier turn sent it there before.
	Again bool `json:"again,omitempty"`
	// Sensitivity says why it may contain a secret.
	Sensitivity string   `json:"doubt,omitempty"`
	Problem     *Problem `json:"problem,omitempty"` // AskSkip and AskInline: why it cannot be sent
}

// An OutputAsked is an output that may be saved.
type OutputAsked struct {
	Output
	Path string `json:"path"` // in the folder
	// Exists reports that another file has the path: Pick.Clash decides.
	Exists bool `json:"exists,omitempty"`
	// Change is the effect of replacing the file that exists: the diff of a text, else the
	// sizes. It is not saved.
	Change    *workspace.FileChange `json:"change,omitempty"`
	Unchanged bool                  `json:"unchanged,omitempty"` // the folder has the same bytes already
	// Warning says why the user should look first: a workflow, a program.
	Warning string `json:"warning,omitempty"`
	Refused string `json:"refused,omitempty"` // why it cannot be saved there at all
}

// An Answer is the user's answer to an Ask.
type Answer struct {
	OK bool `json:"ok"`
	// Picks are the picked files or outputs; nil: all, but none for AskMore.
	Picks []Pick `json:"picks,omitempty"`
	// Folder is the folder to save into; empty: the question's.
	Folder  string           `json:"folder,omitempty"`
	Consent *changes.Consent `json:"consent,omitempty"` // AskApply
	Later   bool             `json:"later,omitempty"`   // AskApply
}

// A Pick is a picked file or output of a question.
type Pick struct {
	ID string `json:"id"`
	// SHA256 is the hash that the user saw. An output with a different hash is not saved.
	// Empty: any hash matches.
	SHA256 string `json:"sha256,omitempty"`
	// Clash is what happens if the name exists; empty: nothing is written, and the state is
	// OutputExists.
	Clash Clash  `json:"clash,omitempty"`
	As    string `json:"as,omitempty"` // another name for an output
}

// Clash is what happens if a name exists.
type Clash string

// What can happen if a name exists.
const (
	ClashReplace Clash = "replace"
	ClashRename  Clash = "rename" // "plot (2).png"
	ClashSkip    Clash = "skip"
)

func (c Clash) workspace() workspace.Clash {
	switch c {
	case ClashReplace:
		return workspace.ClashReplace
	case ClashRename:
		return workspace.ClashRename
	}
	return workspace.ClashRefuse
}

// pick returns the pick of an id, and whether it is picked.
func (a *Answer) pick(id string) (Pick, bool) {
	if a.Picks == nil {
		return Pick{ID: id}, a.OK
	}
	for _, p := range a.Picks {
		if p.ID == id {
			return p, a.OK
		}
	}
	return Pick{}, false
}
