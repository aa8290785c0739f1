package changes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/reply"
)

// A Message is a complete reply of a model from an application.
type Message struct {
	// ID is the application's id, by which a repeated message makes the same reports;
	// empty: the hash of the text.
	ID   string
	Text string
	// Project is the project that it is about; empty: none.
	Project string
	// API is where the project receives reports; empty: that of its link.
	API string
	// Root is the folder, if the user named it, which is consent. Empty: the folder that
	// the project is linked with.
	Root string
	// Phase is the phase of the conversation, such as "E" for EXECUTE; empty:
	// it has none.
	Phase     string
	Objective string
	// Assignments are the ids that the model was given; empty: any.
	Assignments []string
	// Only are patterns of the files to take; empty: all.
	Only []string
}

// executes reports whether files may be changed in a phase.
func executes(phase string) bool {
	switch strings.ToUpper(strings.TrimSpace(phase)) {
	case "", "E", "EXECUTE", "EXECUTION":
		return true
	}
	return false
}

// A Link is the folder of an owner's project.
type Link struct {
	Owner   string    `json:"-"`
	Project string    `json:"project"`
	Root    string    `json:"root"`
	API     string    `json:"api,omitempty"`
	Created time.Time `json:"created"`
}

// A ReplyRecord is a reply, its proposal, and the result.
type ReplyRecord struct {
	ID      string    `json:"id"` // of its proposal
	Owner   string    `json:"owner"`
	Created time.Time `json:"created"`

	Message string           `json:"message"`        // the application's id, or the hash
	Kind    string           `json:"kind,omitempty"` // "undo" or "redo"; empty: a reply
	Project string           `json:"project,omitempty"`
	API     string           `json:"api,omitempty"`
	Root    string           `json:"root,omitempty"`    // empty: nothing can be applied
	ByLink  bool             `json:"by_link,omitempty"` // Root is the folder that the project was linked with
	Phase   string           `json:"phase,omitempty"`
	Batch   assignment.Batch `json:"batch"`
	// Questions are escalations that cannot be sent, since no API is linked or nothing may
	// be applied. Only the user sees them.
	Questions []Question      `json:"questions,omitempty"`
	Notes     []reply.Warning `json:"notes,omitempty"`
	Shown     []Shown         `json:"shown,omitempty"`
	// Gate says why nothing may be applied; empty: the reply may be applied.
	Gate string `json:"gate,omitempty"`
	// Done is set when it was applied or declined.
	Done   bool    `json:"done,omitempty"`
	Result *Result `json:"result"`
}

// Closed returns an error if nothing of a message can be applied.
func (h *ReplyRecord) Closed() error {
	switch {
	case h.Gate != "":
		return fmt.Errorf("%w: %s", ErrClosed, h.Gate)
	case h.Done:
		return h.doneError()
	}
	return nil
}

func (h *ReplyRecord) doneError() error { return fmt.Errorf("%w: it is %s", ErrDone, h.Result.State) }

// Shown is an item of a reply that changes nothing, and why.
type Shown struct {
	Path    string        `json:"path,omitempty"`
	Block   string        `json:"block,omitempty"`
	Verdict reply.Verdict `json:"verdict"`
	Reason  string        `json:"reason,omitempty"`
	Offset  int           `json:"offset"`
}

// A Store stores links and messages.
type Store interface {
	// Links returns the links of an owner, by project.
	Links(ctx context.Context, owner string) ([]Link, error)
	// Link returns one, or ErrNotFound.
	Link(ctx context.Context, owner, project string) (Link, error)
	// PutLink saves a link, in place of the project's present one.
	PutLink(ctx context.Context, l Link) error
	// DropLink deletes one, or returns ErrNotFound.
	DropLink(ctx context.Context, owner, project string) error
	// PutReplyRecord saves a message, in place of the one with its id.
	PutReplyRecord(ctx context.Context, h *ReplyRecord) error
	// ReplyRecord returns a message, or ErrNotFound.
	ReplyRecord(ctx context.Context, owner, id string) (*ReplyRecord, error)
}

// Errors on which callers branch.
var (
	ErrNotFound = errors.New("there is no such thing")
	// ErrClosed is returned for a reply that a gate keeps from being applied.
	ErrClosed = errors.New("the reply is only shown")
	// ErrDone is returned for a message that was applied or declined before.
	ErrDone = errors.New("it was settled already")
	// ErrInvalid is returned for a message or a link that is not valid.
	ErrInvalid = errors.New("invalid")
)
