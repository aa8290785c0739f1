package conversation

import (
	"context"
	"errors"

	"github.com/airlock-run/airlock/workspace"
)

// A Prompter puts questions to the user. A turn waits for each answer; when the turn
// is over its context ends, and Answer returns the context's error. Without a user it
// returns ErrNonInteractive: what needs an answer is not done then.
type Prompter interface {
	Answer(ctx context.Context, q Ask) (Answer, error)
}

// Errors that end a turn, on which callers branch.
var (
	// ErrNonInteractive is returned by a Prompter that has no user to ask.
	ErrNonInteractive = errors.New("there is nobody to ask")
	// ErrApproval says that a turn needs an answer that nobody gave.
	ErrApproval = errors.New("somebody has to agree first")
	// ErrDeclined says that the person did not agree.
	ErrDeclined = errors.New("it was turned down")
	// ErrTurn says that a turn is in progress already, or that the conversation
	// continues somewhere else.
	ErrTurn = errors.New("the conversation is going on")
)

// AskKind says what is asked.
type AskKind string

// What is asked. The comment says what an Answer with OK means, and one
// without.
const (
	// AskSend: may these files leave the machine? OK: those that are picked go.
	// Else the turn ends with ErrDeclined, and nothing was sent.
	AskSend AskKind = "send"
	// AskSkip: these files cannot be sent; continue without them? Else the turn
	// ends with the error of the first.
	AskSkip AskKind = "skip"
	// AskInline: these files could not be sent by themselves, since the
	// provider's store of files is down or not offered; may they travel within
	// the request? OK: those that are picked do. Else they are files that cannot
	// be sent.
	AskInline AskKind = "inline"
	// AskMore: the model asks for further files of the project. OK: those that
	// are picked go, none unless they are picked. Else the model is told no.
	AskMore AskKind = "more"
	// AskSave: which outputs are to be saved? OK: those that are picked, each
	// as its pick says. Else all are declined; they stay here for a while.
	AskSave AskKind = "save"
	// AskApply: is the reply to be applied to the project's folder? OK: as
	// Answer.Consent says. Later: it stays a proposal, for another place. Else
	// it is turned down.
	AskApply AskKind = "apply"
)

// Ask is a question to the person. What it is about is in the part that its
// kind names.
type Ask struct {
	ID   string  `json:"id"` // unique in its conversation
	Turn int     `json:"turn"`
	Kind AskKind `json:"kind"`
	// Text is the question in a sentence, for whoever shows no more.
	Text string `json:"text"`

	// Of AskSend, AskSkip, AskInline and AskMore: the files, with where they would go.
	Files       []FileAsked `json:"files,omitempty"`
	Bytes       int64       `json:"bytes,omitempty"`       // of all of them
	Destination string      `json:"destination,omitempty"` // "OpenAI (api.openai.com)"
	Reason      string      `json:"reason,omitempty"`      // AskMore: the model's, which nobody has checked

	// Of AskSave: the outputs and the folder that they would be saved into.
	Outputs []OutputAsked `json:"outputs,omitempty"`
	Folder  string        `json:"folder,omitempty"`

	// Of AskApply.
	Handled  *ReplyRecord        `json:"handled,omitempty"`
	Proposal *workspace.Proposal `json:"proposal,omitempty"`
}

// FileAsked is a file that a question is about.
type FileAsked struct {
	ID   string `json:"id"` // "f1", ...: for Pick
	Path string `json:"path"`
	Name string `json:"name"` // what the model knows it as
	Size int64  `json:"size"`
	MIME string `json:"mime,omitempty"`
	See  bool   `json:"see,omitempty"` // it is also shown to the model itself
	// Again says that an earlier turn has brought it, and that it went there
	// before.
	Again bool `json:"again,omitempty"`
	// Doubt says why it may contain a secret.
	Doubt   string   `json:"doubt,omitempty"`
	Problem *Problem `json:"problem,omitempty"` // AskSkip and AskInline: why it cannot be sent
}

// OutputAsked is an output that may be saved.
type OutputAsked struct {
	Output
	Path string `json:"path"` // in the folder
	// Exists says that another file is there: what is to happen is chosen with
	// Pick.Clash.
	Exists bool `json:"exists,omitempty"`
	// Change is, of one that exists, what replacing it would do: the diff of a
	// text, the sizes of what is none. It is not kept.
	Change    *workspace.FileChange `json:"change,omitempty"`
	Unchanged bool                  `json:"unchanged,omitempty"` // the same bytes are there already
	// Warning says why a person should look first: a workflow, a program.
	Warning string `json:"warning,omitempty"`
	Refused string `json:"refused,omitempty"` // why it cannot be saved there at all
}

// Answer is the person's.
type Answer struct {
	OK bool `json:"ok"`
	// Picks are the files or outputs that are meant; nil: all, except of
	// AskMore, where it is none.
	Picks []Pick `json:"picks,omitempty"`
	// Folder is another one to save into; empty: the question's.
	Folder  string   `json:"folder,omitempty"`
	Consent *Consent `json:"consent,omitempty"` // AskApply
	Later   bool     `json:"later,omitempty"`   // AskApply
}

// Pick is one file or output of a question.
type Pick struct {
	ID string `json:"id"`
	// SHA256 is what was seen. An output that is another is not saved. Empty:
	// the one of the question.
	SHA256 string `json:"sha256,omitempty"`
	// Clash is what happens to an output whose name exists; empty: it is left
	// and its state is OutputExists.
	Clash Clash  `json:"clash,omitempty"`
	As    string `json:"as,omitempty"` // another name for an output
}

// Clash is what happens where a name exists.
type Clash string

// What can happen where a name exists.
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

// pick returns the pick of an id, and whether it is meant.
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
