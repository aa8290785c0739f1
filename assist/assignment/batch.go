package assignment

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/airlock-run/airlock/assist/reply"
)

// Source is the project and the reply of a report.
type Source struct {
	API     string // address of the project's API; see CheckAPI
	Project string
	// Reply is the id of the reply, such as a message's id or the hash of its
	// text: the same report in another reply is another report.
	Reply string
	// Assignments are those that the model was given; empty: any may be named.
	Assignments []string
}

// Batch is what a reply reports.
type Batch struct {
	Posts    []Post    `json:"posts"`
	Problems []Problem `json:"problems,omitempty"` // blocks that give no post
	Warnings []string  `json:"warnings,omitempty"`
}

// Problem is a block that cannot be posted.
type Problem struct {
	Block  string `json:"block"`          // "PROGRESS UPDATE"
	Item   string `json:"item,omitempty"` // the id of the item in the reply
	Offset int    `json:"offset"`         // where the block begins, in bytes
	Reason string `json:"reason"`
}

var idPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
})

// ValidID reports whether a text can be the id of a project or an assignment:
// a letter or a digit, and up to 63 more, with ".", "_" and "-".
func ValidID(id string) bool { return idPattern().MatchString(id) }

// NewBatch returns the posts of the status blocks of a reply: progress first, then
// escalations, then submissions. It ignores blocks that report nothing to an API,
// such as a stand-up. An uncertain submission is held.
func NewBatch(items []*reply.Item, s Source) Batch {
	b := Batch{}
	for _, it := range items {
		if it == nil || it.Kind != reply.KindBlock || it.Block == nil {
			continue
		}
		switch it.Block.Type {
		case reply.BlockProgress, reply.BlockSubmission, reply.BlockEscalation:
		default:
			continue
		}
		switch it.Verdict {
		case reply.VerdictOK, reply.VerdictAmbiguous:
			b.addPosts(it, s)
		case reply.VerdictExample, reply.VerdictDuplicate, reply.VerdictSuperseded:
		default:
			b.problem(it, "%s", it.Reason)
		}
	}
	b.collide()
	slices.SortStableFunc(b.Posts, func(x, y Post) int {
		return slices.Index(order[:], x.Kind) - slices.Index(
			order[:], y.Kind)
	})
	b.check()
	return b
}

// order is the order in which the posts of a reply are queued.
var order = [...]Kind{Progress, Question, Submission}

func (b *Batch) problem(it *reply.Item, format string, args ...any) {
	b.Problems = append(b.Problems, Problem{Block: it.Block.Type, Item: it.ID, Offset: it.Span.Start,
		Reason: fmt.Sprintf(format, args...)})
}

// addPosts makes the posts of one block.
func (b *Batch) addPosts(it *reply.Item, s Source) {
	ids := it.Block.IDs
	if len(ids) == 0 {
		if it.Block.Type != reply.BlockEscalation {
			b.problem(it, "it names no assignment")
			return
		}
		ids = []string{""}
	}
	for _, id := range ids {
		switch {
		case id != "" && !ValidID(id):
			b.problem(it, "%q cannot be the id of an assignment", id)
			continue
		case id != "" && len(s.Assignments) > 0 && !slices.Contains(s.Assignments, id):
			b.problem(it, "%s is not one of the assignments of this work: %s", id, strings.Join(s.Assignments, ", "))
			continue
		}
		p := Post{ID: NewID(), LaneID: LaneID{API: s.API, Project: s.Project, Assignment: id}, Reply: s.Reply}
		if !b.fill(&p, it) {
			continue
		}
		p.Key = NewKey(p.LaneID, p.Kind, p.Body, s.Reply)
		if len(ids) > 1 {
			p.hold(HoldConfirm, fmt.Sprintf("one block names %d assignments: %s", len(ids), strings.Join(ids, ", ")))
		}
		if p.Kind != Question && it.Verdict == reply.VerdictAmbiguous && len(ids) == 1 &&
			(p.Kind == Submission || !it.Block.Recovered) {
			p.hold(HoldConfirm, it.Reason)
		}
		b.Posts = append(b.Posts, p)
	}
}

