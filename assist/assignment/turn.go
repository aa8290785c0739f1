package assignment

import (
	"fmt"
	"time"
)

// What happens to a post between its turn and its end.

// Next returns the first post if it may be tried now, else nil. wake is then when it may
// be tried, zero if only the user can change that.
func (l *Lane) Next(now time.Time) (p *Post, wake time.Time) {
	queue := l.queue()
	if len(queue) == 0 || queue[0].State == DeadLetter {
		return nil, time.Time{}
	}
	if head := queue[0]; head.NotBefore.After(now) {
		return nil, head.NotBefore
	}
	return queue[0], time.Time{}
}

// Claim marks the next post as being sent and returns it, nil if none is due. The caller
// must call Finish before the lease ends.
func (l *Lane) Claim(now time.Time, lease time.Duration) *Post {
	p, _ := l.Next(now)
	if p == nil {
		return nil
	}
	if p.State == Sending { // the process that sent it died
		p.Unsure = true
	}
	if p.First.IsZero() {
		p.First = now
	}
	p.State, p.NotBefore = Sending, now.Add(lease)
	p.Attempts++
	claimed := *p
	return &claimed
}

// Outcome is how an attempt to send a post ended.
type Outcome struct {
	Sent       bool
	DeadLetter bool
	Retry      time.Duration // otherwise: wait this long
	Unsure     bool          // the request may have arrived
	Untried    bool          // nothing was sent at all: the attempt does not count
	Problem    string
}

// Finish records the outcome of the attempt that Claim began.
func (l *Lane) Finish(claimed *Post, o Outcome, now time.Time) {
	if claimed == nil { // none was due
		return
	}
	p := l.Post(claimed.ID)
	if p == nil || p.State.Final() {
		return
	}
	if o.Sent { // also when the lease had ended: the API has it
		p.finish(Sent, now, "")
		l.accepted(p, now)
		return
	}
	if p.State != Sending || p.Attempts != claimed.Attempts {
		return // another sender has claimed it
	}
	p.Problem = o.Problem
	p.Unsure = p.Unsure || o.Unsure
	if o.Untried {
		p.Attempts--
	}
	if o.DeadLetter {
		p.State, p.NotBefore = DeadLetter, time.Time{}
		return
	}
	p.State, p.NotBefore = Pending, now.Add(o.Retry)
}

// accepted updates the lane after the API has accepted a post.
func (l *Lane) accepted(p *Post, now time.Time) {
	switch p.Kind {
	case Progress:
		l.Status.Accepted = decode[ProgressBody](p.Body).Percent
		if l.Status.Work == Complete && l.Status.Accepted < 100 {
			l.Status.Work = Open
		}
	case Submission:
		l.Status.Work = Complete
	case Question:
		if e := l.Escalation(p.Escalation); e != nil {
			e.Posted = true
		}
	case Decision:
		if e := l.Escalation(p.Escalation); e != nil && e.Answer != nil {
			e.Answer.Posted = true
		}
	}
	l.Status.Updated = now
}

// RetryNow makes a post due now that waits for its next attempt or is a dead letter.
func (l *Lane) RetryNow(id string, now time.Time) error {
	p := l.Post(id)
	switch {
	case p == nil:
		return ErrNotFound
	case p.State == Pending:
		p.NotBefore = now
	case p.State == DeadLetter:
		p.State, p.NotBefore, p.First = Pending, now, time.Time{}
	case p.State == Held:
		return &StateError{*p, "it waits for somebody: confirm it, or drop it"}
	default:
		return &StateError{*p, "there is nothing to try again"}
	}
	return nil
}

// Confirm releases a held post, unless it waits for an escalation.
func (l *Lane) Confirm(id string, now time.Time) error {
	p := l.Post(id)
	switch {
	case p == nil:
		return ErrNotFound
	case p.State != Held:
		return &StateError{*p, "only a held post can be confirmed"}
	}
	reasons := len(p.Holds)
	switch {
	case p.unhold(HoldConfirm, HoldEvidence):
		l.release(p, now)
	case len(p.Holds) == reasons:
		return &StateError{*p, p.Holds[0].Detail}
	}
	return nil
}

// Drop marks a post as not to be sent.
func (l *Lane) Drop(id string, now time.Time) error {
	p := l.Post(id)
	switch {
	case p == nil:
		return ErrNotFound
	case p.State.Final():
		return &StateError{*p, "there is nothing to drop"}
	case p.State == Sending && p.NotBefore.After(now):
		return &StateError{*p, "it is on its way at this moment"}
	}
	wasSubmitted := p.Kind == Submission && l.Status.Work == Submitted
	p.finish(Dropped, now, p.Problem)
	if wasSubmitted {
		l.Status.Work = Open
	}
	return nil
}

// StateError says that a post's state does not allow something.
type StateError struct {
	Post   Post
	Reason string
}

func (e *StateError) Error() string {
	return fmt.Sprintf("the %s of %s is %s: %s", e.Post.Kind, e.Post.Assignment, e.Post.State, e.Reason)
}
