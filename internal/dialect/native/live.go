package native

import (
	"unicode/utf8"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
)

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
