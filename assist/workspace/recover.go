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

// recoverHeld recovers while the workspace is locked, so that no process works on
// the transactions that are not at rest.
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

// recover finishes or reverses one transaction.
func (w *Workspace) recover(ctx context.Context, record *Record) (err error) {
	x := &transaction{w: w, record: record, files: record.Files, receipt: record.Receipt, fallback: Aborted,
		checked: map[int]node{}, recovering: true}
	if x.tree, err = newTree(w.root); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.tree.close()) }()
	switch record.State {
	case Staging:
		return x.ignoreAborted(x.abort(ctx, errUnfinished))
	case Published:
		return x.finish(ctx)
	}
	if x.receipt == nil {
		x.receipt = x.expected()
	}
	if cause := x.publish(ctx); cause != nil {
		return x.ignoreAborted(x.reverse(ctx, cause))
	}
	return x.finish(ctx)
}

var errUnfinished = errors.New("the process that did it ended")

// ignoreAborted drops the error of a complete abort: it says why the transaction was
// reversed, which is no failure of the recovery.
func (x *transaction) ignoreAborted(err error) error {
	if x.record.State == Aborted {
		return nil
	}
	return err
}

// check checks the file that a step displaced: the process may have died before it
// did.
func (x *transaction) check(ctx context.Context, i int) error {
	s := &x.record.Steps[i]
	if !s.Pre.Exists {
		return nil
	}
	p, err := x.places(s)
	if err != nil {
		return ignoreMissing(err)
	}
	for _, name := range []string{p.tempName, p.aside} {
		n, err := p.temp.stat(name)
		if err != nil {
			return err
		}
		if n.exists() && !n.same(s.Post) && !x.isPre(ctx, i, p.temp, name) {
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
	if !x.isPre(ctx, i, p.temp, p.aside) {
		return newClash(s, "was changed")
	}
	return p.temp.move(p.tempName, p.target, p.name)
}
