package native

import (
	"net/http"

	"github.com/airlock-run/airlock/internal/engine"
)

func (a *api) createSession(w http.ResponseWriter, r *http.Request) error {
	body, err := a.readObject(w, r)
	if err != nil {
		return err
	}
	kind := engine.SessionKind(body.text("kind"))
	if kind == engine.SessionLive {
		return a.createLive(w, r, body)
	}
	req := engine.SessionRequest{
		Origin: engine.OriginNative,
		Kind:   kind,
		TTL:    body.seconds("ttl_seconds"),
		Files:  readFileRefs(body),
		Limits: readLimits(body.object("limits")),
	}
	if err := body.done(); err != nil {
		return err
	}
	session, err := a.engine.CreateSession(r.Context(), a.Caller(r), req)
	if err != nil {
		return err
	}
	w.Header().Set("Location", a.Prefix+"/sessions/"+session.ID.String())
	writeJSON(w, http.StatusCreated, sessionOf(session))
	return nil
}

func (a *api) listSessions(w http.ResponseWriter, r *http.Request) error {
	page, err := readPage(r.URL.Query())
	if err != nil {
		return err
	}
	sessions, err := a.engine.ListSessions(r.Context(), a.Caller(r), engine.SessionQuery{Origin: engine.OriginNative, Page: page})
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, struct {
		Sessions []sessionBody `json:"sessions"`
		Next     string        `json:"next"`
	}{each(sessions, sessionOf), next(sessions, page, func(s engine.Session) engine.ID { return s.ID })})
	return nil
}

func (a *api) getSession(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	session, err := a.engine.GetSession(r.Context(), a.Caller(r), id)
	if err != nil {
		return err
	}
	b := sessionOf(session)
	if session.Kind == engine.SessionLive && a.Live != nil {
		info, err := a.Live.Info(r.Context(), a.Caller(r), id)
		if err != nil {
			return err
		}
		b.Live = liveOf(info)
	}
	writeJSON(w, http.StatusOK, b)
	return nil
}

func (a *api) deleteSession(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	if err := a.engine.DeleteSession(r.Context(), a.Caller(r), id); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (a *api) sessionFiles(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	files, places, err := a.engine.SessionFiles(r.Context(), a.Caller(r), id)
	if err != nil {
		return err
	}
	list := make([]sessionFileBody, 0, len(files))
	for i, f := range files {
		f.Path = places[i].Path
		list = append(list, sessionFileBody{fileBody: fileOf(f), Role: places[i].Role, ReadOnly: places[i].ReadOnly})
	}
	writeJSON(w, http.StatusOK, map[string]any{"files": list})
	return nil
}
