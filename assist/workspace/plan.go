package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// Plan returns what the changes would do to the folder, and writes nothing. Violated
// rules, and edits that do not fit, are findings of the files, not errors.
func (w *Workspace) Plan(ctx context.Context, origin Origin, changes ...Change) (*Proposal, error) {
	pl, err := w.newPlanner()
	if err != nil {
		return nil, err
	}
	defer pl.tree.close()
	for i := range changes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := pl.add(ctx, &changes[i]); err != nil {
			return nil, fmt.Errorf("plan %s: %w", changes[i].Path, explain(err))
		}
	}
	return pl.proposal(ctx, newID(), origin)
}

// planner applies changes to drafts of the files, one after the other.
type planner struct {
	w      *Workspace
	tree   *tree
	drafts map[string]*draft
	order  []*draft
	folded map[string]string // folded path, of a file or a directory, to the spelling that a draft has
	unsafe int               // changes whose path cannot be used
	// offered is how many bytes the readings of all files have, edited how many the edits
	// have read and made.
	offered, edited int64
}

// draft is a file after the changes so far.
type draft struct {
	id       string // of the FileChange, where it has one already
	path     string
	before   node
	pre, cur *Content // nil for a file that is not there
	preHash  Hash
	mode     fs.FileMode // 0: as it is, or the usual one
	from     *draft      // renamed
	movedTo  *draft
	findings []Finding
	changes  []string
	merge    *mergeSides
	readings []Reading
	exec     bool
	authored bool // a text that a change gave or edited, and no program left
	gone     bool // a change deletes it, and it was not there
	asked    bool // a change is about it, so it is shown even if nothing happens
}

// mergeSides are the three versions of a file in conflict.
type mergeSides struct {
	base, mine, theirs *Content
}

func (w *Workspace) newPlanner() (*planner, error) {
	t, err := newTree(w.root)
	if err != nil {
		return nil, err
	}
	return &planner{w: w, tree: t, drafts: map[string]*draft{}, folded: map[string]string{}}, nil
}

func (d *draft) find(severity Severity, rule, hint, message string, args ...any) {
	f := finding(severity, rule, hint, message, args...)
	if !slices.Contains(d.findings, f) {
		d.findings = append(d.findings, f)
	}
}

func (d *draft) refused() bool { return worst(d.findings) == Refuse }

// add applies one change.
func (pl *planner) add(ctx context.Context, c *Change) error {
	d, err := pl.target(ctx, c, c.Path)
	if err != nil {
		return err
	}
	if c.Refusal != "" {
		pl.show(d, c)
		return nil
	}
	pl.remember(d, c)
	if d.refused() {
		return nil
	}
	switch c.Verb {
	case Write:
		return pl.write(ctx, d, c)
	case Modify:
		return pl.modify(ctx, d, c)
	case Delete:
		if d.cur == nil {
			d.gone = true
			d.find(Note, "delete.missing", "", "there is no such file already")
		}
		d.cur, d.readings = nil, nil
	case Rename:
		return pl.rename(ctx, d, c)
	default:
		return fmt.Errorf("there is no verb %q", c.Verb)
	}
	return nil
}

func (pl *planner) remember(d *draft, c *Change) {
	d.asked = true
	if c.ID != "" {
		d.changes = append(d.changes, c.ID)
	}
	if c.Doubt != "" && (!c.Guess || c.Verb != Modify) {
		d.find(Ask, "change.doubt", "", "%s", c.Doubt)
	}
	for _, note := range c.Notes {
		d.find(Note, "change.note", "", "%s", note)
	}
}

// show adds a file to the proposal that shows a refused change. Other changes still
// apply to the draft.
func (pl *planner) show(d *draft, c *Change) {
	shown := *d
	shown.findings, shown.changes = slices.Clone(d.findings), nil
	pl.remember(&shown, c)
	shown.find(Refuse, "change.refused", "", "%s", c.Refusal)
	switch {
	case worst(d.findings) == Refuse:
		// The path cannot be used either; one line about it is enough.
		*d = shown
		return
	case c.Verb == Write:
		shown.cur = c.Content
	}
	pl.order = append(pl.order, &shown)
}

// target finds the draft of a path that a change names.
func (pl *planner) target(ctx context.Context, c *Change, spelled string) (*draft, error) {
	var findings []Finding
	name := spelled
	if c.Generated {
		name, findings = generatedPath(spelled)
	}
	clean, more := CleanPath(name)
	findings = append(findings, more...)
	if worst(findings) == Refuse && c.Generated && c.Content != nil {
		clean = pl.freeName(ctx, c)
		findings = []Finding{finding(Note, "path.replaced", "",
			"the program's name for the file, %q, cannot be used", spelled)}
	}
	if clean == "" {
		// It still is a file of the proposal, so that it is shown.
		pl.unsafe++
		clean = fmt.Sprintf("?%d", pl.unsafe) // no path that passed the rules has a "?"
		d := &draft{path: clean, findings: findings}
		pl.drafts[clean] = d
		pl.order = append(pl.order, d)
		if findings[len(findings)-1].Rule == "path.absolute" {
			if rel, ok := strings.CutPrefix(path.Clean(spelled), pl.w.root+"/"); ok {
				d.findings[len(d.findings)-1].Hint = fmt.Sprintf("it is in this folder: give it as %q", rel)
			}
		}
		d.path = spelled
		return d, nil
	}
	d, err := pl.draft(ctx, clean)
	if err == nil {
		for _, f := range findings {
			d.find(f.Severity, f.Rule, f.Hint, "%s", f.Message)
		}
	}
	return d, err
}

