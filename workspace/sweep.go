package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"
)

// sweep removes the slots of a transaction. A slot may hold the staged file,
// which is ours, or a displaced one, whose content the store has; anything
// else was written by another process in the moment in which it changed places, and
// goes into the store first.
func (x *transaction) sweep(ctx context.Context) error {
	for i := range x.record.Steps {
		s := &x.record.Steps[i]
		parent, slot := splitPath(s.Slot)
		d, err := x.tree.dir(parent)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if o, ok := errors.AsType[*obstacle](err); ok && x.recovering {
			// Waiting would not make it a directory again.
			x.record.Left = append(x.record.Left, Skipped{Path: s.Path,
				Reason: o.Error() + ": " + slot + " may be left in what was there before"})
			continue
		}
		if err != nil {
			return err
		}
		for _, name := range []string{slot, slot + backupSuffix} {
			if err := x.sweepFile(ctx, i, d, name); err != nil {
				return fmt.Errorf("clear %s away: %w", s.Slot, err)
			}
		}
		x.w.at("swept " + s.Path)
	}
	return nil
}

func (x *transaction) sweepFile(ctx context.Context, i int, d *folder, name string) error {
	s := &x.record.Steps[i]
	n, err := d.stat(name)
	if err != nil || !n.exists() {
		return err
	}
	if x.record.State != Staging && !x.disposable(ctx, i, d, name, n) {
		if err := x.keep(ctx, d, name, s.Path); err != nil {
			return err
		}
		if x.receipt != nil {
			x.receipt.Kept = x.record.Kept
		}
	}
	return d.unlink(name)
}

// disposable reports whether nobody needs a slot's content.
func (x *transaction) disposable(ctx context.Context, i int, d *folder, name string, n node) bool {
	s := &x.record.Steps[i]
	if before, ok := x.checked[i]; ok && n.same(before.fact) && n.fact.Size == before.fact.Size &&
		n.fact.ModTime.Equal(before.fact.ModTime) && x.old(n) {
		return true
	}
	now, err := d.hashAt(ctx, name)
	if err != nil {
		return false
	}
	if now.fact.Hash == s.Pre.Hash || now.fact.Hash == s.Post.Hash && now.same(s.Post) {
		return true
	}
	return slices.ContainsFunc(x.record.Kept, func(kept KeptBytes) bool { return kept.Hash == now.fact.Hash })
}

// old reports whether a file was last written so long before the transaction
// began that a later write would show in its time.
func (x *transaction) old(n node) bool {
	return n.fact.ModTime.Before(x.record.Created.Add(-2 * time.Second))
}
