package changes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/reply"
	"github.com/airlock-run/airlock/assist/workspace"
	"github.com/airlock-run/airlock/internal/outputrules"
)

// Options configure Replies. All but Log and Now are required.
type Options struct {
	Store   Store
	Journal workspace.Store
	Outbox  *assignment.Outbox
	// Protected are directories that no reply may write to, such as that of the journal.
	Protected []string
	Log       *slog.Logger
	Now       func() time.Time
}

// Replies proposes, approves and applies replies of models. Its methods may be called
// concurrently.
type Replies struct {
	Options
}

// NewReplies returns Replies with these options.
func NewReplies(o Options) *Replies {
	if o.Now == nil {
		o.Now = func() time.Time { return time.Now().UTC() }
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return &Replies{o}
}

// Workspace opens the workspace of a folder.
func (d *Replies) Workspace(ctx context.Context, root string) (*workspace.Workspace, error) {
	return workspace.Open(ctx, root, workspace.Options{Store: d.Journal, Protected: d.Protected, Log: d.Log})
}

// Link links a project with a folder.
func (d *Replies) Link(ctx context.Context, l Link) (Link, error) {
	if !assignment.ValidID(l.Project) {
		return l, fmt.Errorf("%w: %q cannot be the id of a project: letters, digits, '.', '_' and '-', at most 64",
			ErrInvalid, l.Project)
	}
	if l.API != "" {
		api, err := assignment.CheckAPI(l.API)
		if err != nil {
			return l, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		l.API = api
	}
	w, err := d.Workspace(ctx, l.Root)
	if err != nil {
		return l, err
	}
	l.Root, l.Created = w.Root(), d.Now()
	return l, d.Store.PutLink(ctx, l)
}

// Propose reads a message and plans what it would do. The proposal has no files if the
// reply has none, and is nil if there is no folder. Nothing is saved yet.
func (d *Replies) Propose(
	ctx context.Context, owner string, m Message, r *reply.Reply,
) (*ReplyRecord, *workspace.Proposal, error) {
	h := &ReplyRecord{Owner: owner, Created: d.Now(), Message: m.ID, Project: m.Project, API: m.API, Root: m.Root,
		Phase: m.Phase, Notes: r.Warnings}
	h.Message = cmp.Or(h.Message, r.SHA256)
	if err := d.gate(ctx, h); err != nil {
		return nil, nil, err
	}
	if err := d.reports(h, m, r); err != nil {
		return nil, nil, err
	}
	var p *workspace.Proposal
	if h.Root != "" {
		var err error
		if p, err = d.plan(ctx, h, m, r); err != nil {
			return nil, nil, err
		}
		h.ID, h.Root = p.ID, p.Root
	} else {
		h.ID = assignment.NewID()
	}
	h.Shown = shown(r, m.Only)
	if err := d.preview(ctx, h); err != nil {
		return nil, nil, err
	}
	h.Result = newResult(h)
	if h.Gate != "" {
		h.Result.State, h.Result.Reason, h.Done = ShownOnly, h.Gate, true
	}
	if p == nil && h.Gate == "" && len(r.Proposals()) > 0 {
		return nil, nil, errors.New("a reply with files needs a folder")
	}
	return h, p, nil
}

// gate finds the folder, and sets h.Gate if nothing may be applied.
func (d *Replies) gate(ctx context.Context, h *ReplyRecord) error {
	if h.Project != "" {
		if !assignment.ValidID(h.Project) {
			return fmt.Errorf("%w: %q cannot be the id of a project", ErrInvalid, h.Project)
		}
		link, err := d.Store.Link(ctx, h.Owner, h.Project)
		switch {
		case errors.Is(err, ErrNotFound):
			if h.Root == "" {
				h.Gate = "the project " + h.Project + " has no folder: `airlock workspace link " + h.Project + " DIR` gives it one"
			}
		case err != nil:
			return err
		default:
			if h.Root == "" {
				h.Root, h.ByLink = link.Root, true
			}
			h.API = cmp.Or(h.API, link.API)
		}
	}
	if h.API != "" {
		api, err := assignment.CheckAPI(h.API)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		h.API = api
	}
	if !executes(h.Phase) {
		h.Gate = fmt.Sprintf("the conversation is in phase %s, and replies are applied in EXECUTE (E) only",
			strings.TrimSpace(h.Phase))
	}
	return nil
}

// reports sets the batch of a reply.
func (d *Replies) reports(h *ReplyRecord, m Message, r *reply.Reply) error {
	var blocks []*reply.Item
	for _, it := range r.Items {
		if it.Kind == reply.KindBlock {
			blocks = append(blocks, it)
		}
	}
	h.Batch = assignment.NewBatch(blocks, assignment.Source{
		API: h.API, Project: h.Project, Reply: h.Message, Assignments: m.Assignments})
	unlinked := h.Project == "" || h.API == ""
	for i := range h.Batch.Posts {
		if p := &h.Batch.Posts[i]; p.Kind == assignment.Question && (unlinked || h.Gate != "") {
			e := assignment.EscalationOf(p)
			q := QuestionOf(&e)
			q.Unsent = true
			h.Questions = append(h.Questions, q)
		}
	}
	if len(h.Batch.Posts) > 0 && unlinked {
		h.Batch.Warnings = append(h.Batch.Warnings, english.Plural(len(h.Batch.Posts), "report", "")+
			" of the reply cannot be sent: name the project with --project and its API with --api")
		h.Batch.Posts = nil
	}
	return nil
}

// plan plans the changes of the folder.
func (d *Replies) plan(ctx context.Context, h *ReplyRecord, m Message, r *reply.Reply) (*workspace.Proposal, error) {
	w, err := d.Workspace(ctx, h.Root)
	if err != nil {
		return nil, err
	}
	changes := workspace.FromReply(r)
	changes = slices.DeleteFunc(changes, func(c workspace.Change) bool {
		return !wanted(m.Only, c.Path) && (c.To == "" || !wanted(m.Only, c.To))
	})
	return w.Plan(ctx, workspace.Origin{Kind: "reply", Ref: h.Message}, changes...)
}

// wanted reports whether one of the user's patterns, in the language of a workspace's
// policy, matches a path.
func wanted(patterns []string, path string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns,
		func(pattern string) bool { return pattern == path || outputrules.MatchPath(pattern, path) })
}

// shown lists the items of a reply that are neither changes nor reports.
func shown(r *reply.Reply, only []string) []Shown {
	var list []Shown
	for _, it := range r.Items {
		s := Shown{Path: it.Path, Verdict: it.Verdict, Reason: it.Reason, Offset: it.Span.Start}
		switch it.Kind {
		case reply.KindBlock:
			s.Block = it.Block.Type
			reported := s.Block == reply.BlockProgress || s.Block == reply.BlockSubmission || s.Block == reply.BlockEscalation
			if reported && it.Verdict != reply.VerdictExample && it.Verdict != reply.VerdictDuplicate &&
				it.Verdict != reply.VerdictSuperseded {
				continue // a post, or a problem of the batch
			}
			s.Reason = cmp.Or(s.Reason, "is for people and is not sent")
		default:
			if _, change := workspace.FromItem(it); change && wanted(only, it.Path) {
				continue
			}
			s.Reason = cmp.Or(s.Reason, "is left out")
			s.Path = cmp.Or(s.Path, it.RawPath)
		}
		list = append(list, s)
	}
	return list
}

// preview adds warnings about the reports, given earlier ones.
func (d *Replies) preview(ctx context.Context, h *ReplyRecord) error {
	entries, err := d.Outbox.Preview(ctx, h.Batch)
	if err != nil {
		return err
	}
	for _, e := range entries {
		h.Batch.Warnings = append(h.Batch.Warnings, e.Warnings...)
		if e.Repeated {
			h.Batch.Warnings = append(h.Batch.Warnings, fmt.Sprintf(
				"the %s of %s was reported before and is %s: it is not reported again", e.Kind, e.Assignment, e.State))
		}
	}
	return nil
}

// Keep saves a message and its proposal, so that it can be approved later or by another
// process.
func (d *Replies) Keep(ctx context.Context, h *ReplyRecord, p *workspace.Proposal) error {
	if p != nil && h.Gate == "" {
		w, err := d.Workspace(ctx, p.Root)
		if err != nil {
			return err
		}
		if err := w.Propose(ctx, p); err != nil {
			return err
		}
	}
	return d.Store.PutReplyRecord(ctx, h)
}

// Open returns a saved message, with its proposal while that can be approved.
func (d *Replies) Open(ctx context.Context, owner, id string) (*ReplyRecord, *workspace.Proposal, error) {
	h, err := d.Store.ReplyRecord(ctx, owner, id)
	if err != nil || h.Done || h.Root == "" {
		return h, nil, err
	}
	w, err := d.Workspace(ctx, h.Root)
	if err != nil {
		return nil, nil, err
	}
	p, err := w.Proposal(ctx, id)
	if errors.Is(err, workspace.ErrStale) { // its transaction ended, and its process died before it saved that
		return h, nil, d.recover(ctx, w, h)
	}
	return h, p, err
}

// recover records with a message the outcome of its transaction.
func (d *Replies) recover(ctx context.Context, w *workspace.Workspace, h *ReplyRecord) error {
	_, record, err := w.Transaction(ctx, h.ID)
	if err != nil || record.State != workspace.Committed || record.Receipt == nil {
		return err
	}
	h.Result.State, h.Done = Applied, true
	h.Result.files(record.Receipt)
	return d.Refresh(ctx, h)
}
