package workspace

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/airlock-run/airlock/internal/archive"
)

// Choice resolves a file in conflict.
type Choice string

// The choices.
const (
	Mine   Choice = "mine"   // leave the file in the folder as it is
	Theirs Choice = "theirs" // take the proposed content, replacing the folder's
	Edited Choice = "edited" // take the content that comes with the choice
	Skip   Choice = "skip"   // drop the file from the proposal
)

// Resolve returns the proposal with a file resolved, and a new token. The id of one
// of the file's readings is a choice, too. Edited takes any content, also for a
// file that is not in conflict. A file that a rule refuses can only be skipped.
func (w *Workspace) Resolve(
	ctx context.Context, p *Proposal, file string, choice Choice, content []byte,
) (*Proposal, error) {
	next := p.clone()
	f := next.File(file)
	if f == nil {
		return nil, fmt.Errorf("the proposal has no file %q", file)
	}
	if choice == Skip || choice == Mine {
		next.Files = slices.DeleteFunc(next.Files, func(f FileChange) bool { return f.ID == file })
		next.Token = next.token()
		return next, nil
	}
	if f.Verdict() == Refuse {
		return nil, f.approvable()
	}
	switch choice {
	case Theirs:
		if f.post == nil && f.Op == OpUnchanged {
			return nil, fmt.Errorf("%w: %s has no proposed content to take", ErrNeedsDecision, f.Path)
		}
		if f.merge != nil {
			f.post = f.merge.theirs
		}
	case Edited:
		if f.post = Bytes(content); f.post.size > w.limits.TextBytes && isText(content) {
			return nil, fmt.Errorf("%w: %s: %d bytes are more than a text file may have (%d) (quota.size)", ErrRefused, f.Path,
				f.post.size, w.limits.TextBytes)
		}
	default:
		i := slices.IndexFunc(f.Readings, func(r Reading) bool { return r.ID == string(choice) })
		if i < 0 {
			return nil, fmt.Errorf("there is no choice %q", choice)
		}
		f.post = f.Readings[i].Content
	}
	return next, w.replan(ctx, next, f)
}

// replan recomputes the change of a file whose content was chosen.
func (w *Workspace) replan(ctx context.Context, p *Proposal, f *FileChange) error {
	f.Findings = slices.DeleteFunc(f.Findings, func(f Finding) bool { return f.Severity == Conflict })
	if f.post != nil {
		limit := w.limits.BinaryBytes
		if f.post.size > limit {
			return fmt.Errorf("%w: %s: %d bytes are more than %d (quota.size)", ErrRefused, f.Path, f.post.size, limit)
		}
		if !f.Post.Exists {
			f.Post = Fact{Exists: true, Mode: 0o666}
		}
		f.Post.Hash, f.Post.Size = f.post.hash, f.post.size
	}
	switch {
	case f.Op == OpRename:
	case f.pre == nil:
		f.Op = OpCreate
	case f.post == nil:
		f.Op = OpDelete
	case f.pre.hash == f.post.hash:
		f.Op = OpUnchanged
	default:
		f.Op = OpUpdate
	}
	if f.Pre.Exists && f.Post.Exists && f.Op == OpUpdate {
		f.Post.Mode = f.Pre.Mode
	}
	if err := f.describe(ctx, w.limits.TextBytes); err != nil {
		return err
	}
	f.Checked = f.checkable()
	p.Token = p.token()
	return nil
}

func (p *Proposal) clone() *Proposal {
	next := *p
	next.Files = slices.Clone(p.Files)
	for i := range next.Files {
		next.Files[i].Findings = slices.Clone(next.Files[i].Findings)
	}
	next.Findings = slices.Clone(p.Findings)
	return &next
}

// Rebase returns the proposal for the files as they are now. A file that was changed
// since is merged by its three versions: a clean merge needs a look, an overlap is
// a conflict. The id stays, the token does not.
func (w *Workspace) Rebase(ctx context.Context, p *Proposal) (*Proposal, error) {
	pl, err := w.newPlanner()
	if err != nil {
		return nil, err
	}
	defer pl.tree.close()
	for i := range p.Files {
		if err := pl.rebase(ctx, &p.Files[i]); err != nil {
			return nil, fmt.Errorf("rebase %s: %w", p.Files[i].Path, explain(err))
		}
	}
	next, err := pl.proposal(ctx, p.ID, p.Origin)
	if err != nil {
		return nil, err
	}
	next.Created, next.unmake = p.Created, p.unmake
	return next, nil
}

