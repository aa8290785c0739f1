package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
)

// An absolute path names the same file as for the programs of a session: a file of the workspace, by
// any of its names; a file of /tmp; or another file of the sandbox. Links are resolved first, as for
// programs. The operation itself follows none: if a program replaces a file meanwhile, the operation
// fails.

// workspaceNames are the names of the workspace in a sandbox.
var workspaceNames = []string{"/workspace", "/mnt/data", "/home/user"}

const tmpName = "/tmp"

// maxLinks is how many links a path may lead through, as in the kernel.
const maxLinks = 40

// view is a session's files as its programs see them.
type view struct {
	*lease
	service        *Service
	caller         engine.Caller
	workspace, tmp engine.Files
}

// location is the file that a path leads to.
type location struct {
	files engine.Files // nil: elsewhere in the sandbox
	root  string       // the path's name for the folder of files
	path  string       // in that folder; absolute where there are no files
}

func (p location) String() string { return path.Join(p.root, p.path) }

// visit gives access to the files of a session. The interpreter may be frozen; if there is none,
// one is started, with the workspace.
func (s *Service) visit(ctx context.Context, caller engine.Caller, session engine.ID) (*view, error) {
	at, err := s.find(ctx, caller, session)
	if err != nil {
		return nil, err
	}
	v := &view{service: s, caller: caller, workspace: s.engine.Inside().Files(session),
		tmp: s.engine.Inside().Tmp(session)}
	at.mu.Lock()
	if it := at.interpreter; it != nil && it.began && it.ending == "" {
		v.lease = it.lease()
		at.mu.Unlock()
		return v, nil
	}
	at.mu.Unlock()
	v.lease, err = s.acquire(ctx, caller, session)
	return v, err
}

// flush stores the changes at locations in the workspace.
func (v *view) flush(ctx context.Context, at ...location) error {
	var paths []string
	for _, p := range at {
		if p.files == v.workspace {
			paths = append(paths, p.path)
		}
	}
	if len(paths) == 0 {
		return nil
	}
	err := v.it.at.flush(ctx, paths...)
	if err == nil && v.isVacated() { // what was stored may be of the next workspace
		return unstored(v.it.at.id, errors.New("the session was paused meanwhile"))
	}
	return err
}

// locate returns the location of a clean absolute path without links.
func (v *view) locate(name string) location {
	for _, root := range append([]string{tmpName}, workspaceNames...) {
		rest, below := strings.CutPrefix(name, root+"/")
		if name != root && !below {
			continue
		}
		if name == root {
			rest = "."
		}
		if root == tmpName {
			return location{v.tmp, root, rest}
		}
		return location{v.workspace, root, rest}
	}
	return location{path: name}
}

// follow determines how a link at the end of a path is treated.
type follow int

const (
	itself  follow = iota // the link is the target
	refused               // the link is followed if the operation refuses it, like a link on the way
	always
)

// reach calls try with the location that a path names.
func (v *view) reach(ctx context.Context, name string, how follow, try func(location) error) error {
	return about(name, v.attempt(ctx, name, how, try))
}

// about returns an error about a path with the path as the caller gave it.
func about(name string, err error) error {
	e, ok := errors.AsType[*engine.Error](err)
	if !ok {
		return err
	}
	named := *e
	switch {
	case e.Kind == engine.ErrNotFound, e.Kind == engine.ErrConflict:
		named.ID = engine.Echo(name)
	case e.Kind == engine.ErrInvalid && (e.ID == "" || e.ID == "path"):
		named.ID = "path " + engine.Echo(name)
	default:
		return err
	}
	return &named
}

func (v *view) attempt(ctx context.Context, name string, how follow, try func(location) error) error {
	if !path.IsAbs(name) {
		return try(location{files: v.workspace, path: name})
	}
	clean := path.Clean(name)
	direct, err := v.locate(clean), error(nil)
	if direct.files != nil && how != always {
		if err = try(direct); !errors.Is(err, engine.ErrInvalid) && !errors.Is(err, engine.ErrNotFound) {
			return err
		}
	}
	real, realErr := v.real(ctx, clean, how != itself)
	if err != nil && (realErr != nil || real == direct) {
		return err
	}
	return cmp.Or(realErr, try(real))
}

