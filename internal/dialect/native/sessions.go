package native

import (
	"unicode/utf8"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
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

// errNoLive says that a service keeps no interpreters.
var errNoLive = &engine.Error{Kind: engine.ErrUnavailable, Hint: "This service has no live sessions."}

// createLive makes a live session of the rest of a request.
func (q *request) createLive(body *object) (any, error) {
	req := live.Request{
		Origin:   engine.OriginNative,
		Language: body.text("language"),
		Packages: body.text("python_packages"),
		Network:  readNetwork(body),
		TTL:      body.seconds("ttl_seconds"),
		Files:    readFileRefs(body),
		Limits:   readLimits(body.object("limits")),
	}
	if err := body.done(); err != nil {
		return nil, err
	}
	if q.Live == nil {
		return nil, errNoLive
	}
	session, err := q.Live.Create(q.Context(), q.caller, req)
	return created("/sessions/"+session.ID.String(), sessionOf(session)), err
}

// answerInput answers the input() of the running cell.
func (q *request) answerInput(on live.Sessions) (any, error) {
	body := q.object()
	text := body.needText("text")
	if err := body.done(); err != nil {
		return nil, err
	}
	return nil, on.Answer(q.Context(), q.caller, q.id, text)
}

func (q *request) complete(on live.Sessions) (any, error) {
	body := q.object()
	code, cursor := readCursor(body)
	if err := body.done(); err != nil {
		return nil, err
	}
	c, err := on.Complete(q.Context(), q.caller, q.id, code, cursor)
	return client.Completion{Matches: append([]string{}, c.Matches...), Start: c.Start, End: c.End}, err
}

// readCursor reads code and a place in it, which is its end if none is named.
func readCursor(body *object) (code string, cursor int) {
	code = body.needText("code")
	end := utf8.RuneCountInString(code)
	return code, int(body.upTo("cursor", int64(end), int64(end)))
}

func (q *request) inspect(on live.Sessions) (any, error) {
	body := q.object()
	code, cursor := readCursor(body)
	detail := body.upTo("detail", 1, 0)
	if err := body.done(); err != nil {
		return nil, err
	}
	found, err := on.Inspect(q.Context(), q.caller, q.id, code, cursor, int(detail))
	if err != nil {
		return nil, err
	}
	if found.Data == nil {
		found.Data = mimeBody{}
	}
	return client.Inspection(found), nil
}

func (q *request) isComplete(on live.Sessions) (any, error) {
	body := q.object()
	code := body.needText("code")
	if err := body.done(); err != nil {
		return nil, err
	}
	status, indent, err := on.IsComplete(q.Context(), q.caller, q.id, code)
	return map[string]string{"status": status, "indent": indent}, err
}

func variableOf(v live.Variable) client.Variable { return client.Variable(v) }
