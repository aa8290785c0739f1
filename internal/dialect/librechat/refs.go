package librechat

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

const (
	maxRefs     = 256
	maxRefName  = 256
	maxRefDepth = 10
)

// ref is a file that a request names, in the spelling of every generation.
type ref struct {
	ID         string          `json:"id"`
	FileID     string          `json:"fileId"`
	SessionID  string          `json:"session_id"`
	StorageID  string          `json:"storage_session_id"`
	ResourceID string          `json:"resource_id"`
	Name       string          `json:"name"`
	Kind       string          `json:"kind"`
	Version    json.RawMessage `json:"version"`
	EntityID   string          `json:"entity_id"`
}

func (f *ref) fileID() string    { return cmp.Or(f.ID, f.FileID) }
func (f *ref) sessionID() string { return cmp.Or(f.StorageID, f.SessionID) }

// version returns the version as text. Some clients send a number.
func (f *ref) version() string {
	if isNull(f.Version) {
		return ""
	}
	return strings.Trim(string(f.Version), `"`)
}

// scope returns the scope of the file. The resource of a user's file is ignored: clients send the
// file's own id there.
func (f *ref) scope(user, entity string) scope {
	s := scope{kind: f.Kind, user: user}
	switch {
	case s.shared():
		s.id, s.version = f.ResourceID, f.version()
	case s.kind == "":
		s.id = cmp.Or(f.EntityID, entity)
	}
	return s
}

// input is a file in the workspace of a program.
type input struct {
	*place
	ref   *ref   // its reference; nil: it comes from a named session
	sid   string // the session that the request named
	name  string // the client's name for it
	path  string // its path
	alias string // a second path, for clients that use its base64 name
	there bool   // it is already in the session that the program runs in
}

// inputs finds the files of a request. Of two files at one path the later wins.
func (a *api) inputs(
	ctx context.Context, caller engine.Caller, body *runBody, user string, w *workspace,
) ([]input, error) {
	if len(body.Files) > maxRefs {
		return nil, bad("files exceeds maximum of %d", maxRefs)
	}
	var list []input
	for i := range body.Files {
		in, err := a.input(ctx, caller, &body.Files[i], i, body, user)
		if err != nil {
			return nil, err
		}
		list = slices.DeleteFunc(list, func(other input) bool { return other.path == in.path })
		list = append(list, in)
	}
	if w != nil && !w.session.IsZero() {
		var err error
		if list, err = a.sessionInputs(ctx, caller, w.session.String(), user, list, true); err != nil {
			return nil, err
		}
	}
	return a.sessionInputs(ctx, caller, body.SessionID, user, list, false)
}

func (a *api) input(
	ctx context.Context, caller engine.Caller, f *ref, i int, body *runBody, user string,
) (input, error) {
	invalid := func(field string) error { return bad("files[%d].%s is invalid", i, field) }
	if f.fileID() == "" {
		return input{}, invalid("id")
	}
	fid, knownFile, err := parseFileID(f.fileID())
	if err != nil {
		return input{}, invalid("id")
	}
	sid, knownSession, err := parseID(f.sessionID())
	if err != nil {
		return input{}, invalid("storage_session_id")
	}
	s := f.scope(user, body.EntityID)
	if sharedOwner(caller.Owner) != "" || s.kind != "" && !s.shared() {
		if err := s.check(); err != nil {
			return input{}, bad("files[%d]: %s", i, err)
		}
	}
	if !knownFile || !knownSession {
		return input{}, errBadRef()
	}
	found, err := a.find(ctx, caller, s, sid, fid)
	if e, ok := errors.AsType[*wire.Refusal](err); ok && e.Status < 500 {
		return input{}, errBadRef()
	}
	if err != nil {
		return input{}, err
	}
	in := input{place: found, ref: f, sid: f.sessionID(), name: f.Name}
	stored := found.name()
	wanted, ok := wantedPath(f.Name)
	switch {
	case ok && isBase64Of(f.Name, stored):
		in.alias, in.name = wanted, stored
		wanted, err = engine.CleanPath(stored)
	case !ok:
		in.name = stored
		wanted, err = engine.CleanPath(stored)
	}
	in.path = wanted
	return in, err
}

