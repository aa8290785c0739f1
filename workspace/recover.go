package workspace

import (
	"context"
	"errors"
	"fmt"
)

// Recover finishes or reverses the transactions that a dead process left
// unfinished, and returns their records. Open and Commit do it by themselves.
func (w *Workspace) Recover(ctx context.Context) (recovered []*Record, err error) {
	unfinished, err := w.store.List(ctx, w.id, 0, Staging, Committing, Published)
	if err != nil || len(unfinished) == 0 {
		return nil, err
	}
	release, err := w.hold(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, release()) }()
	return w.recoverHeld(ctx)
}

// recoverHeld does it while the workspace is held, so that whatever is not at
// rest belongs to nobody.
func (w *Workspace) recoverHeld(ctx context.Context) ([]*Record, error) {
	unfinished, err := w.store.List(ctx, w.id, 0, Staging, Committing, Published)
	if err != nil {
		return nil, err
	}
	for _, record := range unfinished {
		before := record.State
		if err := w.recover(context.WithoutCancel(ctx), record); err != nil {
			return nil, fmt.Errorf("recover transaction %s: %w", record.ID, err)
		}
		w.log.WarnContext(ctx, "a transaction that had not ended was recovered", "root", w.root, "txn", record.ID,
			"was", string(before), "is", string(record.State), "left", len(record.Left), "kept", len(record.Kept))
	}
	return unfinished, nil
}

// recover brings one transaction to rest.
func (w *Workspace) recover(ctx context.Context, record *Record) (err error) {
	x := &transaction{w: w, record: record, files: record.Files, receipt: record.Receipt, fallback: Aborted,
		checked: map[int]node{}, recovering: true}
	if x.tree, err = newTree(w.root); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.tree.close()) }()
	switch record.State {
	case Staging:
		return x.settleAborted(x.abort(ctx, errUnfinished))
	case Published:
		return x.finish(ctx)
	}
	if x.receipt == nil {
		x.receipt = x.expected()
	}
	if cause := x.publish(ctx); cause != nil {
		return x.settleAborted(x.reverse(ctx, cause))
	}
	return x.finish(ctx)
}

var errUnfinished = errors.New("the process that did it ended")

// settleAborted drops the error of an abort that came to its end: it tells why
// the transaction was reversed, and for recovery that is no failure.
func (x *transaction) settleAborted(err error) error {
	if x.record.State == Aborted {
		return nil
	}
	return err
}

// check looks whether what a step displaced was what it should be: the process
// may have died between the two.
func (x *transaction) check(ctx context.Context, i int) error {
	s := &x.record.Steps[i]
	if !s.Pre.Exists {
		return nil
	}
	p, err := x.places(s)
	if err != nil {
		return ignoreMissing(err)
	}
	for _, name := range []string{p.slotName, p.aside} {
		n, err := p.slot.stat(name)
		if err != nil {
			return err
		}
		if n.exists() && !n.same(s.Post) && !x.isPre(ctx, i, p.slot, name) {
			return newClash(s, "was changed")
		}
	}
	return nil
}

// rest does the second half of a replacement.
func (x *transaction) rest(ctx context.Context, i int) error {
	s := &x.record.Steps[i]
	p, err := x.places(s)
	if err != nil {
		return err
	}
	if !x.isPre(ctx, i, p.slot, p.aside) {
		return newClash(s, "was changed")
	}
	return p.slot.move(p.slotName, p.target, p.name)
}
