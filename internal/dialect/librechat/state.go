package librechat

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

// State selects the programs that continue where the last program of their session stopped:
// with the files of its workspace and, in Python, with its variables.
type State string

// Which programs share a workspace.
const (
	StateOff  State = "off"  // each starts with only its inputs
	StateHint State = "hint" // those with the same runtime_session_hint, which LibreChat sends for stateful agents
	// StateOn: also those with the same session_id, entity_id or session of files, as on some
	// servers.
	StateOn State = "on"
)

// stateFile is the path of the saved variables in a session; state.py has the same path.
const stateFile = ".airlock/python.state"

// stateName is the name of a workspace. It contains the user, so that users of one key who name the
// same agent do not share variables.
type stateName struct {
	owner engine.Owner
	user  string
	name  string
}

// file returns the id of the file that has the session of a workspace.
func (n *stateName) file() engine.ID {
	sum := sha256.Sum256(wire.Encode([]string{"workspace", string(n.owner), n.user, n.name}))
	id := engine.ID(sum[:16])
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // as in engine.NewID
	return id
}

// workspace is the session that a request runs in.
type workspace struct {
	session engine.ID // zero: a new session
	reused  bool      // a program has run in it before
}

// workspace finds the session in which a request runs. It returns nil if no state is kept.
func (a *api) workspace(ctx context.Context, caller engine.Caller, body *runBody, user string) (*workspace, error) {
	if err := body.checkHint(); err != nil {
		return nil, err
	}
	name := stateName{owner: caller.Owner, user: user}
	switch {
	case a.State == StateHint && body.Hint == "", a.State == StateOff:
		return nil, nil
	case body.Hint != "":
		name.name = "hint:" + body.Hint
		return a.session(ctx, caller, name)
	}
	sessions := []string{body.SessionID}
	for i := range body.Files {
		sessions = append(sessions, body.Files[i].sessionID())
	}
	for _, sid := range sessions {
		id, known, err := parseID(sid)
		if err != nil || !known {
			continue
		}
		if ran, err := a.ranIn(ctx, caller, user, id); ran || err != nil {
			return &workspace{id, true}, err
		}
	}
	if body.EntityID == "" {
		return &workspace{}, nil
	}
	name.name = "entity:" + body.EntityID
	return a.session(ctx, caller, name)
}

// ranIn reports whether programs have run in a session that the caller may use.
func (a *api) ranIn(ctx context.Context, caller engine.Caller, user string, id engine.ID) (bool, error) {
	session, files, places, err := a.engine.UseSession(ctx, caller, id)
	if errors.Is(err, engine.ErrNotFound) {
		return false, nil
	}
	if err != nil || !(scope{user: user}).admits(caller, session) {
		return false, err
	}
	for i := range files {
		if strings.HasPrefix(places[i].Path, files[i].ID.String()+"/") {
			return false, nil // an upload
		}
	}
	return true, nil
}

// session finds the session of a name, or makes it. A file of the owner has the session, for as
// long as that is used: a program finds its state also after a restart, and on another node.
func (a *api) session(ctx context.Context, caller engine.Caller, name stateName) (*workspace, error) {
	a.naming.Lock()
	defer a.naming.Unlock()
	at := name.file()
	id, err := a.sessionIn(ctx, caller, at)
	if err != nil {
		return nil, err
	}
	if !id.IsZero() {
		if ran, err := a.ranIn(ctx, caller, name.user, id); ran || err != nil {
			return &workspace{id, true}, err
		}
		// It has expired.
		if err := a.engine.DeleteFile(ctx, caller, at); err != nil && !errors.Is(err, engine.ErrNotFound) {
			return nil, err
		}
	}
	session, err := a.engine.CreateSession(ctx, caller, engine.SessionRequest{
		Origin: engine.OriginLibreChat, TTL: a.FileTTL, Implicit: true, Scope: scope{user: name.user}.mark(caller),
	})
	if err != nil {
		return nil, err
	}
	up := engine.Upload{ID: at, Name: workspaceFile, MIME: "text/plain", Origin: engine.OriginWorkspace, TTL: a.FileTTL}
	_, err = a.engine.PutFile(ctx, caller, up, strings.NewReader(session.ID.String()))
	if errors.Is(err, engine.ErrConflict) { // another node was faster
		if id, err = a.sessionIn(ctx, caller, at); err == nil && !id.IsZero() {
			return &workspace{id, true}, nil
		}
	}
	return &workspace{session.ID, false}, err
}

// workspaceFile is the name of the files that have the sessions of workspaces.
const workspaceFile = "workspace"

// sessionIn returns the session that a file has; zero: there is none.
func (a *api) sessionIn(ctx context.Context, caller engine.Caller, at engine.ID) (engine.ID, error) {
	f, content, err := a.engine.OpenFile(ctx, caller, at)
	if errors.Is(err, engine.ErrNotFound) {
		return engine.ID{}, nil
	}
	if err != nil {
		return engine.ID{}, err
	}
	defer content.Close()
	text := make([]byte, min(f.Size, 64))
	if _, err := io.ReadFull(content, text); err != nil {
		return engine.ID{}, err
	}
	return engine.ParseID(string(text))
}

// lasting sets the workspace of a prepared program.
func (p *prepared) lasting(w *workspace) {
	p.Session = w.session
	p.Profile.Files.Private = stateFile
	if p.Language != python {
		return
	}
	p.Profile.Files.PrivateInStdin, p.Profile.Program.InStdin = true, true
	p.Stdin = append(wire.Encode(program{Source: p.Code, Tools: []tool{}, Args: []string{}}), '\n')
	p.Code = driverCode(stateDriver, p.Code)
}

// tell adds the workspace of a program to its reply.
func (w *workspace) tell(out *runReply) {
	if w == nil {
		return
	}
	out.RuntimeSession, out.RuntimeStatus = out.SessionID, "new"
	if w.reused {
		out.RuntimeStatus = "reused"
	}
}
