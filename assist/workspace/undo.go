package workspace

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Undo proposes to undo a committed transaction: all of it, or the files and hunks with the
// ids in only ("f2", "f2:h1"). The id is that of [Receipt.Undo]; it is empty if the transaction
// changed nothing, which is [ErrNothing].
//
// A file that was edited since is merged, so that the later edits stay. Where they
// touch the transaction's, the file is a Conflict that shows both. A created file
// is deleted only if it is unchanged. The proposal is approved and committed like
// any other, and can be undone in turn.
func (w *Workspace) Undo(ctx context.Context, id string, only ...string) (*Proposal, error) {
	if id == "" {
		return nil, fmt.Errorf("%w: the transaction changed nothing; UndoLatest undoes the newest that did", ErrNothing)
	}
	return w.undo(ctx, only, func(records []*Record) string {
		if slices.ContainsFunc(records, func(r *Record) bool { return r.ID == id || r.Group == id }) {
			return id
		}
		return ""
	}, fmt.Errorf("transaction %q: %w among the committed ones of %s", id, ErrNotFound, w.root))
}

// UndoLatest proposes to undo the newest transaction that changed something and is not undone
// yet, as Undo does.
func (w *Workspace) UndoLatest(ctx context.Context, only ...string) (*Proposal, error) {
	return w.undo(ctx, only, newestToUndo, ErrNothing)
}

func (w *Workspace) undo(
	ctx context.Context, only []string, find func([]*Record) string, none error,
) (*Proposal, error) {
	id, records, err := w.newest(ctx, find)
	switch {
	case err != nil:
		return nil, err
	case id == "":
		return nil, none
	}
	origin := Origin{Kind: "undo", Reverts: id, Partial: len(only) > 0}
	return w.planRevert(ctx, origin, members(records, id), only)
}

// fewRecords is the number of records of the history that are read at first.
const fewRecords = 2

// newest reads committed transactions, the newest first, until find returns an id and
// all records of that transaction were read. Of a long history it reads only the
// necessary part.
func (w *Workspace) newest(ctx context.Context, find func([]*Record) string) (id string, records []*Record, err error) {
	for limit := fewRecords; ; limit *= 4 {
		if records, err = w.store.List(ctx, w.id, limit, Committed); err != nil {
			return "", nil, err
		}
		id = find(records)
		if all := len(records) < limit; all || id != "" && records[limit-1].ID != id && records[limit-1].Group != id {
			return id, records, nil
		}
	}
}

// Redo proposes to undo the newest undo that stands.
func (w *Workspace) Redo(ctx context.Context) (*Proposal, error) {
	id, records, err := w.newest(ctx, func(records []*Record) string {
		reverted := reversals(records)
		for _, r := range records {
			if r.Origin.Kind == "undo" && reverted[r.ID] == "" {
				return r.ID
			}
		}
		return ""
	})
	if err != nil {
		return nil, err
	}
	if id == "" {
		return nil, fmt.Errorf("%w: nothing was undone, or it was redone already", ErrNothing)
	}
	return w.planRevert(ctx, Origin{Kind: "redo", Reverts: id}, members(records, id), nil)
}

// UndoTo proposes to undo every transaction that came after the one with
// the id, as one.
func (w *Workspace) UndoTo(ctx context.Context, id string) (*Proposal, error) {
	records, err := w.store.List(ctx, w.id, 0, Committed)
	if err != nil {
		return nil, err
	}
	point := slices.IndexFunc(records, func(r *Record) bool { return r.ID == id || r.Group == id })
	if point < 0 {
		return nil, fmt.Errorf("transaction %q: %w in the history", id, ErrNotFound)
	}
	later := slices.DeleteFunc(slices.Clone(records[:point]),
		func(r *Record) bool { return len(r.Files) == 0 || r.Group == id })
	if len(later) == 0 {
		return nil, ErrNothing
	}
	return w.planRevert(ctx, Origin{Kind: "undo", Ref: id, Note: "back to " + id}, later, nil)
}

// newestToUndo returns the newest transaction that changed something, is no undo, and
// is not reverted.
func newestToUndo(records []*Record) string {
	reverted := reversals(records)
	// A transaction that was undone and redone is not reverted; its undo is.
	for _, r := range records {
		if r.Origin.Kind == "undo" || r.Origin.Kind == "redo" || r.Group != "" && r.Group != r.ID || reverted[r.ID] != "" {
			continue
		}
		if r.Receipt == nil || r.Receipt.Changed() {
			return r.ID
		}
	}
	return ""
}

// members returns the records of a transaction: itself, or those of the files
// that were committed one by one.
func members(records []*Record, id string) []*Record {
	var all []*Record
	for _, r := range records {
		if (r.ID == id || r.Group == id) && len(r.Files) > 0 {
			all = append(all, r)
		}
	}
	return all
}

