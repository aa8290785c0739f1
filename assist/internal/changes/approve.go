package changes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/reply"
	"github.com/airlock-run/airlock/assist/workspace"
)

// Consent is what a user agreed to.
type Consent struct {
	// Approval names the files. It has none for a reply that changes none.
	Approval workspace.Approval
	// Posts are the ids of the reports to send; nil: all.
	Posts []string
	// BestEffort makes each file a transaction of its own.
	BestEffort bool
}

// CoveredBy returns the consent that a policy gives to a reply, and the files that the
// policy does not cover. If there are any, the consent holds with bestEffort only, for
// the other files.
func CoveredBy(policy workspace.Policy, p *workspace.Proposal, bestEffort bool) (Consent, []workspace.Held) {
	c := Consent{BestEffort: bestEffort}
	if p == nil {
		return c, nil
	}
	var held []workspace.Held
	c.Approval, held = p.ApproveBy(policy)
	// the policy leaves them out
	held = slices.DeleteFunc(held, func(h workspace.Held) bool { return h.Kind == workspace.Note })
	return c, held
}

// Covers reports whether the consent from CoveredBy is valid.
func (c Consent) Covers(held []workspace.Held) bool {
	return len(held) == 0 || c.BestEffort && len(c.Approval.Files) > 0
}

// Approve carries out what the user agreed to, and saves the result with the message.
// After an error nothing is changed. After a *workspace.ConflictError, Rebase makes a new
// proposal.
func (d *Replies) Approve(ctx context.Context, h *ReplyRecord, p *workspace.Proposal, c Consent) (*Result, error) {
	if err := h.Closed(); err != nil {
		return nil, err
	}
	batch := h.Batch
	if c.Posts != nil {
		batch.Posts = slices.DeleteFunc(slices.Clone(batch.Posts),
			func(p assignment.Post) bool { return !slices.Contains(c.Posts, p.ID) })
	}
	var result *Result
	attach := func(r *workspace.Receipt) (json.RawMessage, error) {
		warned := len(batch.Warnings)
		batch.CheckEvidence(func(evidence string) assignment.FileState { return evidenceState(h.Root, r, evidence) })
		h.Batch.Warnings = append(h.Batch.Warnings, batch.Warnings[warned:]...)
		return json.Marshal(assignment.Attachment{Reports: batch})
	}
	if p != nil && len(c.Approval.Files) > 0 {
		w, err := d.Workspace(ctx, p.Root)
		if err != nil {
			return nil, err
		}
		receipt, err := w.Commit(ctx, p, c.Approval, workspace.CommitOptions{BestEffort: c.BestEffort, Attach: attach})
		if err != nil {
			return nil, err
		}
		result = newResult(h) // with the warnings about evidence
		result.files(receipt)
	} else {
		if _, err := attach(leftAll(p)); err != nil {
			return nil, err
		}
		if _, err := d.Outbox.Add(ctx, batch); err != nil {
			return nil, err
		}
		result = newResult(h)
		result.FilesSkipped = leftAll(p).FilesSkipped
		result.fill()
	}
	result.State = Applied
	h.Result, h.Done = result, true
	return result, d.Refresh(context.WithoutCancel(ctx), h)
}

// leftAll returns the receipt of a proposal of which no file was approved.
func leftAll(p *workspace.Proposal) *workspace.Receipt {
	r := &workspace.Receipt{}
	if p != nil {
		for i := range p.Files {
			if f := &p.Files[i]; f.Op != workspace.OpUnchanged {
				r.FilesSkipped = append(r.FilesSkipped, workspace.Skipped{Path: f.Path, Reason: "not approved"})
			}
		}
	}
	return r
}

// evidenceState returns the state of a file that a submission names.
func evidenceState(root string, r *workspace.Receipt, evidence string) assignment.FileState {
	name := path.Clean(strings.TrimPrefix(strings.ReplaceAll(evidence, "\\", "/"), "./"))
	if strings.Contains(evidence, "://") || strings.ContainsAny(evidence, "\n\t") || !fs.ValidPath(name) ||
		!strings.ContainsAny(name, "./") || strings.Contains(name, " ") {
		return assignment.NoFile
	}
	for _, lists := range [][]workspace.Skipped{r.FilesSkipped, r.Conflicts, r.Errors} {
		if slices.ContainsFunc(lists, func(s workspace.Skipped) bool { return s.Path == name }) {
			return assignment.Left
		}
	}
	if slices.Contains(r.FilesCreated, name) || slices.Contains(r.FilesUpdated, name) ||
		slices.ContainsFunc(r.FilesRenamed, func(f workspace.Renamed) bool { return f.To == name }) {
		return assignment.Present
	}
	folder, err := os.OpenRoot(root)
	if err != nil {
		return assignment.Missing
	}
	defer folder.Close()
	if _, err := folder.Lstat(name); err != nil {
		return assignment.Missing
	}
	return assignment.Present
}

