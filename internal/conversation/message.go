package conversation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/airlock-run/airlock/assignment"
	"github.com/airlock-run/airlock/reply"
)

// Message is a finished reply of a model, as an application hands it over.
type Message struct {
	// ID is the application's own id, which makes the same message the same
	// report; empty: the hash of the text.
	ID   string
	Text string
	// Project is whose folder and assignments it is about; empty: none.
	Project string
	// API is where the project is told; empty: where its link says.
	API string
	// Root is the folder, where the user named it: that is consent. Empty: the
	// one that the project is linked with.
	Root string
	// Phase is the phase of the conversation, such as "E" for EXECUTE; empty:
	// it has none.
	Phase     string
	Objective string
	// Assignments are those that the model was given; empty: any.
	Assignments []string
	// Only are patterns; files that none of them matches are left out.
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

// Link says which folder belongs to a project, for one owner.
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
	// Questions are escalations that cannot be sent, since no API is linked or
	// nothing may be applied. They are for the person alone.
	Questions []Question      `json:"questions,omitempty"`
	Notes     []reply.Warning `json:"notes,omitempty"`
	Shown     []Shown         `json:"shown,omitempty"`
	// Gate says why nothing may be applied; empty: it may.
	Gate string `json:"gate,omitempty"`
	// Done is set once it was approved or turned down.
	Done   bool    `json:"done,omitempty"`
	Result *Result `json:"result"`
}

// Closed returns why nothing of a message may be applied (any more), or nil.
func (h *ReplyRecord) Closed() error {
	switch {
	case h.Gate != "":
		return fmt.Errorf("%w: %s", ErrClosed, h.Gate)
	case h.Done:
		return h.settled()
	}
	return nil
}

func (h *ReplyRecord) settled() error { return fmt.Errorf("%w: it is %s", ErrDone, h.Result.State) }

// Shown is an item of the reply that changes nothing, and why.
type Shown struct {
	Path    string        `json:"path,omitempty"`
	Block   string        `json:"block,omitempty"`
	Verdict reply.Verdict `json:"verdict"`
	Reason  string        `json:"reason,omitempty"`
	Offset  int           `json:"offset"`
}

// Store keeps links and messages.
type Store interface {
	// Links returns the links of an owner, by project.
	Links(ctx context.Context, owner string) ([]Link, error)
	// Link returns one, or ErrNotFound.
	Link(ctx context.Context, owner, project string) (Link, error)
	// PutLink makes a link, or replaces the one that the project has.
	PutLink(ctx context.Context, l Link) error
	// DropLink takes one back, or returns ErrNotFound.
	DropLink(ctx context.Context, owner, project string) error
	// PutReplyRecord keeps a message, in place of what was kept under its id.
	PutReplyRecord(ctx context.Context, h *ReplyRecord) error
	// ReplyRecord returns a message, or ErrNotFound.
	ReplyRecord(ctx context.Context, owner, id string) (*ReplyRecord, error)
}

// Errors on which callers branch.
var (
	ErrNotFound = errors.New("there is no such thing")
	// ErrClosed says that a gate keeps a reply from being applied.
	ErrClosed = errors.New("the reply is only shown")
	// ErrDone says that a message was approved or turned down before.
	ErrDone = errors.New("it was settled already")
	// ErrInvalid says that a message or a link cannot be as it is.
	ErrInvalid = errors.New("invalid")
)
