package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// stepPlaces are the places of a step's files.
type stepPlaces struct {
	target, temp          *folder
	name, tempName, aside string
}

func (x *transaction) places(s *Step) (p stepPlaces, err error) {
	parent, name := splitPath(s.Path)
	tempParent, temp := splitPath(s.Temp)
	p.name, p.tempName, p.aside = name, temp, temp+backupSuffix
	if p.target, err = x.tree.dir(parent); err != nil {
		return p, err
	}
	p.temp, err = x.tree.dir(tempParent)
	return p, err
}

// newClash returns the conflict of a file that changed while a step was done. The
// step itself is reversed.
func newClash(s *Step, reason string) error {
	return &ConflictError{Files: []Clashing{{File: s.File, Path: s.Path, Reason: reason}}}
}

// publish does every step: the remaining ones if it recovers a transaction whose
// process died. It then checks the steps that the process did.
func (x *transaction) publish(ctx context.Context) error {
	for _, dir := range x.record.Made {
		if err := x.mkdir(dir); err != nil {
			return err
		}
	}
	x.w.at("directories")
	for i := range x.record.Steps {
		s, at := &x.record.Steps[i], pending
		if x.recovering {
			var err error
			if at, err = x.position(s); err != nil {
				return err
			}
		}
		var err error
		switch at {
		case pending:
			err = x.do(ctx, i)
		case half:
			err = x.rest(ctx, i)
		case done:
			err = x.check(ctx, i)
		case lost:
			err = fmt.Errorf("%s: its new content is gone", s.Path)
		}
		if err != nil {
			return err
		}
		x.w.at("done " + s.Path)
	}
	return nil
}

func (x *transaction) mkdir(dir string) error {
	parent, name := splitPath(dir)
	d, err := x.tree.dir(parent)
	if err != nil {
		return err
	}
	made := d.mkdir(name)
	if made != nil && !errors.Is(made, fs.ErrExist) {
		return made
	}
	in, err := x.tree.dir(dir) // that it is a directory, and no link
	if err != nil || made != nil {
		return err
	}
	// The owner of the parent could have put another directory in its place.
	if names, err := in.names(); err != nil || len(names) > 0 {
		return err
	}
	return belong(d, in.chown)
}

// do carries out one step and checks what it displaced.
func (x *transaction) do(ctx context.Context, i int) error {
	s := &x.record.Steps[i]
	p, err := x.places(s)
	if err != nil {
		return err
	}
	switch {
	case !s.Post.Exists:
		return x.remove(ctx, i, p)
	case !s.Pre.Exists:
		err := p.temp.move(p.tempName, p.target, p.name)
		if errors.Is(err, fs.ErrExist) {
			return newClash(s, "exists now")
		}
		return err
	}
	err = errNoExchange
	if !x.w.noExchange {
		err = p.temp.exchange(p.tempName, p.target, p.name)
	}
	switch {
	case errors.Is(err, errNoExchange):
		return x.replace(ctx, i, p)
	case errors.Is(err, fs.ErrNotExist):
		return newClash(s, "was deleted")
	case err != nil:
		return err
	}
	x.w.at("exchanged " + s.Path)
	if x.isPre(ctx, i, p.temp, p.tempName) {
		return nil
	}
	return x.swapBack(ctx, s, p)
}

// isPre reports whether a displaced file is the expected one.
func (x *transaction) isPre(ctx context.Context, i int, d *folder, name string) bool {
	n, err := d.hashAt(ctx, name)
	if err != nil || n.fact.Hash != x.record.Steps[i].Pre.Hash {
		return false
	}
	x.checked[i] = n
	return true
}

// isPost reports whether a file is the staged one, unchanged.
func isPost(ctx context.Context, s *Step, d *folder, name string) bool {
	n, err := d.hashAt(ctx, name)
	return err == nil && n.same(s.Post) && n.fact.Hash == s.Post.Hash
}

// swapBack exchanges two files again after the displaced one was not the expected
// one. A file that another process wrote to in between is the newest and stays in
// place; the file that it displaced is saved in the store.
func (x *transaction) swapBack(ctx context.Context, s *Step, p stepPlaces) error {
	c := newClash(s, "was changed")
	if err := p.temp.exchange(p.tempName, p.target, p.name); err != nil {
		return errors.Join(c, fmt.Errorf("its content is in %s: %w", s.Temp, err))
	}
	x.w.at("gave back " + s.Path)
	if isPost(ctx, s, p.temp, p.tempName) {
		return c
	}
	if err := p.temp.exchange(p.tempName, p.target, p.name); err != nil {
		return errors.Join(c, fmt.Errorf("a newer content is in %s: %w", s.Temp, err))
	}
	if err := x.keep(ctx, p.temp, p.tempName, s.Path); err != nil {
		return errors.Join(c, fmt.Errorf("an older content is in %s: %w", s.Temp, err))
	}
	return c
}

// remove moves a target aside.
func (x *transaction) remove(ctx context.Context, i int, p stepPlaces) error {
	s := &x.record.Steps[i]
	err := p.target.move(p.name, p.temp, p.aside)
	if errors.Is(err, fs.ErrNotExist) {
		return newClash(s, "was deleted")
	}
	if err != nil {
		return err
	}
	x.w.at("aside " + s.Path)
	if x.isPre(ctx, i, p.temp, p.aside) {
		return nil
	}
	c := newClash(s, "was changed")
	err = p.temp.move(p.aside, p.target, p.name)
	if errors.Is(err, fs.ErrExist) { // and written anew meanwhile: sweep keeps the old one
		return c
	}
	return errors.Join(c, err)
}

