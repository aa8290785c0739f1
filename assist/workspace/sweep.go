package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"
)

// sweep removes the temporary files of a transaction. One may be the staged file, or
// a displaced file whose content is in the store. Any other was written by another
// process while the files were exchanged, and is saved in the store first.
func (x *transaction) sweep(ctx context.Context) error {
	for i := range x.record.Steps {
		s := &x.record.Steps[i]
		parent, temp := splitPath(s.Temp)
		d, err := x.tree.dir(parent)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if o, ok := errors.AsType[*obstacle](err); ok && x.recovering {
			// Waiting would not make it a directory again.
			x.record.Left = append(x.record.Left, Skipped{Path: s.Path,
				Reason: o.Error() + ": " + temp + " may be left in what was there before"})
			continue
		}
		if err != nil {
			return err
		}
		for _, name := range []string{temp, temp + backupSuffix} {
			if err := x.sweepFile(ctx, i, d, name); err != nil {
				return fmt.Errorf("clear %s away: %w", s.Temp, err)
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

// disposable reports whether a temporary file may be removed.
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
