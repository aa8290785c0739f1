package assignment

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// ProgressBody is the body of a progress post.
type ProgressBody struct {
	Percent   int      `json:"progress_percent"`
	Notes     string   `json:"progress_notes"`
	Remaining []string `json:"remaining_items"`
}

// SubmissionBody is the body of a submission.
type SubmissionBody struct {
	Summary  string   `json:"submission_summary"`
	Evidence []string `json:"submission_evidence"`
}

// QuestionBody is the body of an escalation.
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

// DecisionBody is the body of the answer to an escalation.
type DecisionBody struct {
	Choice  string    `json:"choice"`
	Note    string    `json:"note,omitempty"`
	Verdict Verdict   `json:"verdict"`
	By      string    `json:"decided_by,omitempty"`
	At      time.Time `json:"decided_at"`
}

// encode returns a body of this package as JSON. Lists are never null.
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
		panic("assignment: a body cannot be encoded: " + err.Error())
	}
	return text
}

func decode[T any](text json.RawMessage) (body T) {
	// What encode wrote, or what the API told: fields that do not fit are
	// left empty, and then compare as different.
	_ = json.Unmarshal(text, &body)
	return body
}

// with returns a newer progress with the notes of this one before its own.
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

// Percent returns the percentage that a post reports. ok is false if it reports none.
func (p *Post) Percent() (percent int, ok bool) {
	if p.Kind != Progress {
		return 0, false
	}
	return decode[ProgressBody](p.Body).Percent, true
}

// Summary returns a line that tells a person what a post reports.
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
