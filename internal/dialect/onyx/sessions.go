package onyx

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

const (
	sessionPrefix      = "code-session-"
	defaultSessionTTL  = 900       // s
	maxSessionTTL      = 24 * 3600 // s
	defaultBashTimeout = 30_000    // ms
)

// sessionName spells a session's id: the hexadecimal digits of its UUID.
func sessionName(id engine.ID) string {
	return sessionPrefix + strings.ReplaceAll(id.UUID(), "-", "")
}

// sessionID parses an id from sessionName.
func sessionID(r *http.Request) (engine.ID, error) {
	hex, ok := strings.CutPrefix(r.PathValue("id"), sessionPrefix)
	if !ok || len(hex) != 32 {
		return engine.ID{}, engine.ErrNotFound
	}
	return engine.ParseUUID(hex[:8] + "-" + hex[8:12] + "-" + hex[12:16] + "-" + hex[16:20] + "-" + hex[20:])
}

func noSession(r *http.Request) error {
	return wire.Refuse(http.StatusNotFound, "Session '%s' not found", r.PathValue("id"))
}

func (a *api) createSession(w http.ResponseWriter, r *http.Request) error {
	body, err := a.readBody(w, r)
	if err != nil {
		return err
	}
	ttl, files := body.whole("ttl_seconds", defaultSessionTTL, maxSessionTTL), body.files()
	if err := body.done(); err != nil {
		return err
	}
	caller := a.Caller(r)
	refs, err := a.stage(r.Context(), caller, files, "")
	if err != nil {
		return err
	}
	count := a.meter.startOperation("session_create")
	session, err := a.engine.CreateSession(r.Context(), caller, engine.SessionRequest{
		Origin: engine.OriginOnyx, Kind: engine.SessionHeld, TTL: time.Duration(ttl) * time.Second, Files: refs,
	})
	count.end(nil, err)
	if err != nil {
		return a.runError(r.Context(), caller, files, err)
	}
	writeJSON(w, http.StatusCreated, sessionBody{SessionID: sessionName(session.ID),
		ExpiresAt: unixTime(session.ExpiresAt)})
	return nil
}

func (a *api) deleteSession(w http.ResponseWriter, r *http.Request) error {
	id, err := sessionID(r)
	if err == nil {
		err = a.engine.DeleteSession(r.Context(), a.Caller(r), id)
	}
	if errors.Is(err, engine.ErrNotFound) {
		return noSession(r)
	}
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// bash runs a command in a session: a new shell each time, in a persistent workspace.
func (a *api) bash(w http.ResponseWriter, r *http.Request) error {
	body, err := a.readBody(w, r)
	if err != nil {
		return err
	}
	cmd, limit := body.text("cmd"), body.whole("timeout_ms", defaultBashTimeout, noMaximum)
	if err := body.done(); err != nil {
		return err
	}
	timeout, err := a.checkTimeout(limit)
	if err != nil {
		return err
	}
	id, err := sessionID(r)
	if err != nil {
		return noSession(r)
	}
	if problem := surrogates(cmd); problem != "" {
		return unprocessable("%s", problem)
	}
	if strings.ContainsRune(cmd, 0) {
		return unprocessable("cmd must not contain NUL")
	}
	req := engine.RunRequest{Language: "bash", Code: cmd, Session: id, Profile: a.profile(timeout)}
	req.Profile.Program.Inline = true
	req.Profile.Files.Discard = true // its files stay only in the session
	count := a.meter.startOperation("session_bash")
	run, err := a.engine.Run(r.Context(), a.Caller(r), req)
	count.end(run, err)
	if errors.Is(err, engine.ErrNotFound) {
		return noSession(r)
	}
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, bodyOf(run))
	return nil
}
