package assignment

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"
	"time"
)

// Escalation is a question that the user has to decide before an assignment
// can be submitted.
type Escalation struct {
	ID string `json:"id"` // "e" and 12 letters and digits, of the question itself
	LaneID
	Question       string    `json:"question"`
	Options        []string  `json:"options"`
	Recommendation string    `json:"recommendation,omitempty"`
	Rationale      string    `json:"rationale,omitempty"`
	Deadline       string    `json:"deadline,omitempty"` // as it was written
	Asked          time.Time `json:"asked_at"`
	Posted         bool      `json:"posted"` // the API knows of it
	Answer         *Answer   `json:"answer,omitempty"`
}

// Verdict is how a question was resolved.
type Verdict string

// The ways to resolve a question. A deferred question stays open.
const (
	Chosen   Verdict = "chosen"   // one of the options, or free text
	Rejected Verdict = "rejected" // none of it: the question does not stand
)

// Answer is what the user decided.
type Answer struct {
	Verdict Verdict   `json:"verdict"`
	Choice  string    `json:"choice,omitempty"`
	Note    string    `json:"note,omitempty"`
	By      string    `json:"decided_by,omitempty"`
	At      time.Time `json:"decided_at"`
	Posted  bool      `json:"posted"` // the API knows of it
	Told    bool      `json:"told"`   // a prompt has told the model
}

// AnsweredError says that the escalation has an answer already.
type AnsweredError struct{ Escalation Escalation }

func (e *AnsweredError) Error() string {
	a := e.Escalation.Answer
	if a == nil {
		return "the escalation " + e.Escalation.ID + " was answered already"
	}
	by := ""
	if a.By != "" {
		by = " by " + a.By
	}
	what := "chosen: " + a.Choice
	if a.Verdict == Rejected {
		what = "rejected"
	}
	return fmt.Sprintf("the escalation %s was answered%s on %s already, %s", e.Escalation.ID, by,
		a.At.Format(time.DateTime), what)
}

// escalationID returns the id of a question about an assignment. It is the same if
// the model asks again.
func escalationID(lane LaneID, question string) string {
	text := strings.Join([]string{lane.API, lane.Project, lane.Assignment,
		strings.ToLower(strings.Join(strings.Fields(question), " "))}, "\x00")
	sum := sha256.Sum256([]byte(text))
	return "e" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:12]
}

// EscalationOf reads the question that a post asks.
func EscalationOf(p *Post) Escalation {
	b := decode[QuestionBody](p.Body)
	return Escalation{ID: p.Escalation, LaneID: p.LaneID, Question: b.Question, Options: b.Options,
		Recommendation: b.Recommendation, Rationale: b.Rationale, Deadline: b.Deadline, Asked: b.Asked}
}

// Pick reads an answer as a person types it: the number of an option, the
// start of one, or free text.
func (e *Escalation) Pick(text string) string {
	text = strings.TrimSpace(text)
	var number int
	if n, err := fmt.Sscanf(text, "%d", &number); n == 1 && err == nil && fmt.Sprint(number) == text && number >= 1 &&
		number <= len(e.Options) {
		return e.Options[number-1]
	}
	found := ""
	for _, option := range e.Options {
		if strings.EqualFold(option, text) {
			return option
		}
		if text != "" && strings.HasPrefix(strings.ToLower(option), strings.ToLower(text)) {
			if found != "" {
				return text // it begins more than one
			}
			found = option
		}
	}
	return cmp.Or(found, text)
}

// DecisionText returns the answers, as blocks for the next prompt, and the questions
// that are still open. It is empty if there is neither.
func DecisionText(escalations []Escalation) string {
	var b strings.Builder
	open := 0
	for _, e := range escalations {
		if e.Answer == nil {
			open++
			continue
		}
		b.WriteString("=== DECISION ===\n")
		field(&b, "escalation_id", e.ID)
		field(&b, "assignment_id", e.Assignment)
		field(&b, "question", e.Question)
		if e.Answer.Verdict == Rejected {
			field(&b, "choice", "none: the question was rejected")
		} else {
			field(&b, "choice", e.Answer.Choice)
		}
		field(&b, "note", e.Answer.Note)
		b.WriteString("=== END DECISION ===\n")
	}
	for _, e := range escalations {
		if e.Answer == nil {
			fmt.Fprintf(&b, "Open escalation %s on assignment %s: %s Do not submit this assignment before it is decided.\n",
				e.ID, e.Assignment, oneLine(e.Question))
		}
	}
	if open > 0 {
		fmt.Fprintf(&b, "Open escalations: %d\n", open)
	}
	return b.String()
}

func field(b *strings.Builder, key, value string) {
	if value != "" {
		fmt.Fprintf(b, "%s: %s\n", key, oneLine(value))
	}
}

// oneLine keeps a person's or a model's text from looking like a block.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
