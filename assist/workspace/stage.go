package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"github.com/airlock-run/airlock/internal/outputrules"
)

// backupSuffix ends the name of a displaced file where two files cannot be exchanged.
const backupSuffix = "-old"

// verify compares every file with its state in the proposal, and returns the
// contents that undo will need.
func (x *transaction) verify(ctx context.Context) ([]*Content, error) {
	var contents []*Content
	var clashes []Clashing
	for i := range x.files {
		f := &x.files[i]
		before := len(clashes)
		source := f.Path
		if f.Op == OpRename {
			source = f.From
			if reason, now, err := x.differs(ctx, f.Path, Fact{}, nil); err != nil {
				return nil, err
			} else if reason != "" {
				clashes = append(clashes, Clashing{File: f.ID, Path: f.Path, Reason: reason, Now: now})
			}
		}
		var pre *Content
		reason, now, err := x.differs(ctx, source, f.Pre, &pre)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", source, explain(err))
		}
		if reason != "" {
			clashes = append(clashes, Clashing{File: f.ID, Path: source, Reason: reason, Now: now})
		}
		if len(clashes) > before {
			if there, err := x.there(ctx, f); err != nil {
				return nil, fmt.Errorf("read %s: %w", f.Path, explain(err))
			} else if there {
				clashes = clashes[:before]
				f.Op, f.From, f.Pre, f.pre = OpUnchanged, "", f.Post, f.post
				r := &x.record.Files[i]
				r.Op, r.From, r.Pre = f.Op, f.From, f.Pre
			}
			continue
		}
		if pre != nil {
			if f.Post.Mode == f.Pre.Mode {
				f.Post.Mode = now.Mode // changed since, which is no conflict
			}
			f.Pre = now
			contents = append(contents, pre)
		}
		// A later undo merges with the committed text, so the store keeps it.
		if f.post != nil && f.Text != nil {
			contents = append(contents, f.post)
		}
	}
	if len(clashes) > 0 {
		return nil, &ConflictError{Proposal: x.proposal.ID, Files: clashes}
	}
	return contents, nil
}

// there reports whether the folder has a change already: somebody made it since the proposal was.
func (x *transaction) there(ctx context.Context, f *FileChange) (bool, error) {
	if f.Op == OpRename {
		if reason, _, err := x.differs(ctx, f.From, Fact{}, nil); reason != "" || err != nil {
			return false, err
		}
	}
	var content *Content
	reason, now, err := x.differs(ctx, f.Path, f.Post, &content)
	return reason == "" && (f.Op != OpUpdate || f.Post.Mode == f.Pre.Mode || f.Post.Mode == now.Mode), err
}

// differs returns how a file differs from a fact, "" if it does not, and sets its
// content.
func (x *transaction) differs(ctx context.Context, path string, pre Fact, content **Content) (string, Fact, error) {
	n, err := x.tree.stat(path)
	if o, ok := errors.AsType[*obstacle](err); ok {
		return "cannot be reached: " + o.Error(), Fact{}, nil
	}
	switch {
	case err != nil:
		return "", Fact{}, err
	case !n.exists() && !pre.Exists:
		return "", Fact{}, nil
	case !n.exists():
		return "was deleted", n.fact, nil
	case !n.regular():
		return "is not a file any more", n.fact, nil
	case !pre.Exists:
		return "exists now", n.fact, nil
	}
	c, n, err := x.tree.read(ctx, path, x.w.limits.TextBytes)
	if err != nil {
		return "", Fact{}, err
	}
	n.fact.Hash, n.fact.Size = c.hash, c.size
	if c.hash != pre.Hash {
		return "was changed", n.fact, nil
	}
	*content = c
	return "", n.fact, nil
}

// plan makes the steps: removals first, so that their names are free.
func (x *transaction) plan() error {
	var steps []Step
	add := func(f *FileChange, path string, pre, post Fact) error {
		parent, _ := splitPath(path)
		d, err := x.tree.nearest(parent)
		if err != nil {
			return err
		}
		pre.ModTime = pre.ModTime.UTC()
		steps = append(steps, Step{File: f.ID, Path: path, Pre: pre, Post: post, Temp: d.path})
		return nil
	}
	for i := range x.files {
		f := &x.files[i]
		var err error
		switch f.Op {
		case OpDelete:
			err = add(f, f.Path, f.Pre, Fact{})
		case OpRename:
			err = errors.Join(add(f, f.From, f.Pre, Fact{}), add(f, f.Path, Fact{}, f.Post))
		case OpCreate:
			err = add(f, f.Path, Fact{}, f.Post)
		case OpUpdate:
			err = add(f, f.Path, f.Pre, f.Post)
		}
		if err != nil {
			return err
		}
	}
	slices.SortStableFunc(steps, func(a, b Step) int {
		switch {
		case a.Post.Exists == b.Post.Exists:
			return 0
		case b.Post.Exists:
			return -1
		}
		return 1
	})
	for i := range steps {
		s := &steps[i]
		name := fmt.Sprintf("%s%s-%d", outputrules.TempPrefix, x.record.ID, i+1)
		if s.Temp != "." {
			name = s.Temp + "/" + name
		}
		s.Temp = name
		missing, err := x.tree.missing(s.Path)
		if err != nil {
			return err
		}
		for _, dir := range missing {
			if !slices.Contains(x.record.Made, dir) {
				x.record.Made = append(x.record.Made, dir)
			}
		}
	}
	x.record.Steps = steps
	return nil
}

