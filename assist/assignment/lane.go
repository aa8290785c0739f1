package assignment

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Lane is the state of one assignment. Its posts are sent in the order of their Seq,
// one at a time. Its methods are the rules of the outbox. A Store loads a lane,
// calls one of them, and saves it.
type Lane struct {
	LaneID
	Posts       []Post
	Escalations []Escalation
	Status      Status
}

// Status is how far an assignment is.
type Status struct {
	// Percent is what was reported last, Accepted what the API has taken.
	Percent  int       `json:"percent"`
	Accepted int       `json:"accepted_percent"`
	Work     Work      `json:"work"`
	Updated  time.Time `json:"updated,omitzero"`
}

// Work is the state of an assignment.
type Work string

// The states of an assignment.
const (
	Open      Work = "open"
	Submitted Work = "submitted" // reported as done; the API has not taken it yet
	Complete  Work = "complete"  // the API has taken the submission
)

// keepFinal is how long final posts are kept, with the keys by which a repeated report
// is detected.
const keepFinal = 90 * 24 * time.Hour

// Entry is the result of adding a post to a lane.
type Entry struct {
	Post
	// Repeated is set when the post was there before: nothing was added.
	Repeated bool
	Warnings []string
}

// Add adds posts to the lane, in order. A post that the lane has already, in any state
// but Dropped, is not added again.
func (l *Lane) Add(posts []Post, now time.Time) []Entry {
	l.Posts = slices.DeleteFunc(l.Posts, func(p Post) bool { return p.State.Final() && now.Sub(p.Done) > keepFinal })
	var entries []Entry
	for _, p := range posts {
		if known := l.duplicateOf(p); known != nil {
			entries = append(entries, Entry{Post: *known, Repeated: true})
			continue
		}
		l.Posts = slices.DeleteFunc(l.Posts, func(old Post) bool { return old.Key == p.Key })
		entry := Entry{Warnings: l.warnings(p)}
		p.Created = now
		l.Posts = append(l.Posts, p)
		last := &l.Posts[len(l.Posts)-1]
		if len(p.Holds) > 0 {
			last.State = Held
		} else {
			l.release(last, now)
		}
		entry.Post = *last
		entries = append(entries, entry)
	}
	return entries
}

// duplicateOf returns the post in the lane with the same content, nil for none.
func (l *Lane) duplicateOf(p Post) *Post {
	return first(l.Posts, func(old *Post) bool {
		asked := p.Kind == Question && old.Kind == Question && old.Escalation == p.Escalation
		return (old.Key == p.Key || asked) && old.State != Dropped
	})
}

// first returns the first element that matches, nil for none.
func first[T any](list []T, match func(*T) bool) *T {
	for i := range list {
		if match(&list[i]) {
			return &list[i]
		}
	}
	return nil
}

// warnings returns how a post contradicts earlier reports.
func (l *Lane) warnings(p Post) []string {
	if p.Kind != Progress {
		return nil
	}
	percent := decode[ProgressBody](p.Body).Percent
	var doubts []string
	if percent < l.Status.Percent {
		doubts = append(doubts, fmt.Sprintf("%s goes back from %d %% to %d %%", l.Assignment, l.Status.Percent, percent))
	}
	if l.Status.Work == Complete {
		doubts = append(doubts, l.Assignment+" was complete already")
	}
	return doubts
}

// release gives a post its place in the order.
func (l *Lane) release(p *Post, now time.Time) {
	p.Holds = nil
	switch p.Kind {
	case Progress:
		body := decode[ProgressBody](p.Body)
		if old := l.last(); old != nil && old.Kind == Progress && old.State == Pending && !old.Unsure {
			body = decode[ProgressBody](old.Body).with(body)
			p.Body = encode(body)
			old.finish(Merged, now, "")
		}
		l.Status.Percent, l.Status.Updated = body.Percent, now
		l.Status.Work = cmp.Or(l.Status.Work, Open)
	case Submission:
		if e := l.open(); e != nil {
			p.Seq = 0
			p.hold(HoldEscalation, "waits for the answer to: "+e.Question)
			return
		}
		l.Status.Work, l.Status.Updated = Submitted, now
	case Question:
		l.ask(p, now)
	}
	p.Seq = l.top() + 1
	p.State, p.NotBefore = Pending, now
}