// replace updates a file where two cannot change places: the old one goes
// aside, then the new one takes its place.
func (x *transaction) replace(ctx context.Context, i int, p stepPlaces) error {
	if err := x.remove(ctx, i, p); err != nil {
		return err
	}
	err := p.temp.move(p.tempName, p.target, p.name)
	if errors.Is(err, fs.ErrExist) {
		// Another process has created a file there meanwhile. The displaced file is
		// older, and its content is in the store.
		return newClash(&x.record.Steps[i], "was replaced")
	}
	return err
}

// position is how far a step has come.
type position int

const (
	pending position = iota // nothing has happened
	half                    // the old file is aside, the new one is still the temporary file
	done                    // published, whatever was done to the target since
	lost                    // the temporary file is missing: neither can be told
)

// position returns how far a step has come, from the inodes at its places.
func (x *transaction) position(s *Step) (position, error) {
	p, err := x.places(s)
	if errors.Is(err, fs.ErrNotExist) {
		if !s.Post.Exists {
			return done, nil
		}
		return pending, nil // its directory is not made yet, or was removed
	}
	if err != nil {
		return lost, err
	}
	target, err1 := p.target.stat(p.name)
	temp, err2 := p.temp.stat(p.tempName)
	aside, err3 := p.temp.stat(p.aside)
	if err := errors.Join(err1, err2, err3); err != nil {
		return lost, err
	}
	switch {
	case !s.Post.Exists && aside.exists():
		return done, nil
	case !s.Post.Exists && target.exists():
		return pending, nil
	case !s.Post.Exists, target.same(s.Post):
		return done, nil
	case temp.same(s.Post) && aside.exists() && !target.exists():
		return half, nil
	case temp.same(s.Post):
		return pending, nil
	case s.Pre.Exists && (temp.exists() || aside.exists()), !s.Pre.Exists && target.exists():
		return done, nil
	}
	return lost, nil
}

// reverse reverts every step that was done, and ends the transaction. It leaves and
// lists files that another process has changed since.
func (x *transaction) reverse(ctx context.Context, cause error) error {
	x.w.at("reversing")
	for i := len(x.record.Steps) - 1; i >= 0; i-- {
		s := &x.record.Steps[i]
		left, err := x.undo(ctx, s)
		if err != nil {
			left = err.Error()
		}
		if left != "" {
			x.record.Left = append(x.record.Left, Skipped{Path: s.Path, Reason: left})
		}
		x.w.at("reversed " + s.Path)
	}
	for _, dir := range slices.Backward(x.record.Made) {
		x.rmdir(dir)
	}
	if err := x.sync(); err != nil {
		return fmt.Errorf("%w: and it was reversed, which may not be durable: %w", cause, err)
	}
	x.complete(cause)
	err := x.abort(ctx, cause)
	for _, left := range x.record.Left {
		err = fmt.Errorf("%w; %s was left as it is: %s", err, left.Path, left.Reason)
	}
	return err
}

// complete adds the proposal and the saved bytes to the conflict that ended a
// transaction.
func (x *transaction) complete(cause error) {
	c, ok := errors.AsType[*ConflictError](cause)
	if !ok {
		return
	}
	c.Proposal, c.Kept = x.record.ID, x.record.Kept
	if x.proposal != nil {
		c.Proposal = x.proposal.ID
	}
}

// rmdir removes a directory that the transaction may have made, if it is empty.
func (x *transaction) rmdir(dir string) {
	parent, name := splitPath(dir)
	if d, err := x.tree.dir(parent); err == nil && d.rmdir(name) == nil {
		if gone := x.tree.open[dir]; gone != nil {
			delete(x.tree.open, dir)
			gone.close()
		}
	}
}

// undo reverts one step. left is why it could not, "" if it could.
func (x *transaction) undo(ctx context.Context, s *Step) (left string, err error) {
	at, err := x.position(s)
	if err != nil || at == pending || at == lost && !s.Pre.Exists {
		return "", err
	}
	p, err := x.places(s)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return "its directory was removed", nil
		}
		return "", err
	}
	switch {
	case at == half:
		return taken(p.temp.move(p.aside, p.target, p.name))
	case at == lost:
		return "", nil // the old file is in place
	case !s.Post.Exists:
		n, err := p.temp.stat(p.aside)
		if err != nil || !n.exists() {
			return "it was removed by somebody else too", err
		}
		return taken(p.temp.move(p.aside, p.target, p.name))
	}
	return x.restore(ctx, s, p)
}

func taken(err error) (string, error) {
	if errors.Is(err, fs.ErrExist) {
		return "somebody has written a file of this name", nil
	}
	return "", err
}

// restore removes a published file and puts the old one back.
func (x *transaction) restore(ctx context.Context, s *Step, p stepPlaces) (string, error) {
	const changed = "somebody has changed it since"
	if !isPost(ctx, s, p.target, p.name) {
		return changed, nil
	}
	old, err := p.temp.stat(p.tempName)
	if err != nil {
		return "", err
	}
	if s.Pre.Exists && old.exists() { // they changed places
		if err := p.temp.exchange(p.tempName, p.target, p.name); err != nil {
			return "", err
		}
		if isPost(ctx, s, p.temp, p.tempName) {
			return "", nil
		}
		return changed, p.temp.exchange(p.tempName, p.target, p.name)
	}
	if err := p.target.move(p.name, p.temp, p.tempName); err != nil {
		return "", err
	}
	if !isPost(ctx, s, p.temp, p.tempName) {
		return changed, p.temp.move(p.tempName, p.target, p.name)
	}
	if !s.Pre.Exists {
		return "", nil
	}
	return taken(p.temp.move(p.aside, p.target, p.name))
}