// stage writes every new content beside its target, durably.
func (x *transaction) stage(ctx context.Context) error {
	dirs := make([]*folder, len(x.record.Steps))
	for i := range x.record.Steps {
		parent, _ := splitPath(x.record.Steps[i].Temp)
		d, err := x.tree.dir(parent)
		if err != nil {
			return err
		}
		dirs[i] = d
	}
	return parallel(len(dirs), func(i int) error {
		s := &x.record.Steps[i]
		if !s.Post.Exists {
			return nil
		}
		f := x.file(s.File)
		if err := stageFile(ctx, dirs[i], s, f, x.sourceOf(s, f)); err != nil {
			return fmt.Errorf("write %s: %w", s.Path, err)
		}
		x.w.at("staged " + s.Path)
		return nil
	})
}

func (x *transaction) file(id string) *FileChange {
	for i := range x.files {
		if x.files[i].ID == id {
			return &x.files[i]
		}
	}
	return nil
}

// sourceOf returns the path of the file whose owner and attributes the new one
// inherits, "" for a new file.
func (x *transaction) sourceOf(s *Step, f *FileChange) string {
	if f.Op == OpRename {
		return f.From
	}
	if s.Pre.Exists {
		return s.Path
	}
	return ""
}

// stageFile writes one temporary file and records its inode.
func stageFile(ctx context.Context, d *folder, s *Step, f *FileChange, source string) error {
	_, temp := splitPath(s.Temp)
	mode := fs.FileMode(0o600)
	usual := source == "" && (s.Post.Mode == 0o666 || s.Post.Mode == 0o777)
	if usual {
		mode = s.Post.Mode // the umask applies
	}
	out, err := d.create(temp, mode)
	if err != nil {
		return err
	}
	err = f.post.writeTo(ctx, out)
	if err == nil && !usual {
		err = out.Chmod(s.Post.Mode)
	}
	if err == nil && source != "" {
		err = inherit(out, d, source, s)
	} else if err == nil {
		err = belong(d, out.Chown)
	}
	if err == nil {
		err = out.Sync()
	}
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	n, err := d.stat(temp)
	if err != nil {
		return err
	}
	hash := s.Post.Hash
	s.Post = n.fact
	s.Post.Hash = hash
	return nil
}

// belong gives a file that root made in another user's directory to the directory's owner,
// who could not change it otherwise.
func belong(d *folder, chown func(uid, gid int) error) error {
	if os.Geteuid() != 0 {
		return nil
	}
	n, err := d.stat(".")
	if err != nil || n.uid == 0 {
		return err
	}
	if err := chown(n.uid, n.gid); err != nil && !errors.Is(err, syscall.EPERM) && !errors.Is(err, syscall.EINVAL) {
		return err
	}
	return nil
}

// inherit gives a new file the owner and the extended attributes of the file that it
// replaces, as far as the process may.
func inherit(out *os.File, d *folder, source string, s *Step) error {
	_, name := splitPath(source)
	parent, _ := splitPath(source)
	tempParent, _ := splitPath(s.Temp)
	if parent != tempParent {
		return nil // renamed into another directory: it belongs to the process's user
	}
	old, n, err := d.open(name)
	if err != nil {
		return nil // it is compared again when it is displaced
	}
	defer old.Close()
	return copyAttributes(out, old, n)
}

// sync makes the names in all changed directories durable.
func (x *transaction) sync() error {
	var dirs []*folder
	seen := map[string]bool{}
	add := func(path string) error {
		if seen[path] {
			return nil
		}
		seen[path] = true
		d, err := x.tree.dir(path)
		if _, ok := errors.AsType[*obstacle](err); ok || errors.Is(err, fs.ErrNotExist) {
			return nil // it was removed after a process died
		}
		if err != nil {
			return err
		}
		dirs = append(dirs, d)
		return nil
	}
	for _, dir := range x.record.Made {
		parent, _ := splitPath(dir)
		if err := errors.Join(add(parent), add(dir)); err != nil {
			return err
		}
	}
	for i := range x.record.Steps {
		parent, _ := splitPath(x.record.Steps[i].Path)
		temp, _ := splitPath(x.record.Steps[i].Temp)
		if err := errors.Join(add(parent), add(temp)); err != nil {
			return err
		}
	}
	return parallel(len(dirs), func(i int) error { return dirs[i].sync() })
}

// keep saves a file of another process in the store.
func (x *transaction) keep(ctx context.Context, d *folder, name, path string) error {
	c, _, err := x.tree.read(ctx, d.at(name), x.w.limits.TextBytes)
	if err != nil {
		return err
	}
	x.record.Kept = append(x.record.Kept, KeptBytes{Path: path, Hash: c.hash})
	return x.save(ctx, x.record.State, c)
}
