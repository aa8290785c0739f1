package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/outputrules"
)

// rules applies to every draft the rules that look at the folder and at the
// other drafts.
func (pl *planner) rules(ctx context.Context) error {
	for _, d := range pl.order {
		if d.refused() {
			continue
		}
		for _, check := range []func(*draft) error{pl.clash, pl.spelled, pl.placed} {
			if err := check(d); err != nil {
				return fmt.Errorf("check %s: %w", d.path, explain(err))
			}
		}
		pl.sensitive(ctx, d)
		if err := pl.elided(ctx, d); err != nil {
			return fmt.Errorf("check %s: %w", d.path, explain(err))
		}
	}
	return nil
}

// clash finds two drafts of one name, and a file where another draft needs a
// directory.
func (pl *planner) clash(d *draft) error {
	if d.cur == nil {
		return nil
	}
	folded := outputrules.Fold(d.path)
	if other, ok := pl.folded[folded]; ok && other != d.path {
		d.find(Refuse, "path.collision", "", "%q and %q are the same file on some systems", d.path, other)
	}
	pl.folded[folded] = d.path
	for _, dir := range parents(d.path) {
		if other, ok := pl.folded[outputrules.Fold(dir)]; ok && other != dir && !d.before.exists() {
			d.find(Refuse, "path.collision", "", "the directories %q and %q are the same on some systems", dir, other)
		} else if !ok {
			pl.folded[outputrules.Fold(dir)] = dir
		}
		if other, ok := pl.drafts[dir]; ok && other.cur != nil {
			d.find(Refuse, "path.clash", "", "%s would be a file and a directory", dir)
			other.find(Refuse, "path.clash", "", "%s would be a file and a directory", dir)
		}
	}
	return nil
}

// spelled finds an existing file or directory whose name differs by case or
// Unicode form only.
func (pl *planner) spelled(d *draft) error {
	if d.cur == nil && !d.gone || d.before.exists() {
		return nil
	}
	dir := "."
	for name := range strings.SplitSeq(d.path, "/") {
		other, err := pl.tree.spelling(dir, name)
		if err != nil {
			return err
		}
		if other != "" {
			meant := strings.TrimPrefix(dir+"/"+other, "./")
			if leaving, ok := pl.drafts[meant]; ok && leaving.cur == nil {
				return nil // it is renamed, or goes away
			}
			rest := strings.TrimPrefix(d.path, strings.TrimPrefix(dir+"/"+name, "./"))
			d.find(Conflict, "path.spelling", fmt.Sprintf("did you mean %q?", meant+rest),
				"there is %q, which differs from it by case or Unicode form only", meant)
			return nil
		}
		if dir == "." {
			dir = name
		} else {
			dir += "/" + name
		}
	}
	return nil
}

// placed applies the rules about the place of the file: mounts, hard links,
// repositories.
func (pl *planner) placed(d *draft) error {
	parent, name := splitPath(d.path)
	in, err := pl.tree.nearest(parent)
	if err != nil {
		return err
	}
	if in.dev != pl.tree.root.dev {
		d.find(Ask, "path.mount", "", "%s is on another file system than the folder", in.path)
	}
	if d.before.fact.Links > 1 {
		d.find(Note, "path.links", "", "the file has %d names (hard links); only this one will show the change",
			d.before.fact.Links)
	}
	if d.cur != nil && outputrules.PlantsRepository(parent, name, pl.wouldHave) {
		d.find(Refuse, "path.bare-repository", "", "%s", outputrules.BareRepository(parent))
	}
	return nil
}

// wouldHave reports whether a directory has a name, in any case, or would have
// it afterwards.
func (pl *planner) wouldHave(dir, name string) bool {
	prefix := outputrules.Fold(dir) + "/" + name
	if dir == "." {
		prefix = name
	}
	for _, d := range pl.order {
		if d.cur != nil && below(outputrules.Fold(d.path), prefix) {
			return true
		}
	}
	in, err := pl.tree.dir(dir)
	if err != nil {
		return false
	}
	names, err := in.names()
	return err == nil && slices.ContainsFunc(names, func(n string) bool { return outputrules.Fold(n) == name })
}

// sensitive finds changes that a person should look at in any case.
func (pl *planner) sensitive(_ context.Context, d *draft) {
	if d.pre == d.cur {
		return
	}
	if why := outputrules.Sensitive(d.path); why != "" {
		d.find(Ask, "path.sensitive", "", "%s", why)
	}
	switch {
	case d.exec:
		d.find(Ask, "path.executable", "", "it is a new program: it begins with #! and would be executable")
	case d.before.fact.Mode&0o111 != 0:
		d.find(Ask, "path.executable", "", "it is a program: it has the execute bit")
	}
	if d.cur != nil && d.pre == nil && pl.tree.ignored(d.path) {
		d.find(Note, "path.ignored", "", "Git ignores it (.gitignore)")
	}
}

// quotas applies the limits of the whole.
func (pl *planner) quotas(p *Proposal) error {
	limits := pl.w.limits
	refuse := func(rule, hint, message string, args ...any) {
		p.Findings = append(p.Findings, finding(Refuse, rule, hint, message, args...))
	}
	if len(p.Files) > limits.Files {
		refuse("quota.files", "apply it in parts, or raise the limit", "%d files are more than %d", len(p.Files),
			limits.Files)
	}
	var batch int64
	dirs := map[string]bool{}
	for i := range p.Files {
		f := &p.Files[i]
		if f.post == nil || f.Verdict() == Refuse {
			continue
		}
		batch += f.post.size
		limit, what := limits.BinaryBytes, "binary"
		if f.Text != nil {
			limit, what = limits.TextBytes, "text"
		}
		if f.post.size > limit {
			f.Findings = append(f.Findings, finding(Refuse, "quota.size", "", "%d bytes are more than a %s file may have (%d)",
				f.post.size, what, limit))
		}
		missing, err := pl.tree.missing(f.Path)
		if _, blocked := errors.AsType[*obstacle](err); err != nil && !blocked && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, dir := range missing {
			dirs[dir] = true
		}
	}
	if batch > limits.BatchBytes {
		refuse("quota.batch", "apply it in parts, or raise the limit", "%d bytes in all are more than %d", batch,
			limits.BatchBytes)
	}
	if len(dirs) > limits.NewDirs {
		refuse("quota.directories", "", "%d new directories are more than %d", len(dirs), limits.NewDirs)
	}
	free, err := pl.tree.root.free()
	if err == nil && batch > 0 && free < 2*batch {
		refuse("quota.space", "free some space and try again",
			"%d bytes would be written, and %d are free; twice the size is needed", batch, free)
	}
	return err
}