// planRevert plans the reversal of transactions, the newest first.
func (w *Workspace) planRevert(
	ctx context.Context, origin Origin, records []*Record, only []string,
) (*Proposal, error) {
	if len(records) == 0 {
		return nil, fmt.Errorf("transaction %q: %w among the committed ones of %s", origin.Reverts, ErrNotFound, w.root)
	}
	pl, err := w.newPlanner()
	if err != nil {
		return nil, err
	}
	defer pl.tree.close()
	used := map[string]bool{}
	for _, r := range records {
		for i := range r.Files {
			f := &r.Files[i]
			hunks, wanted := chosen(f.ID, only, used)
			if !wanted || f.Op == OpUnchanged {
				continue
			}
			if err := w.fill(ctx, f); err != nil {
				return nil, fmt.Errorf("undo %s: %w", f.Path, err)
			}
			if err := pl.revert(ctx, f, hunks); err != nil {
				return nil, fmt.Errorf("undo %s: %w", f.Path, explain(err))
			}
		}
	}
	for _, id := range only {
		if !used[id] {
			return nil, fmt.Errorf("transaction %s has no file or hunk %q", origin.Reverts, id)
		}
	}
	p, err := pl.proposal(ctx, newID(), origin)
	if err != nil {
		return nil, err
	}
	for _, r := range slices.Backward(records) { // so that the deepest come last
		p.unmake = append(p.unmake, r.Made...)
	}
	return p, nil
}

// chosen reports whether a file is among the ids, and which of its hunks; nil
// is all.
func chosen(file string, only []string, used map[string]bool) (hunks []string, wanted bool) {
	if len(only) == 0 {
		return nil, true
	}
	whole := false
	for _, id := range only {
		f, hunk, one := strings.Cut(id, ":")
		if f != file {
			continue
		}
		used[id], wanted = true, true
		if !one {
			whole = true
		} else {
			hunks = append(hunks, hunk)
		}
	}
	if whole {
		hunks = nil
	}
	return hunks, wanted
}

// revert undoes one file of a transaction.
func (pl *planner) revert(ctx context.Context, f *FileChange, hunks []string) error {
	d, err := pl.draft(ctx, f.Path)
	if err != nil || d.refused() {
		return err
	}
	switch {
	case hunks != nil:
		return pl.revertHunks(ctx, d, f, hunks)
	case f.Op == OpCreate:
		pl.revertCreate(d, f)
	case f.Op == OpDelete:
		switch {
		case d.cur == nil:
			d.cur, d.mode = f.pre, f.Pre.Mode
		case d.cur.hash != f.Pre.Hash:
			d.find(Conflict, "undo.exists", "rename it, or skip this one",
				"the file was deleted, and somebody has made a new one of this name")
		}
	case f.Op == OpUpdate:
		if content := pl.reverted(d, d, f); content != nil {
			d.cur = content
			if d.mode = f.Pre.Mode; d.before.fact.Mode != f.Post.Mode && d.before.exists() && f.Post.Mode == f.Pre.Mode {
				d.mode = 0 // changed since, and not by the transaction
			}
		}
	case f.Op == OpRename:
		return pl.revertRename(ctx, d, f)
	}
	return nil
}

func (pl *planner) revertCreate(d *draft, f *FileChange) {
	switch {
	case d.cur == nil:
		d.find(Note, "undo.gone", "", "the file that was created is gone already")
	case d.cur.hash == f.Post.Hash:
		d.cur = nil
	default:
		d.find(Conflict, "undo.edited", "choose to remove it all the same, or skip it",
			"the file was created by the transaction, and somebody has edited it since: it is not removed")
		d.merge = &mergeSides{base: f.post, mine: d.cur}
	}
}

// reverted returns the content from before a change, with what was edited
// since; nil where there is nothing to undo.
func (pl *planner) reverted(d, source *draft, f *FileChange) *Content {
	switch {
	case source.cur == nil:
		d.find(Conflict, "undo.gone", "choose the former content, or skip it", "the file was deleted since")
		return f.pre
	case source.cur.hash == f.Post.Hash:
		return f.pre
	case source.cur.hash == f.Pre.Hash && source == d:
		return nil // reverted already
	case f.post == nil:
		d.find(Conflict, "undo.edited", "", "the file was changed since")
		return f.pre
	}
	return d.mergeIn(f.post, source.cur, f.pre, "since the transaction")
}

func (pl *planner) revertRename(ctx context.Context, d *draft, f *FileChange) error {
	source, err := pl.draft(ctx, f.From)
	if err != nil || source.refused() {
		return err
	}
	if source.cur != nil {
		source.find(Conflict, "undo.exists", "rename it, or skip this one", "somebody has made a new file of this name")
		return nil
	}
	content := pl.reverted(source, d, f)
	if d.cur == nil {
		source.cur, source.mode = content, f.Pre.Mode
		return nil
	}
	source.cur, d.cur = content, nil
	source.mode = f.Pre.Mode
	if d.pre != nil {
		source.from, d.movedTo = d, source
	}
	return nil
}

// revertHunks undoes some hunks of a text.
func (pl *planner) revertHunks(ctx context.Context, d *draft, f *FileChange, hunks []string) error {
	if f.Text == nil || f.post == nil || f.Text.Encoding == "unknown" {
		return fmt.Errorf("%w: it can only be reverted as a whole", ErrRefused)
	}
	if d.cur == nil {
		d.find(Conflict, "undo.gone", "", "the file was deleted since")
		return nil
	}
	var rest []string
	for i := range f.Hunks {
		if !slices.Contains(hunks, f.Hunks[i].ID) {
			rest = append(rest, f.Hunks[i].ID)
		}
	}
	if len(rest)+len(hunks) != len(f.Hunks) {
		return fmt.Errorf("there is no such hunk: the hunks are h1 to h%d", len(f.Hunks))
	}
	text, s, err := f.withHunks(ctx, rest, pl.w.limits.TextBytes)
	if err != nil {
		return err
	}
	without := Bytes(s.facts[1].encode(text))
	if d.cur.hash == f.Post.Hash {
		d.cur = without
		return nil
	}
	d.cur = d.mergeIn(f.post, d.cur, without, "since the transaction")
	return nil
}
