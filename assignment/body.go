package assignment

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// ProgressBody is what the API is told of an assignment that continues.
type ProgressBody struct {
	Percent   int      `json:"progress_percent"`
	Notes     string   `json:"progress_notes"`
	Remaining []string `json:"remaining_items"`
}

// SubmissionBody is what the API is told of an assignment that is done.
type SubmissionBody struct {
	Summary  string   `json:"submission_summary"`
	Evidence []string `json:"submission_evidence"`
}

// QuestionBody is what the API is told of an escalation.
type QuestionBody struct {
	ID             string    `json:"escalation_id"`
	Assignment     string    `json:"assignment_id,omitempty"`
	Question       string    `json:"question"`
	Options        []string  `json:"options"`
	Recommendation string    `json:"recommendation,omitempty"`
	Rationale      string    `json:"rationale,omitempty"`
	Deadline       string    `json:"deadline,omitempty"`
	Asked          time.Time `json:"asked_at,omitzero"`
}

// DecisionBody is what the API is told of the answer to an escalation.
type DecisionBody struct {
	Choice  string    `json:"choice"`
	Note    string    `json:"note,omitempty"`
	Verdict Verdict   `json:"verdict"`
	By      string    `json:"decided_by,omitempty"`
	At      time.Time `json:"decided_at"`
}

// encode writes a body of this package, which always can be written. Lists
// are never null.
func encode(body any) json.RawMessage {
	switch b := body.(type) {
	case ProgressBody:
		b.Remaining = append([]string{}, b.Remaining...)
		body = b
	case SubmissionBody:
		b.Evidence = append([]string{}, b.Evidence...)
		body = b
	case QuestionBody:
		b.Options = append([]string{}, b.Options...)
		body = b
	}
	text, err := json.Marshal(body)
	if err != nil {
		panic("assignment: a body of ours cannot be written: " + err.Error())
	}
	return text
}

func decode[T any](text json.RawMessage) (body T) {
	// What encode wrote, or what the API told: fields that do not fit are
	// left empty, and then compare as different.
	_ = json.Unmarshal(text, &body)
	return body
}

// with returns the news of an older progress and of a newer one in one.
func (b ProgressBody) with(newer ProgressBody) ProgressBody {
	if b.Notes != "" && b.Notes != newer.Notes {
		if newer.Notes != "" {
			newer.Notes = b.Notes + "\n" + newer.Notes
		} else {
			newer.Notes = b.Notes
		}
	}
	return newer
}

func (b ProgressBody) equal(other ProgressBody) bool {
	return b.Percent == other.Percent && b.Notes == other.Notes && slices.Equal(b.Remaining, other.Remaining)
}

func (b SubmissionBody) equal(other SubmissionBody) bool {
	return b.Summary == other.Summary && slices.Equal(b.Evidence, other.Evidence)
}

// Percent returns the percentage that a post reports; ok is false for one that
// reports none.
func (p *Post) Percent() (percent int, ok bool) {
	if p.Kind != Progress {
		return 0, false
	}
	return decode[ProgressBody](p.Body).Percent, true
}

// Summary returns in one line what a post reports, for a person.
func (p *Post) Summary() string {
	switch p.Kind {
	case Progress:
		b := decode[ProgressBody](p.Body)
		return oneLine(fmt.Sprintf("%d %% %s", b.Percent, b.Notes))
	case Submission:
		return oneLine(decode[SubmissionBody](p.Body).Summary)
	case Question:
		return oneLine(decode[QuestionBody](p.Body).Question)
	case Decision:
		if b := decode[DecisionBody](p.Body); b.Verdict == Chosen {
			return oneLine(b.Choice)
		}
		return "the question was rejected"
	}
	return ""
}