// Rebase makes and saves a new proposal after a conflict, merged with the present files.
// It needs another approval.
func (d *Replies) Rebase(ctx context.Context, h *ReplyRecord, p *workspace.Proposal) (*workspace.Proposal, error) {
	w, err := d.Workspace(ctx, p.Root)
	if err != nil {
		return nil, err
	}
	next, err := w.Rebase(ctx, p)
	if err != nil {
		return nil, err
	}
	return next, d.Keep(ctx, h, next)
}

// Revise saves a proposal that the user has edited, and clears the errors of the one
// before it.
func (d *Replies) Revise(ctx context.Context, h *ReplyRecord, p *workspace.Proposal) error {
	h.Result = newResult(h)
	return d.Keep(ctx, h, p)
}

// Decline declines a message. Nothing is changed or reported.
func (d *Replies) Decline(ctx context.Context, h *ReplyRecord, reason string) error {
	if h.Done {
		return h.doneError()
	}
	if h.Root != "" {
		w, err := d.Workspace(ctx, h.Root)
		if err != nil {
			return err
		}
		if err := w.Discard(ctx, h.ID); err != nil && !errors.Is(err, workspace.ErrNotFound) {
			return err
		}
	}
	h.Done, h.Result.State, h.Result.Reason = true, Declined, reason
	return d.Store.PutReplyRecord(ctx, h)
}

// Fail saves with a message why applying it failed. It can be approved again.
func (d *Replies) Fail(ctx context.Context, h *ReplyRecord, cause error) error {
	h.Result = newResult(h)
	h.Result.State = Failed
	if conflict, ok := errors.AsType[*workspace.ConflictError](cause); ok {
		for _, f := range conflict.Files {
			h.Result.Conflicts = append(h.Result.Conflicts, workspace.Skipped{Path: f.Path, Reason: f.Reason})
		}
	}
	h.Result.Errors = append(h.Result.Errors, cause.Error())
	return d.Store.PutReplyRecord(ctx, h)
}

// Refresh updates the states of a message's reports, and saves it.
func (d *Replies) Refresh(ctx context.Context, h *ReplyRecord) error {
	if len(h.Batch.Posts) > 0 && h.Result.State == Applied {
		lanes, err := d.Outbox.Lanes(ctx, assignment.Query{API: h.API, Project: h.Project})
		if err != nil {
			return err
		}
		h.Result.posts(h.Batch, lanes)
	}
	return d.Store.PutReplyRecord(ctx, h)
}

// Undo proposes to undo the changes of a message, or only the files and hunks with the
// ids. It saves the proposal as a message of its own, without reports.
func (d *Replies) Undo(ctx context.Context, h *ReplyRecord, only ...string) (*ReplyRecord, *workspace.Proposal, error) {
	if h.Result.State != Applied || h.Result.Undo == "" {
		return nil, nil, fmt.Errorf("%w: the reply is %s", workspace.ErrNothing, h.Result.State)
	}
	w, err := d.Workspace(ctx, h.Root)
	if err != nil {
		return nil, nil, err
	}
	p, err := w.Undo(ctx, h.Result.Undo, only...)
	if err != nil {
		return nil, nil, err
	}
	next, err := d.KeepRevert(ctx, Link{Owner: h.Owner, Project: h.Project, API: h.API}, p)
	return next, p, err
}

// KeepRevert saves an undo or a redo in the folder of a project as a message of its own,
// without reports.
func (d *Replies) KeepRevert(ctx context.Context, l Link, p *workspace.Proposal) (*ReplyRecord, error) {
	h := &ReplyRecord{ID: p.ID, Owner: l.Owner, Created: d.Now(), Message: p.Origin.Reverts, Kind: p.Origin.Kind,
		Project: l.Project, API: l.API, Root: p.Root}
	h.Result = newResult(h)
	return h, d.Keep(ctx, h, p)
}

// Unlinked plans a reply in an empty folder, so that the rules of paths hold. The proposal
// can be shown and written by WriteZip, but not committed.
func (d *Replies) Unlinked(ctx context.Context, r *reply.Reply) (_ *workspace.Proposal, err error) {
	empty, err := os.MkdirTemp("", "airlock-unlinked-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(empty)
	w, err := d.Workspace(ctx, empty)
	if err != nil {
		return nil, err
	}
	return w.Plan(ctx, workspace.Origin{Kind: "reply", Ref: r.SHA256}, workspace.FromReply(r)...)
}
