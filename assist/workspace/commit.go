package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/airlock-run/airlock/internal/outputrules"
)

// CommitOptions are the options of a commit.
type CommitOptions struct {
	// BestEffort makes each file a transaction of its own, so that one failure
	// stops no other; the receipt lists the failures in Errors and Conflicts.
	BestEffort bool
	// Attach returns data to save with the transaction, in the same step in which it
	// becomes Committed (Record.Attached). It is called before anything is published, with
	// the expected receipt; with BestEffort, once, at the end. An error stops the commit.
	Attach func(*Receipt) (json.RawMessage, error)
}

// Commit commits the approved files: all of them, or none.
//
// The error is a *ConflictError if a file has changed since the proposal was made, ErrStale
// if the approval is for another proposal, ErrNeedsDecision or ErrRefused for a file that
// cannot be committed, ErrBusy if another commit into the folder takes too long. After any
// error nothing is changed, unless the error reports a change that could not be reversed.
//
// Once every file is staged, the end of the context does not interrupt the commit
// any more.
func (w *Workspace) Commit(
	ctx context.Context, p *Proposal, a Approval, options CommitOptions,
) (receipt *Receipt, err error) {
	if p.Root != w.root {
		return nil, fmt.Errorf("the proposal is for %s, not for %s", p.Root, w.root)
	}
	files, err := p.approved(ctx, a, w.limits.TextBytes)
	if err != nil {
		return nil, err
	}
	release, err := w.hold(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, release()) }()
	return w.commit(ctx, p, files, options)
}

// commit commits files while the workspace is locked.
func (w *Workspace) commit(
	ctx context.Context, p *Proposal, files []FileChange, options CommitOptions,
) (*Receipt, error) {
	if _, err := w.recoverHeld(ctx); err != nil {
		return nil, err
	}
	kept, err := w.store.Load(ctx, p.ID)
	switch {
	case errors.Is(err, ErrNotFound):
		kept = nil
	case err != nil:
		return nil, err
	case kept.State != Proposed && kept.State != Aborted:
		return nil, fmt.Errorf("%w: it is %s already", ErrStale, kept.State)
	}
	if options.BestEffort {
		return w.commitEach(ctx, p, files, options)
	}
	x := w.newTransaction(p, p.ID, files)
	x.fallback = Aborted
	if kept != nil && kept.State == Proposed {
		x.fallback = Proposed
	}
	return x.run(ctx, options.Attach)
}

// commitEach commits each file in a transaction of its own, and saves one record
// without files that stands for all of them.
func (w *Workspace) commitEach(
	ctx context.Context, p *Proposal, files []FileChange, options CommitOptions,
) (*Receipt, error) {
	all := newReceipt(p.ID)
	for i := range files {
		x := w.newTransaction(p, newID(), files[i:i+1])
		x.record.Group, x.fallback = p.ID, Aborted
		r, err := x.run(ctx, nil)
		var conflict *ConflictError
		switch {
		case err == nil:
			all.add(r)
		case errors.As(err, &conflict):
			for _, f := range conflict.Files {
				all.Conflicts = append(all.Conflicts, Skipped{Path: f.Path, Reason: f.Reason})
			}
			all.Kept = append(all.Kept, conflict.Kept...)
		default:
			all.Errors = append(all.Errors, Skipped{Path: files[i].Path, Reason: err.Error()})
		}
	}
	all.State = Committed
	all.skip(p, files)
	if all.Changed() {
		all.Undo = p.ID
	}
	record := w.record(p, p.ID)
	record.State, record.Group, record.Receipt = Committed, p.ID, all
	if options.Attach != nil {
		attached, err := options.Attach(all)
		if err != nil {
			return all, err
		}
		record.Attached = attached
	}
	return all, w.store.Save(context.WithoutCancel(ctx), record)
}

// record returns a new record of a proposal.
func (w *Workspace) record(p *Proposal, id string) *Record {
	now := time.Now().UTC()
	return &Record{ID: id, Workspace: w.id, State: Staging, Created: now, Updated: now, Root: w.root,
		Origin: p.Origin, Key: p.key, Findings: p.Findings, Unmake: p.unmake}
}

// transaction is a commit in progress, or its recovery.
type transaction struct {
	w          *Workspace
	tree       *tree
	record     *Record
	files      []FileChange
	proposal   *Proposal
	receipt    *Receipt
	recovering bool
	fallback   State        // what the record becomes if it is reversed
	checked    map[int]node // by step: the displaced file, as it was when it was compared
}

