package native

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
)

// request is a request with its parsed ids.
type request struct {
	*api
	*http.Request
	w      http.ResponseWriter
	caller engine.Caller
	id     engine.ID // of the engine's object that the path names first
	inner  engine.ID // of the cell or process in that session
}

// handler serves a route. It returns the body of an answer with status 200, an answer with
// another status, or nil for 204.
type handler func(*request) (any, error)

// answer is an answer with its own status. Without a status it was sent already.
type answer struct {
	status   int
	location string // below the prefix; empty: none
	body     any
}

func created(location string, body any) answer {
	return answer{http.StatusCreated, location, body}
}

// handle returns the HTTP handler of a route.
func (a *api) handle(serve handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		result, err := serve(&request{api: a, Request: r, w: w, caller: a.Caller(r)})
		if err != nil {
			a.fail(w, r, err)
			return
		}
		switch result := result.(type) {
		case nil:
			w.WriteHeader(http.StatusNoContent)
		case answer:
			if result.status == 0 {
				return
			}
			if result.location != "" {
				w.Header().Set("Location", a.Prefix+result.location)
			}
			writeJSON(w, result.status, result.body)
		default:
			writeJSON(w, http.StatusOK, result)
		}
	}
}

// core and sessions are the parts of the service that routes are served by.
func core(a *api) (*engine.Service, error) { return a.engine, nil }

func sessions(a *api) (live.Sessions, error) {
	if a.Live == nil {
		return nil, errNoLive
	}
	return a.Live, nil
}

// on parses the ids in the path, and returns ErrNotFound for an invalid id.
func on[P any](part func(*api) (P, error), serve func(*request, P) (any, error)) handler {
	return func(q *request) (any, error) {
		p, err := part(q.api)
		if err != nil {
			return nil, err
		}
		if q.id, err = engine.ParseID(q.PathValue("id")); err != nil {
			return nil, engine.ErrNotFound
		}
		if second := cmp.Or(q.PathValue("cell"), q.PathValue("process")); second != "" {
			if q.inner, err = engine.ParseID(second); err != nil {
				return nil, engine.ErrNotFound
			}
		}
		return serve(q, p)
	}
}

// get answers with the object of an id.
func get[P, T, B any](
	part func(*api) (P, error), find func(P, context.Context, engine.Caller, engine.ID) (T, error), encode func(T) B,
) handler {
	return on(part, func(q *request, p P) (any, error) {
		found, err := find(p, q.Context(), q.caller, q.id)
		if err != nil {
			return nil, err
		}
		return encode(found), nil
	})
}

// getInner answers with the object of an id in a session.
func getInner[P, T, B any](
	part func(*api) (P, error), find func(p P, ctx context.Context, c engine.Caller, session, id engine.ID) (T, error),
	encode func(T) B,
) handler {
	return on(part, func(q *request, p P) (any, error) {
		found, err := find(p, q.Context(), q.caller, q.id, q.inner)
		if err != nil {
			return nil, err
		}
		return encode(found), nil
	})
}

// do changes the object of an id, and answers without a body.
func do[P any](part func(*api) (P, error), act func(P, context.Context, engine.Caller, engine.ID) error) handler {
	return on(part, func(q *request, p P) (any, error) { return nil, act(p, q.Context(), q.caller, q.id) })
}

// doInner changes the object of an id in a session.
func doInner[P any](
	part func(*api) (P, error), act func(p P, ctx context.Context, c engine.Caller, session, id engine.ID) error,
) handler {
	return on(part, func(q *request, p P) (any, error) { return nil, act(p, q.Context(), q.caller, q.id, q.inner) })
}

// list encodes a list as the only member of an answer.
func list[T, B any](name string, encode func(T) B) func([]T) map[string][]B {
	return func(all []T) map[string][]B { return map[string][]B{name: each(all, encode)} }
}

// sendStream answers with an event stream.
func sendStream[E any](q *request, events iter.Seq[E], add func([]byte, E) ([]byte, bool)) (any, error) {
	sendFrames(q, events, add)
	return answer{}, nil
}

const defaultLimit = 100

// readPage reads ?limit= and ?after=. The engine knows the largest limit.
func readPage(query url.Values) (engine.Page, error) {
	page := engine.Page{Limit: defaultLimit}
	if s := query.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return page, invalid("limit must be a whole number above 0")
		}
		page.Limit = n
	}
	if s := query.Get("after"); s != "" {
		id, err := engine.ParseID(s)
		if err != nil {
			return page, invalid("after is not an id")
		}
		page.After = id
	}
	return page, nil
}

// readFlag reads true or false from the query; absent is false.
func readFlag(r *http.Request, name string) (bool, error) {
	switch r.URL.Query().Get(name) {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	}
	return false, invalid("%s must be true or false", name)
}

// listPage answers with a page of a list and the "after" of the next page, which is empty at the
// end. A last page that happens to be full is followed by an empty one.
func listPage[T, B any](
	q *request, name string, encode func(T) B, id func(B) engine.ID, find func(engine.Page) ([]T, error),
) (any, error) {
	page, err := readPage(q.URL.Query())
	if err != nil {
		return nil, err
	}
	found, err := find(page)
	if err != nil {
		return nil, err
	}
	list, next := each(found, encode), ""
	if n := len(list); n > 0 && n >= page.Limit {
		next = id(list[n-1]).String()
	}
	return pageBody{name, list, next}, nil
}

// pageBody is a named list, and the "after" of the next page.
type pageBody struct {
	name string
	list any
	next string
}

func (p pageBody) MarshalJSON() ([]byte, error) {
	list, err := json.Marshal(p.list)
	return fmt.Appendf(nil, `{%q:%s,"next":%q}`, p.name, list, p.next), err
}
