package native

import (
	"github.com/airlock-run/airlock/internal/engine"
)

func (q *request) createSession() (any, error) {
	body := q.object()
	kind := engine.SessionKind(body.text("kind"))
	if kind == engine.SessionLive {
		return q.createLive(body)
	}
	req := engine.SessionRequest{
		Origin: engine.OriginNative,
		Kind:   kind,
		TTL:    body.seconds("ttl_seconds"),
		Files:  readFileRefs(body),
		Limits: readLimits(body.object("limits")),
	}
	if err := body.done(); err != nil {
		return nil, err
	}
	session, err := q.engine.CreateSession(q.Context(), q.caller, req)
	if err != nil {
		return nil, err
	}
	return created("/sessions/"+session.ID.String(), sessionOf(session)), nil
}

func (q *request) listSessions() (any, error) {
	id := func(s sessionBody) engine.ID { return s.ID }
	return listPage(q, "sessions", sessionOf, id, func(page engine.Page) ([]engine.Session, error) {
		return q.engine.ListSessions(q.Context(), q.caller, engine.SessionQuery{Origin: engine.OriginNative, Page: page})
	})
}

func (q *request) getSession(core *engine.Service) (any, error) {
	session, err := core.GetSession(q.Context(), q.caller, q.id)
	if err != nil {
		return nil, err
	}
	b := sessionOf(session)
	if session.Kind == engine.SessionLive && q.Live != nil {
		info, err := q.Live.Info(q.Context(), q.caller, q.id)
		if err != nil {
			return nil, err
		}
		b.Live = liveOf(info)
	}
	return b, nil
}

func (q *request) sessionFiles(core *engine.Service) (any, error) {
	files, places, err := core.SessionFiles(q.Context(), q.caller, q.id)
	if err != nil {
		return nil, err
	}
	list := make([]sessionFileBody, 0, len(files))
	for i, f := range files {
		f.Path = places[i].Path
		list = append(list, sessionFileBody{fileBody: fileOf(f), Role: places[i].Role, ReadOnly: places[i].ReadOnly})
	}
	return map[string]any{"files": list}, nil
}
