package workspace

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/outputrules"
)

// tree opens the directories of a workspace, each one once. Each operation makes its
// own tree, so that it does not write through a directory that was opened long ago.
type tree struct {
	root *folder
	open map[string]*folder
	list map[string]map[string]string // folded name to name, of a directory
}

func newTree(root string) (*tree, error) {
	d, err := openFolder(root)
	if err != nil {
		return nil, explain(err)
	}
	return &tree{root: d, open: map[string]*folder{".": d}, list: map[string]map[string]string{}}, nil
}

func (t *tree) close() error {
	var errs []error
	for _, d := range t.open {
		errs = append(errs, d.close())
	}
	return errors.Join(errs...)
}

// dir opens a directory. If a component does not exist, the error is fs.ErrNotExist;
// if it is no directory, an *obstacle.
func (t *tree) dir(path string) (*folder, error) {
	if d, ok := t.open[path]; ok {
		return d, nil
	}
	parent, name := splitPath(path)
	in, err := t.dir(parent)
	if err != nil {
		return nil, err
	}
	d, err := in.child(name)
	if err == nil {
		t.open[path] = d
		return d, nil
	}
	n, statErr := in.stat(name)
	switch {
	case statErr != nil:
		return nil, statErr
	case n.typ == fs.ModeSymlink:
		target, _ := in.readlink(name)
		return nil, &obstacle{path: path, symlink: true, target: target}
	case n.exists() && n.typ != fs.ModeDir:
		return nil, &obstacle{path: path}
	}
	return nil, err
}

// obstacle is a file or a link where a directory is needed.
type obstacle struct {
	path    string
	symlink bool
	target  string
}

func (o *obstacle) Error() string {
	if o.symlink {
		return o.path + " is a symbolic link (to " + o.target + ")"
	}
	return o.path + " is a file, not a directory"
}

// nearest opens the deepest directory on the way to path that exists.
func (t *tree) nearest(path string) (*folder, error) {
	for {
		d, err := t.dir(path)
		if !errors.Is(err, fs.ErrNotExist) || path == "." {
			return d, err
		}
		path, _ = splitPath(path)
	}
}

// stat returns the node of a file, the zero node if the file or its directory does
// not exist.
func (t *tree) stat(path string) (node, error) {
	parent, name := splitPath(path)
	d, err := t.dir(parent)
	if errors.Is(err, fs.ErrNotExist) {
		return node{}, nil
	}
	if err != nil {
		return node{}, err
	}
	return d.stat(name)
}

// spelling returns the name in a directory that differs from name by case or
// Unicode form only, "" if there is none, or if name itself is there.
func (t *tree) spelling(dir, name string) (string, error) {
	d, err := t.dir(dir)
	if err != nil {
		return "", ignoreMissing(err)
	}
	if n, err := d.stat(name); err != nil || n.exists() {
		return "", err
	}
	folded, ok := t.list[dir]
	if !ok {
		names, err := d.names()
		if err != nil {
			return "", err
		}
		slices.Sort(names)
		folded = make(map[string]string, len(names))
		for _, n := range names {
			folded[outputrules.Fold(n)] = n
		}
		t.list[dir] = folded
	}
	return folded[outputrules.Fold(name)], nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// parents returns the directories above a path, the topmost first, without the
// root.
func parents(path string) []string {
	var all []string
	for i := range len(path) {
		if path[i] == '/' {
			all = append(all, path[:i])
		}
	}
	return all
}

// missing returns the directories above a path that do not exist.
func (t *tree) missing(path string) ([]string, error) {
	for i, dir := range parents(path) {
		_, err := t.dir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return parents(path)[i:], nil
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// below reports whether path is dir or inside of it.
func below(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, dir+"/")
}