// wantedPath returns the client's path for a file, if it is valid. The protocol has no
// backslash in such a name.
func wantedPath(name string) (string, bool) {
	if len(name) > maxRefName || strings.Count(name, "/") >= maxRefDepth || strings.Contains(name, `\`) {
		return "", false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." {
			return "", false
		}
	}
	clean, err := engine.CleanPath(name)
	return clean, err == nil
}

// isBase64Of reports whether a client names a file by the base64 of its name. An old store
// had such names, and its clients sent them back.
func isBase64Of(sent, stored string) bool {
	if sent == stored {
		return false
	}
	bare := strings.TrimRight(sent, "=")
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if text, err := encoding.DecodeString(bare); err == nil && string(text) == stored {
			return true
		}
	}
	return false
}

// sessionInputs adds the files of a named session, except where the request has its own for a path.
// A deleted session is ignored, as the official server ignores all of them.
func (a *api) sessionInputs(
	ctx context.Context, caller engine.Caller, named, user string, list []input, there bool,
) ([]input, error) {
	sid, known, err := parseID(named)
	if err != nil || !known {
		return list, nil //nolint:nilerr // no session of ours
	}
	session, files, places, err := a.engine.UseSession(ctx, caller, sid)
	if errors.Is(err, engine.ErrNotFound) {
		return list, nil
	}
	if err != nil {
		return nil, err
	}
	if !(scope{user: user}).admits(caller, session) {
		return list, nil
	}
	files, places = a.whole(ctx, files, places)
	for i, f := range files {
		found := &place{session, f, places[i]}
		clean, err := engine.CleanPath(found.name())
		if err != nil || len(list) >= maxRefs || hidden(clean, nil) || slices.ContainsFunc(list, func(other input) bool {
			return other.file.ID == f.ID || other.path == clean || other.alias == clean ||
				strings.HasPrefix(other.path, clean+"/") || strings.HasPrefix(clean, other.path+"/")
		}) {
			continue
		}
		list = append(list, input{place: found, sid: named, name: found.name(), path: clean, there: there})
	}
	return list, nil
}

// fileRefs returns the inputs as references for the engine.
func fileRefs(list []input) []engine.FileRef {
	refs := make([]engine.FileRef, 0, len(list))
	taken := map[string]bool{}
	for _, in := range list {
		taken[in.path] = true
		if in.there {
			continue
		}
		refs = append(refs, engine.FileRef{ID: in.file.ID, Owner: in.file.Owner, Path: in.path, ReadOnly: in.at.ReadOnly})
	}
	for _, in := range list {
		if in.alias != "" && !taken[in.alias] && len(refs) < maxRefs {
			taken[in.alias] = true
			refs = append(refs, engine.FileRef{ID: in.file.ID, Owner: in.file.Owner, Path: in.alias, ReadOnly: in.at.ReadOnly})
		}
	}
	return refs
}

// entry returns the path of the code: usual, or another name if an input has that path.
func entry(usual string, list []input) string {
	taken := func(name string) bool {
		return slices.ContainsFunc(list, func(in input) bool {
			return in.path == name || in.alias == name || strings.HasPrefix(in.path, name+"/")
		})
	}
	name, ext := usual, path.Ext(usual)
	for n := 1; taken(name); n++ {
		name = fmt.Sprintf("%s_%d%s", strings.TrimSuffix(usual, ext), n, ext)
	}
	return name
}

// hidden reports whether a path goes through a hidden folder without inputs.
func hidden(name string, inputs []input) bool {
	dir := path.Dir(name)
	for part := range strings.SplitSeq(dir, "/") {
		if strings.HasPrefix(part, ".") && part != "." || part == "__pycache__" {
			return !slices.ContainsFunc(inputs, func(in input) bool { return path.Dir(in.path) == dir })
		}
	}
	return path.Base(name) == "_ptc_history.json"
}
