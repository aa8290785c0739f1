package changes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/workspace"
)

// Scoped is Replies for the callers of a service: limited to the folders that the
// service was given, and to proposals as they were shown.
type Scoped struct {
	*Replies
	// Folders are the folders that callers may link with a project, subfolders included. A
	// project with another folder does not exist for callers.
	Folders []string
	// Mirrors is the directory of mirrors; "": there are none.
	Mirrors string
	// Wake has the sender look for posts at once.
	Wake func()
	// CheckAPI returns an error for an address to which callers may not have reports sent;
	// nil: any is good.
	CheckAPI func(ctx context.Context, api string) error
}

// ErrOutside is returned for a folder that callers may not link.
var ErrOutside = errors.New("the folder is none of those that this service was given with --workspace")

// Within reports whether root, a path without links, is one of the folders or
// below one.
func Within(folders []string, root string) bool {
	for _, folder := range folders {
		if real, err := filepath.EvalSymlinks(folder); err == nil {
			folder = real
		}
		if below, err := filepath.Rel(folder, root); err == nil && filepath.IsLocal(below) {
			return true
		}
	}
	return false
}

// Allows reports whether callers may use a folder.
func (r *Scoped) Allows(root string) bool { return Within(r.Folders, root) || r.Mirrored(root) }

// Linked returns the link of a project whose folder callers may use.
func (r *Scoped) Linked(ctx context.Context, owner, project string) (Link, error) {
	l, err := r.Store.Link(ctx, owner, project)
	if err == nil && !r.Allows(l.Root) {
		err = fmt.Errorf("a folder of the project %q: %w", project, ErrNotFound)
	}
	return l, err
}

// LinkFolder links a project with a folder that callers may link. Its errors do not tell
// what else is on the machine.
func (r *Scoped) LinkFolder(ctx context.Context, l Link) (Link, error) {
	root, err := filepath.EvalSymlinks(l.Root)
	if err != nil || !filepath.IsAbs(l.Root) || !Within(r.Folders, root) {
		return l, ErrOutside
	}
	if info, err := os.Stat(root); err != nil || !info.IsDir() {
		return l, fmt.Errorf("%w: it is not a folder", ErrInvalid)
	}
	if l.API != "" && r.CheckAPI != nil {
		if err := r.CheckAPI(ctx, l.API); err != nil {
			return l, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	l.Root = root
	return r.Link(ctx, l)
}

// OpenReply returns a message of an owner with the present states of its reports, and with
// its proposal while that can be approved. If the project's link was revoked, it sets the
// gate of an open message.
func (r *Scoped) OpenReply(ctx context.Context, owner, id string) (*ReplyRecord, *workspace.Proposal, error) {
	h, p, err := r.Open(ctx, owner, id)
	if err != nil {
		return nil, nil, err
	}
	if h.Root != "" && !r.Allows(h.Root) {
		return nil, nil, fmt.Errorf("the reply %q: %w", id, ErrNotFound)
	}
	if h.Done {
		return h, nil, r.Refresh(ctx, h)
	}
	return h, p, r.CloseUnlinked(ctx, h)
}

// CloseUnlinked sets the gate of an open message if its project is not linked with the
// folder any more: a link is consent, and can be revoked.
func (d *Replies) CloseUnlinked(ctx context.Context, h *ReplyRecord) error {
	if h.Done || h.Project == "" || h.Gate != "" || h.Root == "" {
		return nil
	}
	l, err := d.Store.Link(ctx, h.Owner, h.Project)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	if err != nil || l.Root != h.Root {
		h.Gate = "the project " + h.Project + " is not linked with this folder any more"
	}
	return nil
}

// Token identifies what the user was shown; "": it cannot be approved.
func Token(h *ReplyRecord, p *workspace.Proposal) string {
	switch {
	case h.Done || h.Gate != "":
		return ""
	case p == nil:
		return h.ID
	}
	return p.Token
}

// ConsentTo returns the consent to ids of files, "f1", of hunks, "f1:h2", and of reports,
// "p1".
func ConsentTo(h *ReplyRecord, p *workspace.Proposal, ids []string) (c Consent, err error) {
	c.Posts = []string{}
	var files []string
	for _, id := range ids {
		if number, ok := strings.CutPrefix(id, "p"); ok {
			n, err := strconv.Atoi(number)
			if err != nil || n < 1 || n > len(h.Batch.Posts) {
				return c, fmt.Errorf("%w: there is no report %q", ErrInvalid, id)
			}
			c.Posts = append(c.Posts, h.Batch.Posts[n-1].ID)
			continue
		}
		files = append(files, id)
	}
	if len(files) == 0 {
		return c, nil
	}
	if p == nil {
		return c, fmt.Errorf("%w: the reply changes no files", ErrInvalid)
	}
	if c.Approval, err = p.Approve(files...); err != nil && !errors.Is(err, workspace.ErrNeedsDecision) {
		err = fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return c, err
}

// Apply carries out the consent of a user who was shown the proposal of a token. After a
// conflict it makes a new proposal on the present files, for another approval.
func (r *Scoped) Apply(
	ctx context.Context, h *ReplyRecord, p *workspace.Proposal, token string, c Consent,
) (*Result, error) {
	if err := h.Closed(); err != nil {
		return nil, err
	}
	if token == "" || Token(h, p) != token {
		return nil, workspace.ErrStale
	}
	result, err := r.Approve(ctx, h, p, c)
	if err == nil {
		r.Wake()
		return result, nil
	}
	ctx = context.WithoutCancel(ctx)
	if failed := r.Fail(ctx, h, err); failed != nil {
		return nil, errors.Join(err, failed)
	}
	if errors.Is(err, workspace.ErrConflict) {
		if _, failed := r.Rebase(ctx, h, p); failed != nil {
			return nil, errors.Join(err, failed)
		}
	}
	return nil, err
}

// Evidence returns what would become of a file that a submission names, if the user approved
// all of the proposal that can be approved.
func (d *Replies) Evidence(h *ReplyRecord, p *workspace.Proposal, evidence string) assignment.FileState {
	r := &workspace.Receipt{}
	if p != nil {
		for i := range p.Files {
			f := &p.Files[i]
			switch verdict := f.Verdict(); {
			case verdict == workspace.Refuse, verdict == workspace.Conflict, f.Op == workspace.OpDelete:
				r.FilesSkipped = append(r.FilesSkipped, workspace.Skipped{Path: f.Path})
			default:
				r.FilesUpdated = append(r.FilesUpdated, f.Path)
			}
		}
	}
	return evidenceState(h.Root, r, evidence)
}