// ask opens the escalation of a question, and holds submissions that were not sent.
func (l *Lane) ask(p *Post, now time.Time) {
	body := decode[QuestionBody](p.Body)
	body.Asked = now
	p.Body = encode(body)
	if l.Escalation(p.Escalation) == nil {
		l.Escalations = append(l.Escalations, EscalationOf(p))
	}
	question := l.Escalation(p.Escalation).Question
	for i := range l.Posts {
		if s := &l.Posts[i]; s.Kind == Submission && s.State == Pending {
			s.Seq = 0
			s.hold(HoldEscalation, "waits for the answer to: "+question)
		}
	}
}

// Escalation returns the escalation with the id, nil for none.
func (l *Lane) Escalation(id string) *Escalation {
	return first(l.Escalations, func(e *Escalation) bool { return e.ID == id })
}

// open returns an escalation that has no answer yet, nil for none.
func (l *Lane) open() *Escalation {
	return first(l.Escalations, func(e *Escalation) bool { return e.Answer == nil })
}

func (l *Lane) top() (seq int64) {
	for _, p := range l.Posts {
		seq = max(seq, p.Seq)
	}
	return seq
}

// queue returns the posts that have a place in the order, in order.
func (l *Lane) queue() []*Post {
	var queue []*Post
	for i := range l.Posts {
		if p := &l.Posts[i]; p.State == Pending || p.State == Sending || p.State == DeadLetter {
			queue = append(queue, p)
		}
	}
	slices.SortFunc(queue, func(a, b *Post) int { return cmp.Compare(a.Seq, b.Seq) })
	return queue
}

func (l *Lane) last() *Post {
	queue := l.queue()
	if len(queue) == 0 {
		return nil
	}
	return queue[len(queue)-1]
}

// Waiting reports whether a post is Pending or Sending.
func (l *Lane) Waiting() bool {
	return slices.ContainsFunc(l.Posts, func(p Post) bool { return p.State == Pending || p.State == Sending })
}

// Post returns the post with the id, nil for none.
func (l *Lane) Post(id string) *Post {
	return first(l.Posts, func(p *Post) bool { return p.ID == id })
}

// Answered closes an escalation and queues the decision. The first answer
// counts: a later one gets an AnsweredError with it.
func (l *Lane) Answered(id string, answer Answer, now time.Time) error {
	e := l.Escalation(id)
	if e == nil {
		return ErrNotFound
	}
	if e.Answer != nil {
		return &AnsweredError{*e}
	}
	answer.At = now
	e.Answer = &answer
	asked := slices.IndexFunc(l.Posts, func(p Post) bool { return p.Kind == Question && p.Escalation == id })
	if asked >= 0 && l.Posts[asked].State != Dropped {
		body := encode(DecisionBody{Choice: answer.Choice, Note: answer.Note, Verdict: answer.Verdict, By: answer.By,
			At: now})
		l.Posts = append(l.Posts, Post{
			ID: NewID(), Key: NewKey(l.LaneID, Decision, body, id), LaneID: l.LaneID, Kind: Decision, Body: body, Escalation: id,
			Created: now,
		})
		l.release(&l.Posts[len(l.Posts)-1], now)
	}
	if l.open() == nil {
		l.clearHolds(now, HoldEscalation)
	}
	return nil
}

// clearHolds removes reasons to hold posts, and releases those that have none left.
func (l *Lane) clearHolds(now time.Time, reasons ...Reason) {
	for i := range l.Posts {
		if p := &l.Posts[i]; p.State == Held && p.unhold(reasons...) {
			l.release(p, now)
		}
	}
}
