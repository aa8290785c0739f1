package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// Propose saves a proposal and its contents in the store, so that it can be approved
// later or by another process.
func (w *Workspace) Propose(ctx context.Context, p *Proposal) error {
	record := w.record(p, p.ID)
	record.State, record.Created, record.Files = Proposed, p.Created, withoutHunks(p.Files)
	record.Bases = bases(p.Files)
	var contents []*Content
	for i := range p.Files {
		f := &p.Files[i]
		if f.pre != nil && (f.Text != nil || f.merge != nil) {
			contents = append(contents, f.pre)
		}
		if f.post != nil {
			contents = append(contents, f.post)
		}
		if record.Bases[f.ID].Exists {
			contents = append(contents, f.merge.base)
		}
		for _, r := range f.Readings {
			contents = append(contents, r.Content)
		}
	}
	kept, err := w.store.Load(ctx, p.ID)
	if err == nil && kept.State != Proposed && kept.State != Aborted {
		return fmt.Errorf("%w: it is %s already", ErrStale, kept.State)
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	return w.store.Save(ctx, record, contents...)
}

// Proposal returns a proposal that Propose saved.
func (w *Workspace) Proposal(ctx context.Context, id string) (*Proposal, error) {
	record, err := w.load(ctx, id)
	if err != nil {
		return nil, err
	}
	if record.State != Proposed {
		return nil, fmt.Errorf("%w: it is %s", ErrStale, record.State)
	}
	return w.proposalOf(ctx, record)
}

// load returns a record of this workspace.
func (w *Workspace) load(ctx context.Context, id string) (*Record, error) {
	record, err := w.store.Load(ctx, id)
	if err == nil && record.Workspace != w.id {
		err = fmt.Errorf("transaction %s: %w in %s: it belongs to %s", id, ErrNotFound, w.root, record.Root)
	}
	return record, err
}

// proposalOf returns the proposal of a record, with its contents and hunks.
func (w *Workspace) proposalOf(ctx context.Context, record *Record) (*Proposal, error) {
	p := &Proposal{ID: record.ID, Root: record.Root, Created: record.Created, Origin: record.Origin,
		Files: record.Files, Findings: record.Findings, key: record.Key, unmake: record.Unmake}
	for i := range p.Files {
		if err := w.fill(ctx, &p.Files[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", p.Files[i].Path, err)
		}
		if base, ok := record.Bases[p.Files[i].ID]; ok {
			f := &p.Files[i]
			f.merge = &mergeSides{mine: f.pre, theirs: f.post}
			if f.Op == OpUnchanged { // an edited file that an undo would remove
				f.merge.theirs = nil
			}
			var err error
			if f.merge.base, err = w.kept(ctx, base); err != nil {
				return nil, fmt.Errorf("%s: %w", f.Path, err)
			}
		}
	}
	p.Token = p.token()
	return p, nil
}

// fill loads the contents of a file of a record, as far as the store has them, and
// computes its hunks.
func (w *Workspace) fill(ctx context.Context, f *FileChange) error {
	var err error
	if f.pre, err = w.kept(ctx, f.Pre); err != nil {
		return err
	}
	if f.post, err = w.kept(ctx, f.Post); err != nil {
		return err
	}
	for i := range f.Readings {
		if f.Readings[i].Content, err = w.kept(ctx, f.Readings[i].Post); err != nil {
			return err
		}
	}
	if f.Text == nil {
		return nil
	}
	s, err := f.sides(ctx, w.limits.TextBytes)
	if err != nil || !s.ok {
		return err
	}
	f.Hunks, f.Added, f.Removed = diffText(s.before, s.after)
	return nil
}

// kept returns a content from the store. It is in memory if it is small.
func (w *Workspace) kept(ctx context.Context, fact Fact) (*Content, error) {
	if !fact.Exists || fact.Hash.IsZero() {
		return nil, nil
	}
	c := keptContent(w.store, fact.Hash, fact.Size)
	if fact.Size > w.limits.TextBytes {
		return c, nil
	}
	data, err := c.Bytes(ctx, w.limits.TextBytes)
	if errors.Is(err, ErrNotFound) {
		return c, nil // such as the bytes of a binary file that is in the folder
	}
	if err != nil {
		return nil, err
	}
	return Bytes(data), nil
}

// Discard marks a saved proposal as discarded.
func (w *Workspace) Discard(ctx context.Context, id string) error {
	record, err := w.load(ctx, id)
	if err != nil {
		return err
	}
	if record.State != Proposed {
		return fmt.Errorf("%w: it is %s", ErrStale, record.State)
	}
	record.State, record.Updated = Discarded, time.Now().UTC()
	return w.store.Save(ctx, record)
}

// Transaction is an entry of the history.
type Transaction struct {
	*Record
	// Reverted is the transaction that undid this one as a whole, "" if there is
	// none, or if it was undone in turn.
	Reverted string `json:"reverted,omitempty"`
	// AppliedBy is, for a proposal, a later transaction of the same reply that changed all of its files and that nobody
	// has reverted: there is nothing left to approve. It is found if History is asked for committed ones, too.
	AppliedBy string `json:"applied_by,omitempty"`
}

// History returns the transactions in the given states, the newest first. Without
// states it returns the committed ones. Limit 0 means no limit.
func (w *Workspace) History(ctx context.Context, limit int, states ...State) ([]Transaction, error) {
	if len(states) == 0 {
		states = []State{Committed}
	}
	records, err := w.store.List(ctx, w.id, 0, states...)
	if err != nil {
		return nil, err
	}
	reverted := reversals(records)
	var all []Transaction
	for _, r := range records {
		if r.Group != "" && r.Group != r.ID {
			continue // shown as one with the others of its commit
		}
		if limit > 0 && len(all) == limit {
			break
		}
		t := Transaction{Record: r, Reverted: reverted[r.ID]}
		if r.State == Proposed { // few are: each looks at all records
			applied := func(done *Record) bool { return reverted[done.ID] == "" && done.applies(r) }
			if i := slices.IndexFunc(records, applied); i >= 0 {
				t.AppliedBy = records[i].ID
			}
		}
		all = append(all, t)
	}
	return all, nil
}

// applies reports whether a transaction carried out a proposal after that was made.
func (r *Record) applies(proposed *Record) bool {
	if r.State != Committed || r.Receipt == nil || r.Origin.Ref == "" ||
		r.Origin.Kind != proposed.Origin.Kind || r.Origin.Ref != proposed.Origin.Ref || r.Updated.Before(proposed.Created) {
		return false
	}
	changed := slices.Concat(r.Receipt.FilesCreated, r.Receipt.FilesUpdated, r.Receipt.FilesDeleted,
		r.Receipt.FilesUnchanged)
	for _, f := range r.Receipt.FilesRenamed {
		changed = append(changed, f.To)
	}
	return !slices.ContainsFunc(proposed.Files, func(f FileChange) bool { return !slices.Contains(changed, f.Path) })
}

// reversals returns the transactions that are undone, with the ones that undid
// them. Records are the newest first: whether a reversal was itself undone is
// known before it is examined.
func reversals(records []*Record) map[string]string {
	by := map[string]string{}
	for _, r := range records {
		if r.State == Committed && r.Origin.Reverts != "" && !r.Origin.Partial && by[r.ID] == "" &&
			by[r.Origin.Reverts] == "" {
			by[r.Origin.Reverts] = r.ID
		}
	}
	return by
}

// Transaction returns one transaction of the history, with contents and hunks
// where the store has them.
func (w *Workspace) Transaction(ctx context.Context, id string) (*Proposal, *Record, error) {
	record, err := w.load(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	p, err := w.proposalOf(ctx, record)
	return p, record, err
}

// OpenKept opens bytes in the store, such as a Receipt's Kept bytes.
func (w *Workspace) OpenKept(ctx context.Context, h Hash) (io.ReadCloser, error) {
	return w.store.Open(ctx, h)
}
