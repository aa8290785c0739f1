package assignment

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
)

// Kind is what a post reports.
type Kind string

// The kinds of posts.
const (
	Progress   Kind = "progress"
	Submission Kind = "submission"
	Question   Kind = "escalation"
	Decision   Kind = "decision"
)

// State is the state of a post.
type State string

// The states of a post. Sent, Merged and Dropped are final.
const (
	Held       State = "held"    // waits for what its Holds say
	Pending    State = "pending" // is sent when its turn comes
	Sending    State = "sending" // a process is sending it, or died
	DeadLetter State = "parked"  // the API refused it, or retries ended after a day: the user has to decide
	Sent       State = "sent"    // the API has it
	Merged     State = "merged"  // its news went into a later progress post
	Dropped    State = "dropped" // the user decided against it
)

// Final reports whether the state is final.
func (s State) Final() bool { return s == Sent || s == Merged || s == Dropped }

// Reason says why a post is held.
type Reason string

// The reasons to hold a post.
const (
	// HoldConfirm wants the user to look first, since the post is not certain
	// to be what the reply meant.
	HoldConfirm Reason = "confirm"
	// HoldEvidence wants the user to look first, since a file that proves the
	// work was not written.
	HoldEvidence Reason = "evidence"
	// HoldEscalation waits for the answer to an escalation of the assignment.
	HoldEscalation Reason = "escalation"
)

// Hold is a reason for which a post is not sent.
type Hold struct {
	Reason Reason `json:"reason"`
	Detail string `json:"detail"` // a sentence for a person
}

// LaneID names an assignment of a project behind an API. The assignment is empty for
// escalations that belong to none.
type LaneID struct {
	API        string `json:"api"` // such as "https://projects.example.com", without a slash at the end
	Project    string `json:"project"`
	Assignment string `json:"assignment,omitempty"`
}

// Post is one report and how far it has come.
type Post struct {
	ID string `json:"id"` // 26 random letters and digits
	// Key is the Idempotency-Key, 64 hexadecimal digits; see NewKey.
	Key string `json:"key"`
	LaneID
	Kind Kind `json:"kind"`
	// Body is the JSON that the API gets.
	Body json.RawMessage `json:"body"`
	// Escalation is the id of the escalation that a Question or a Decision is
	// about.
	Escalation string `json:"escalation,omitempty"`
	// Reply and Transaction say where the post comes from, if anywhere.
	Reply       string `json:"reply,omitempty"`
	Transaction string `json:"transaction,omitempty"`

	State State  `json:"state"`
	Holds []Hold `json:"holds,omitempty"` // of a Held one
	// Seq orders the posts of a lane; a post gets it when nothing holds it.
	Seq      int64     `json:"seq,omitempty"`
	Created  time.Time `json:"created"`
	First    time.Time `json:"first_attempt,omitzero"`
	Attempts int       `json:"attempts,omitempty"` // that were begun
	// NotBefore is when a Pending post may be tried, and when a Sending one
	// counts as abandoned by its process.
	NotBefore time.Time `json:"not_before,omitzero"`
	// Unsure is set when a request may have arrived without an answer.
	Unsure bool `json:"unsure,omitempty"`
	// Problem is what went wrong last, for a person.
	Problem string    `json:"problem,omitempty"`
	Done    time.Time `json:"done,omitzero"` // when it became final
}

// ErrNotFound says that a store has no such post or escalation.
var ErrNotFound = errors.New("there is no such post")

// NewID returns a fresh id of a post.
func NewID() string { return strings.ToLower(rand.Text()) }

// NewKey returns the idempotency key of a post. It is the same for the same body to
// the same lane out of the same reply, however the JSON is written.
func NewKey(lane LaneID, kind Kind, body json.RawMessage, reply string) string {
	var plain any
	if err := json.Unmarshal(body, &plain); err == nil {
		if normal, err := json.Marshal(plain); err == nil { // with its members sorted
			body = normal
		}
	}
	// As JSON, no two lists of texts run together to the same bytes.
	text, _ := json.Marshal([]string{lane.API, lane.Project, lane.Assignment, string(kind), string(body), reply})
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// hold adds a reason to wait. A post has each reason once.
func (p *Post) hold(reason Reason, detail string) {
	if !p.held(reason) {
		p.Holds = append(p.Holds, Hold{reason, detail})
	}
	p.State = Held
}

func (p *Post) held(reason Reason) bool {
	return slices.ContainsFunc(p.Holds, func(h Hold) bool { return h.Reason == reason })
}

// unhold removes reasons and reports whether none is left.
func (p *Post) unhold(reasons ...Reason) bool {
	p.Holds = slices.DeleteFunc(p.Holds, func(h Hold) bool { return slices.Contains(reasons, h.Reason) })
	return len(p.Holds) == 0
}

func (p *Post) finish(state State, now time.Time, problem string) {
	p.State, p.Done, p.Problem, p.Unsure, p.NotBefore, p.Holds = state, now, problem, false, time.Time{}, nil
}