// carried reports whether a finding is about the change itself, so that another look
// at the folder does not find it again.
func carried(f Finding) bool {
	switch f.Rule {
	case "change.doubt", "change.note", "change.refused", "edit.failed", "text.encoding", "path.replaced",
		"path.container", "edit.inexact", "edit.creates", "write.empty", elidedRule, "write.shrinks", "binary.replaced":
		return true
	}
	return f.Severity == Refuse
}

func (pl *planner) rebase(ctx context.Context, f *FileChange) error {
	if f.Verdict() == Refuse { // its path may be unusable
		d := &draft{id: f.ID, path: f.Path, findings: f.Findings, changes: f.Changes}
		pl.drafts["?"+f.ID] = d
		pl.order = append(pl.order, d)
		return nil
	}
	d, err := pl.draft(ctx, f.Path)
	if err != nil {
		return err
	}
	d.id, d.asked = f.ID, true
	if d.refused() {
		return nil
	}
	source := d
	if f.Op == OpRename {
		if source, err = pl.draft(ctx, f.From); err != nil || source.refused() {
			return err
		}
		if d.cur != nil && source.cur == nil && d.cur.hash == f.Post.Hash {
			return nil // it was renamed since
		}
		if d.cur != nil {
			d.find(Conflict, "rename.exists", "", "a file of this name exists, so %s cannot take its place", f.From)
			return nil
		}
	}
	d.changes, d.readings = append(d.changes, f.Changes...), pl.rebasedReadings(source.cur, f)
	for _, finding := range f.Findings {
		if carried(finding) {
			d.find(finding.Severity, finding.Rule, finding.Hint, "%s", finding.Message)
		}
	}
	post, err := pl.rebased(d, source, f)
	if err != nil {
		return err
	}
	if f.Post.Mode != 0 && (f.Pre.Mode != f.Post.Mode || f.Op == OpCreate) {
		d.mode = f.Post.Mode
		if f.Op == OpCreate && (d.mode == 0o666 || d.mode == 0o777) {
			d.mode, d.exec = 0, d.mode == 0o777
		}
	}
	if f.Op == OpRename {
		source.cur = nil
		d.from, source.movedTo = source, d
	}
	if f.Op != OpUnchanged || worst(d.findings) == Conflict {
		d.cur = post
	}
	return nil
}

// rebasedReadings returns the readings that merge with the file as it is now.
func (pl *planner) rebasedReadings(now *Content, f *FileChange) []Reading {
	if f.pre == nil || now == nil || now.hash == f.pre.hash {
		return f.Readings
	}
	var all []Reading
	for _, r := range f.Readings {
		if merged, conflicts, ok := mergeContents(f.pre, now, r.Content); ok && conflicts == 0 {
			r.Content = Bytes(merged)
			all = append(all, r)
		}
	}
	return pl.offer(all)
}

// rebased returns the content that a file should have now.
func (pl *planner) rebased(d, source *draft, f *FileChange) (*Content, error) {
	now := source.cur
	switch {
	case now == nil && f.pre == nil, now != nil && f.pre != nil && now.hash == f.pre.hash:
		return f.post, nil
	case now != nil && f.post != nil && now.hash == f.post.hash && f.Op != OpRename:
		return now, nil
	case now == nil:
		if f.post != nil {
			d.find(Conflict, "merge.gone", "choose the proposed file, or skip it",
				"the file was deleted since the proposal was made")
		}
		return f.post, nil
	case f.post == nil:
		d.find(Conflict, "merge.changed", "choose to delete it all the same, or skip it",
			"the file was changed since the proposal to delete it was made")
		return nil, nil
	case f.pre == nil:
		return d.mergeIn(Bytes(nil), now, f.post, "since the proposal was made"), nil
	}
	return d.mergeIn(f.pre, now, f.post, "since the proposal was made"), nil
}

// WriteZip writes the proposed contents of the files with the ids as a ZIP archive.
// Without ids it writes all that are not refused.
func (p *Proposal) WriteZip(ctx context.Context, to io.Writer, ids ...string) error {
	z, names := zip.NewWriter(to), archive.Names{}
	for i := range p.Files {
		f := &p.Files[i]
		if f.post == nil || f.Verdict() == Refuse || len(ids) > 0 && !slices.Contains(ids, f.ID) {
			continue
		}
		header := &zip.FileHeader{Name: names.Name(f.Path), Method: zip.Deflate, Modified: p.Created}
		header.SetMode(f.Post.Mode &^ 0o022)
		out, err := z.CreateHeader(header)
		if err != nil {
			return err
		}
		if err := f.post.writeTo(ctx, out); err != nil {
			return errors.Join(fmt.Errorf("archive %s: %w", f.Path, err), z.Close())
		}
	}
	return z.Close()
}