// draft returns the draft of a path. It reads the file the first time.
func (pl *planner) draft(ctx context.Context, name string) (*draft, error) {
	if d, ok := pl.drafts[name]; ok {
		return d, nil
	}
	d := &draft{path: name}
	if err := pl.look(ctx, d); err != nil {
		return nil, err
	}
	pl.drafts[name] = d
	pl.order = append(pl.order, d)
	return d, nil
}

// look reads the present file, and applies the rules about it.
func (pl *planner) look(ctx context.Context, d *draft) error {
	if dir, is := pl.w.protects(d.path); is {
		d.find(Refuse, "path.state", "", "%s holds this program's own state", dir)
		return nil
	}
	n, err := pl.tree.stat(d.path)
	if o, ok := errors.AsType[*obstacle](err); ok {
		pl.blocked(d, o)
		return nil
	}
	if err != nil {
		return err
	}
	d.before = n
	if !n.exists() {
		return nil
	}
	parent, name := splitPath(d.path)
	switch {
	case n.typ == fs.ModeSymlink:
		dir, err := pl.tree.dir(parent)
		if err != nil {
			return err
		}
		target, err := dir.readlink(name)
		if err != nil {
			return err
		}
		pl.blocked(d, &obstacle{path: d.path, symlink: true, target: target})
		return nil
	case n.typ == fs.ModeDir:
		d.find(Refuse, "path.clash", "", "there is a directory of this name")
		return nil
	case n.typ != 0:
		d.find(Refuse, "path.special", "", "it is a device, a pipe or a socket")
		return nil
	}
	if d.pre, d.before, err = pl.tree.read(ctx, d.path, pl.w.limits.TextBytes); err != nil {
		return err
	}
	d.cur, d.preHash = d.pre, d.pre.hash
	d.before.fact.Hash = d.preHash
	return nil
}

// blocked refuses a draft whose path has a link, or a file in place of a directory.
func (pl *planner) blocked(d *draft, o *obstacle) {
	if !o.symlink {
		d.find(Refuse, "path.clash", "", "%s", o.Error())
		return
	}
	hint := "links are never followed: name the real file"
	target := o.target
	if !path.IsAbs(target) {
		parent, _ := splitPath(o.path)
		target = path.Join(parent, target)
	} else if rel, ok := strings.CutPrefix(path.Clean(target), pl.w.root+"/"); ok {
		target = rel
	}
	if fs.ValidPath(target) && target != "." {
		hint = fmt.Sprintf("links are never followed: the real file is %q",
			path.Join(target, strings.TrimPrefix(strings.TrimPrefix(d.path, o.path), "/")))
	}
	d.find(Refuse, "path.symlink", hint, "%s", o.Error())
}

// proposal returns the proposal of the drafts.
func (pl *planner) proposal(ctx context.Context, id string, origin Origin) (*Proposal, error) {
	p := &Proposal{ID: id, Root: pl.w.root, Created: time.Now().UTC(), Origin: origin, key: newKey()}
	if err := pl.rules(ctx); err != nil {
		return nil, err
	}
	for _, d := range pl.order {
		f, err := pl.change(ctx, d)
		if err != nil {
			return nil, err
		}
		if f != nil {
			if f.ID = d.id; f.ID == "" {
				f.ID = fmt.Sprintf("f%d", len(p.Files)+1)
			}
			p.Files = append(p.Files, *f)
		}
	}
	if err := pl.quotas(p); err != nil {
		return nil, err
	}
	for i := range p.Files {
		p.Files[i].Checked = p.Files[i].checkable() && worst(p.Findings) != Refuse
	}
	p.Token = p.token()
	return p, nil
}

// checkable reports whether a file is preselected.
func (f *FileChange) checkable() bool {
	switch f.Verdict() {
	case "", Note:
		return true
	}
	return false
}

// change returns the FileChange of a draft, nil for a draft that is part of another
// or has nothing to show.
func (pl *planner) change(ctx context.Context, d *draft) (*FileChange, error) {
	f := &FileChange{Path: d.path, Pre: d.before.fact, Findings: d.findings, Changes: d.changes, Readings: d.readings,
		pre: d.pre, post: d.cur, merge: d.merge}
	source := d
	switch {
	case d.movedTo != nil && d.cur == nil && d.movedTo.from == d:
		return nil, nil // shown with the file that it became
	case d.from != nil && d.cur != nil && d.from.cur == nil && d.pre == nil:
		source = d.from
		f.Op, f.From, f.pre, f.Pre = OpRename, source.path, source.pre, source.before.fact
		f.Findings = append(f.Findings, source.findings...)
		f.Changes = append(slices.Clone(source.changes), d.changes...)
		slices.Sort(f.Changes)
		f.Changes = slices.Compact(f.Changes)
	case d.pre == nil && d.cur == nil:
		if !d.gone && (worst(d.findings) == "" || worst(d.findings) == Note) {
			return nil, nil
		}
		f.Op = OpUnchanged
	case d.pre == nil:
		f.Op = OpCreate
	case d.cur == nil:
		f.Op = OpDelete
	case d.pre.hash == d.cur.hash && (d.mode == 0 || d.mode == d.before.fact.Mode):
		if !d.asked && len(d.findings) == 0 {
			return nil, nil
		}
		f.Op = OpUnchanged
	default:
		f.Op = OpUpdate
	}
	if d.cur != nil {
		f.Post = Fact{Exists: true, Hash: d.cur.hash, Size: d.cur.size, Mode: pl.postMode(d, source)}
	}
	return f, f.describe(ctx, pl.w.limits.TextBytes)
}

// postMode returns the permission bits that a file will have.
func (pl *planner) postMode(d, source *draft) fs.FileMode {
	switch {
	case d.mode != 0:
		return d.mode
	case source.before.exists():
		return source.before.fact.Mode
	case d.exec:
		return 0o777 // less what the umask takes
	}
	return 0o666
}