// parents is where a path leads, with the links that are above its end.
func (v *view) parents(ctx context.Context, name string) (p location, err error) {
	if !path.IsAbs(name) {
		return location{files: v.workspace, path: name}, nil
	}
	return v.real(ctx, path.Clean(name), false)
}

// real resolves the links on a path. A path that does not exist has a location too.
func (v *view) real(ctx context.Context, name string, last bool) (location, error) {
	at, rest := "/", strings.Split(strings.Trim(name, "/"), "/")
	if direct := v.locate(name); direct.files != nil {
		if found, err := direct.files.Stat(ctx, direct.path); err == nil && (found.Kind != engine.EntryLink || !last) {
			return direct, nil // no link on the way
		}
	}
	for links := 0; len(rest) > 0; {
		next := path.Join(at, rest[0])
		p := v.locate(next)
		if p.files == nil && !above(next) {
			return v.elsewhere(ctx, path.Join(append([]string{at}, rest...)...), last)
		}
		found := engine.Entry{Kind: engine.EntryFolder}
		if p.files != nil {
			var err error
			if found, err = p.files.Stat(ctx, p.path); errors.Is(err, engine.ErrNotFound) {
				return v.locate(path.Join(append([]string{at}, rest...)...)), nil
			} else if err != nil {
				return location{}, err
			}
		}
		rest = rest[1:]
		if found.Kind != engine.EntryLink || len(rest) == 0 && !last {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return location{}, engine.Invalid("path", "it leads through more than %d links", maxLinks)
		}
		if path.IsAbs(found.Target) {
			at = "/"
		}
		rest = append(strings.Split(strings.Trim(found.Target, "/"), "/"), rest...)
	}
	return v.locate(at), nil
}

// above reports whether a folder has a name of the workspace or /tmp below it.
func above(name string) bool {
	return slices.ContainsFunc(workspaceNames, func(root string) bool {
		return name == "/" || strings.HasPrefix(root, name+"/")
	})
}

// stat describes the entry at a location, which may be a link.
func (v *view) stat(ctx context.Context, p location) (engine.Entry, error) {
	if p.files != nil {
		return p.files.Stat(ctx, p.path)
	}
	var found looked
	if err := v.look(ctx, &found, "look", p.path, false); err != nil {
		return engine.Entry{}, err
	}
	if !found.Exists {
		return engine.Entry{}, &engine.Error{Op: "look", Kind: engine.ErrNotFound, ID: p.path,
			Err: errors.New("there is no " + p.path)}
	}
	return found.entry(p.path), nil
}

// elsewhere resolves a path inside the sandbox.
func (v *view) elsewhere(ctx context.Context, name string, last bool) (location, error) {
	var found looked
	if err := v.look(ctx, &found, "look", name, last); err != nil {
		return location{}, err
	}
	return v.locate(found.Path), nil
}

// readOnly returns the error for a change of a read-only file.
func readOnly(p location) error {
	return &engine.Error{Op: "change", Kind: engine.ErrForbidden, ID: p.path, Err: &ReadOnlyError{Path: p.path}}
}

// ReadOnlyError says that a file of the sandbox cannot be changed, or watched.
type ReadOnlyError struct {
	Path    string
	Watched bool
}

// Error implements error.
func (e *ReadOnlyError) Error() string { return e.Within(workspaceNames[0]) }

// Within is Error for a person who knows the workspace by another name.
func (e *ReadOnlyError) Within(workspace string) string {
	if e.Watched {
		return fmt.Sprintf("%s cannot be watched: only what is in %s and %s can", e.Path, workspace, tmpName)
	}
	return fmt.Sprintf("%s cannot be changed: it is read-only in the sandbox; %s and %s are not",
		e.Path, workspace, tmpName)
}

// named sets the name of an entry to the requested name.
func (p location) named(asked string, e engine.Entry) engine.Entry {
	if path.IsAbs(asked) {
		rest := e.Path
		if p.path != "." {
			rest = strings.TrimPrefix(e.Path, p.path)
		}
		e.Path = path.Join(asked, rest)
	}
	return e
}
