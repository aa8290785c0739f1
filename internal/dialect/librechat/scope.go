package librechat

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
)

// Ownership of files.
//
// A caller with a LibreChat token is one user of a tenant. A user owns its uploads, but
// skills and the files of agents belong to the whole tenant: they have a separate owner,
// and their session's scope names the skill or agent. A request with another kind or id
// than the session's is refused.
//
// A caller with a plain key, or from a trusted network, is one owner with any number of
// users. A file that was uploaded with a user's name is visible only to requests with that
// name. Clients of that age name a user on one call and not on the next, so a request
// without a user finds everything, unless StrictUsers refuses it. The random ids then
// protect the files. Skills and the files of agents are for all users.

// userOwner returns the owner of a tenant's user. A key's owner has no slash in its name.
func userOwner(tenant, user string) engine.Owner {
	return engine.Owner("jwt/" + url.PathEscape(tenant) + "/user/" + url.PathEscape(user))
}

// sharedOwner returns the owner of the files that a user's tenant shares, or "" for any other
// owner.
func sharedOwner(owner engine.Owner) engine.Owner {
	parts := strings.Split(string(owner), "/")
	if len(parts) != 4 || parts[0] != "jwt" {
		return ""
	}
	return engine.Owner("jwt/" + parts[1] + "/shared")
}

// scope is the scope of a file in a request: none, a skill, an agent or a user.
type scope struct {
	kind, id, version string
	user              string // the user that the request names, or ""
}

// The kinds of scopes.
const (
	kindSkill = "skill"
	kindAgent = "agent"
	kindUser  = "user"
)

// userHeader names the user of a request. It has precedence over the body and the address, which
// contain text of models.
const userHeader = "User-Id"

// checkUser refuses a request that must name its user and does not.
func (a *api) checkUser(caller engine.Caller, user string) error {
	if a.StrictUsers && user == "" && sharedOwner(caller.Owner) == "" {
		return refuse(http.StatusForbidden,
			"This server keeps users apart: name the user, in the header User-Id or in user_id")
	}
	return nil
}

// check rejects an invalid scope.
func (s scope) check() error {
	switch s.kind {
	case "":
		return nil
	case kindSkill, kindAgent, kindUser:
	default:
		return bad("kind must be one of: skill, agent, user")
	}
	if s.kind != kindUser && s.id == "" {
		return bad("id is required for kind %s", s.kind)
	}
	if s.kind == kindSkill && !wholeNumber(s.version) {
		return bad("version must be a whole number for kind skill")
	}
	if s.kind != kindSkill && s.version != "" {
		return bad("version is only for kind skill")
	}
	return nil
}

func wholeNumber(s string) bool {
	return s != "" && len(s) <= 18 && strings.Trim(s, "0123456789") == ""
}

// shared reports whether the scope is the tenant's and not a user's.
func (s scope) shared() bool { return s.kind == kindSkill || s.kind == kindAgent }

// mark returns what a session stores of the scope in which it was created.
func (s scope) mark(caller engine.Caller) string {
	switch {
	case sharedOwner(caller.Owner) == "":
		if s.user == "" || s.shared() {
			return ""
		}
		return "user:" + s.user
	case s.kind == kindSkill:
		return "skill:" + s.id + ":v:" + s.version
	case s.kind == kindAgent:
		return "agent:" + s.id
	}
	return ""
}

// queryScope parses the scope in the query of an address.
func queryScope(r *http.Request) (scope, error) {
	q := r.URL.Query()
	s := scope{kind: q.Get("kind"), id: q.Get("id"), version: q.Get("version")}
	if s.kind == kindUser {
		s.user = s.id
	}
	s.user = cmp.Or(r.Header.Get(userHeader), s.user)
	if s.kind == "" {
		s.id, s.version = "", ""
		if entity := q.Get("entity_id"); entity != "" {
			s.id = entity // the id of an agent, from clients that had no other kind
		}
	}
	return s, s.check()
}

// uploader returns the owner of uploads in a scope.
func (s scope) uploader(caller engine.Caller) engine.Caller {
	if shared := sharedOwner(caller.Owner); shared != "" && s.shared() {
		caller.Owner = shared
	}
	return caller
}

