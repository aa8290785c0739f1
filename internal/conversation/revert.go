package conversation

import (
	"context"
	"os"

	"github.com/airlock-run/airlock/reply"
	"github.com/airlock-run/airlock/workspace"
)

// KeepRevert saves an undo or a redo in the folder of a project as a record of its
// own. It reports nothing to the project.
func (d *Replies) KeepRevert(ctx context.Context, l Link, p *workspace.Proposal) (*ReplyRecord, error) {
	h := &ReplyRecord{ID: p.ID, Owner: l.Owner, Created: d.Now(), Message: p.Origin.Reverts, Kind: p.Origin.Kind,
		Project: l.Project, API: l.API, Root: p.Root}
	h.Result = newResult(h)
	return h, d.Keep(ctx, h, p)
}

// Unlinked works out what a reply would make where there is no folder: on an
// empty one, so that the rules of paths hold. The proposal is for looking, and
// for WriteZip; it cannot be committed anywhere.
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