// fill sets the kind and the body of a block's post. It reports whether the block
// gives one.
func (b *Batch) fill(p *Post, it *reply.Item) bool {
	block := it.Block
	switch block.Type {
	case reply.BlockProgress:
		if block.Percent == nil {
			b.problem(it, "it has no percentage that can be read")
			return false
		}
		if v := block.Percent.Value; v < 0 || v > 100 {
			b.problem(it, "%d %% is not from 0 to 100", v)
			return false
		}
		if note := block.Percent.Note; note != "" {
			b.Warnings = append(b.Warnings, fmt.Sprintf("%s: %q was read as %d %% (%s)", p.Assignment, block.Percent.Raw,
				block.Percent.Value, note))
		}
		p.Kind = Progress
		p.Body = encode(ProgressBody{Percent: block.Percent.Value, Notes: block.Text(reply.KeyCompleted),
			Remaining: block.List(reply.KeyNext)})
	case reply.BlockSubmission:
		p.Kind = Submission
		body := SubmissionBody{Summary: block.Text(reply.KeySummary), Evidence: block.List(reply.KeyEvidence)}
		p.Body = encode(body)
		if block.Recovered {
			p.hold(HoldConfirm, "the block has no END, so that it may have been cut off")
		}
		if body.Summary == "" {
			p.hold(HoldConfirm, "it has no summary")
		}
	case reply.BlockEscalation:
		body := QuestionBody{Assignment: p.Assignment, Question: block.Text(reply.KeyDecisionNeeded),
			Recommendation: block.Text(reply.KeyRecommendation), Rationale: block.Text(reply.KeyRationale),
			Deadline: block.Text(reply.KeyDeadline)}
		if body.Question == "" {
			b.problem(it, "it does not say what is to be decided")
			return false
		}
		for _, o := range block.Options {
			body.Options = append(body.Options, o.Text)
			if o.Recommended && body.Recommendation == "" {
				body.Recommendation = o.Text
			}
		}
		body.ID = escalationID(p.LaneID, body.Question)
		p.Kind, p.Escalation, p.Body = Question, body.ID, encode(body)
	}
	return true
}

// collide resolves two reports of one reply about one assignment: the last progress
// counts, and submissions that differ are held.
func (b *Batch) collide() {
	var kept []Post
	for i, p := range b.Posts {
		later := b.Posts[i+1:]
		same := func(other Post) bool { return other.LaneID == p.LaneID && other.Kind == p.Kind }
		switch {
		case slices.ContainsFunc(later, func(other Post) bool { return same(other) && other.Key == p.Key }):
			continue
		case p.Kind == Progress && slices.ContainsFunc(later, same):
			b.Warnings = append(b.Warnings, "the reply reports progress of "+p.Assignment+
				" more than once: the last report counts")
			continue
		case p.Kind == Submission && slices.ContainsFunc(later, same),
			p.Kind == Submission && slices.ContainsFunc(kept, same):
			p.hold(HoldConfirm, "the reply submits "+p.Assignment+" more than once, with different words")
		}
		kept = append(kept, p)
	}
	b.Posts = kept
}

// check warns of assignments at 100 % without a submission.
func (b *Batch) check() {
	for _, p := range b.Posts {
		done := p.Kind == Progress && decode[ProgressBody](p.Body).Percent == 100
		if done && !slices.ContainsFunc(b.Posts, func(s Post) bool { return s.Kind == Submission && s.LaneID == p.LaneID }) {
			b.Warnings = append(b.Warnings, p.Assignment+" is at 100 % but was not submitted")
		}
	}
}

// FileState is what became of a file that a submission names as evidence.
type FileState int

// The states of evidence.
const (
	NoFile  FileState = iota // not the name of a file, such as an address
	Present                  // it is in the folder, or will be after the commit
	Missing                  // nothing has that name
	Left                     // the reply had it, and it was not written
)

// CheckEvidence holds every submission whose evidence names a file that was not
// written, and warns of evidence that does not exist. With a nil look none exists.
func (b *Batch) CheckEvidence(look func(evidence string) FileState) {
	if look == nil {
		look = func(string) FileState { return Missing }
	}
	for i := range b.Posts {
		p := &b.Posts[i]
		if p.Kind != Submission {
			continue
		}
		for _, e := range decode[SubmissionBody](p.Body).Evidence {
			switch look(e) {
			case Missing:
				b.Warnings = append(b.Warnings, fmt.Sprintf("the submission of %s names %s as evidence, which is not in the folder",
					p.Assignment, e))
			case Left:
				p.hold(HoldEvidence, e+" was not written")
			}
		}
	}
}

// Lanes returns the lanes that the batch is about, each once, in order.
func (b *Batch) Lanes() []LaneID {
	var lanes []LaneID
	for _, p := range b.Posts {
		if !slices.Contains(lanes, p.LaneID) {
			lanes = append(lanes, p.LaneID)
		}
	}
	return lanes
}

// In returns the posts of a lane.
func (b *Batch) In(lane LaneID) []Post {
	var posts []Post
	for _, p := range b.Posts {
		if p.LaneID == lane {
			posts = append(posts, p)
		}
	}
	return posts
}

// Attachment is attached to a transaction of a workspace (see
// workspace.CommitOptions.Attach). A store of both queues the posts in the same
// step in which the transaction becomes Committed.
type Attachment struct {
	Reports Batch `json:"reports"`
}