func (w *Workspace) newTransaction(p *Proposal, id string, files []FileChange) *transaction {
	x := &transaction{w: w, record: w.record(p, id), files: files, proposal: p, checked: map[int]node{}}
	x.record.Files = withoutHunks(files)
	return x
}

// withoutHunks returns files as they are saved: hunks are computed from contents.
func withoutHunks(files []FileChange) []FileChange {
	files = slices.Clone(files)
	for i := range files {
		files[i].Hunks = nil
	}
	return files
}

// save saves the record in a new state.
func (x *transaction) save(ctx context.Context, state State, contents ...*Content) error {
	x.record.State, x.record.Updated = state, time.Now().UTC()
	if err := x.w.store.Save(ctx, x.record, contents...); err != nil {
		return fmt.Errorf("keep the journal: %w", explain(err))
	}
	return nil
}

// run carries out a transaction.
func (x *transaction) run(
	ctx context.Context, attach func(*Receipt) (json.RawMessage, error),
) (receipt *Receipt, err error) {
	if x.tree, err = newTree(x.w.root); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, x.tree.close()) }()
	contents, err := x.verify(ctx)
	if err != nil {
		return nil, err
	}
	x.receipt = x.expected()
	if attach != nil {
		if x.record.Attached, err = attach(x.receipt); err != nil {
			return nil, err
		}
	}
	if err := x.plan(); err != nil {
		return nil, explain(err)
	}
	if err := x.save(ctx, Staging); err != nil {
		return nil, err
	}
	x.w.at("intent")
	if err := x.stage(ctx); err != nil {
		return nil, x.abort(ctx, explain(err))
	}
	x.w.at("staged")
	// From here on the commit is not interrupted.
	done := context.WithoutCancel(ctx)
	if err := ctx.Err(); err != nil {
		return nil, x.abort(done, err)
	}
	if err := x.save(done, Committing, contents...); err != nil {
		return nil, x.abort(done, err)
	}
	x.w.at("committing")
	if err := x.publish(done); err != nil {
		return nil, x.reverse(done, explain(err))
	}
	return x.receipt, x.finish(done)
}

// finish makes a published transaction durable and removes displaced files.
func (x *transaction) finish(ctx context.Context) error {
	if err := x.sync(); err != nil {
		return x.reverse(ctx, explain(err))
	}
	x.w.at("synced")
	x.record.Receipt = x.receipt
	if err := x.save(ctx, Published); err != nil {
		return fmt.Errorf("every file is changed, but that could not be written down: %w", err)
	}
	x.w.at("published")
	if err := x.sweep(ctx); err != nil {
		return fmt.Errorf("every file is changed; files beginning with %q are left over and are cleared away later: %w",
			outputrules.TempPrefix, explain(err))
	}
	for _, dir := range slices.Backward(x.record.Unmake) {
		x.rmdir(dir)
	}
	x.w.at("swept")
	x.record.Receipt.State = Committed
	if err := x.save(ctx, Committed); err != nil {
		return fmt.Errorf("every file is changed, but that could not be written down: %w", err)
	}
	x.w.at("committed")
	return nil
}

// abort ends a transaction that has published nothing.
func (x *transaction) abort(ctx context.Context, cause error) error {
	ctx = context.WithoutCancel(ctx)
	err := x.sweep(ctx)
	if err == nil {
		err = x.atRest(ctx)
	}
	if err != nil {
		return fmt.Errorf("nothing was changed: %w (and what was prepared is cleared away later: %w)", cause, err)
	}
	var conflict *ConflictError
	if errors.As(cause, &conflict) {
		return cause
	}
	return fmt.Errorf("nothing was changed: %w", cause)
}

// atRest saves a reversed transaction in its earlier state, or as aborted.
func (x *transaction) atRest(ctx context.Context) error {
	x.record.Steps, x.record.Made, x.record.Receipt, x.record.Attached = nil, nil, nil, nil
	if x.fallback == Proposed {
		x.record.Files, x.record.Findings = withoutHunks(x.proposal.Files), x.proposal.Findings
		x.record.Created, x.record.Bases = x.proposal.Created, bases(x.proposal.Files)
	}
	return x.save(ctx, x.fallback)
}