// holders returns the owners that may have a file of a scope, the most likely first.
func (s scope) holders(caller engine.Caller) []engine.Caller {
	shared := caller
	if shared.Owner = sharedOwner(caller.Owner); shared.Owner == "" {
		return []engine.Caller{caller}
	}
	if s.shared() {
		return []engine.Caller{shared, caller}
	}
	return []engine.Caller{caller, shared}
}

// admits reports whether a caller in this scope may use a session. A session of the caller, not the
// tenant, belongs to no skill or agent.
func (s scope) admits(caller engine.Caller, session engine.Session) bool {
	switch shared := sharedOwner(caller.Owner); {
	case shared == "":
		return session.Scope == "" || s.user == "" || session.Scope == "user:"+s.user
	case session.Owner == shared:
		return s.kind == "" || s.mark(caller) == session.Scope
	}
	return !s.shared()
}

// place is a file that was found, in a session.
type place struct {
	session engine.Session
	file    engine.File
	at      engine.SessionFile
}

// name is the file's path as its uploader or its program gave it.
func (p *place) name() string { return nameAt(p.file, p.at) }

// nameAt returns the name of a file in a session. Each upload has its own folder, so that two files
// of the same name can be in one session.
func nameAt(f engine.File, at engine.SessionFile) string {
	if name, uploaded := strings.CutPrefix(at.Path, f.ID.String()+"/"); uploaded {
		return cmp.Or(f.Name, name)
	}
	return at.Path
}

// find finds a file by its two ids. The error is errNoFile if it does not exist, has
// expired or belongs to another owner, and errForbidden if its scope differs.
func (a *api) find(ctx context.Context, caller engine.Caller, s scope, sid, fid engine.ID) (*place, error) {
	refused := errNoFile()
	for _, holder := range s.holders(caller) {
		session, file, at, err := a.engine.SessionFile(ctx, holder, sid, fid)
		if errors.Is(err, engine.ErrNotFound) && holder.Owner == caller.Owner {
			session, file, at, err = a.outputFor(ctx, caller, sid, fid)
		}
		switch {
		case errors.Is(err, engine.ErrNotFound):
			continue
		case err != nil:
			return nil, err
		case s.admits(caller, session):
			return &place{session, file, at}, nil
		case sharedOwner(caller.Owner) != "":
			refused = errForbidden()
		}
	}
	return nil, refused
}

// outputFor finds a file that a program left, by the session of one of its inputs. On other servers
// programs run in that session, and their clients rely on it.
func (a *api) outputFor(
	ctx context.Context, caller engine.Caller, sid, fid engine.ID,
) (engine.Session, engine.File, engine.SessionFile, error) {
	none := func(err error) (engine.Session, engine.File, engine.SessionFile, error) {
		return engine.Session{}, engine.File{}, engine.SessionFile{}, err
	}
	file, err := a.engine.GetFile(ctx, caller, fid)
	if err != nil {
		return none(err)
	}
	if file.Run.IsZero() {
		return none(engine.ErrNotFound)
	}
	run, err := a.engine.GetRun(ctx, caller, file.Run)
	if err != nil {
		return none(err)
	}
	for _, in := range run.Inputs {
		_, _, _, err := a.engine.SessionFile(ctx, caller, sid, in.ID)
		if err == nil {
			return a.engine.SessionFile(ctx, caller, run.Session, fid)
		}
		if !errors.Is(err, engine.ErrNotFound) {
			return none(err)
		}
	}
	return none(engine.ErrNotFound)
}

// parseFileID is parseID for a file. Old clients do not remove its extension.
func parseFileID(s string) (id engine.ID, known bool, err error) {
	s, _, _ = strings.Cut(s, ".")
	return parseID(s)
}

// parseID reads an id as clients send it. An id that this service cannot have made names nothing;
// an id that no server makes is a bad request.
func parseID(s string) (id engine.ID, known bool, err error) {
	if s == "" || len(s) > 128 || strings.ContainsFunc(s, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-'
	}) {
		return id, false, errBadID()
	}
	if id, err = engine.ParseID(s); err != nil {
		id, err = engine.ParseUUID(s)
	}
	return id, err == nil, nil
}
