package native

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/rest"
)

// request is a request with its parsed ids.
type request struct {
	*rest.Request
	api   *api
	id    engine.ID // of the engine's object that the path names first
	inner engine.ID // of the cell or process in that session
}

// handler serves a route. See Handler.
type handler func(*request) (any, error)

// handle returns the HTTP handler of a route.
func (a *api) handle(serve handler) http.HandlerFunc {
	return a.kit.Handle(func(q *rest.Request) (any, error) { return serve(&request{Request: q, api: a}) })
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
			return nil, engine.NotFound("find", q.PathValue("id"))
		}
		if second := cmp.Or(q.PathValue("cell"), q.PathValue("process")); second != "" {
			if q.inner, err = engine.ParseID(second); err != nil {
				return nil, engine.NotFound("find", second)
			}
		}
		answer, err := serve(q, p)
		if fixed, ok := errors.AsType[*live.ReadOnlyError](err); ok {
			return nil, rest.Forbidden("%s", fixed.Error()) // no key changes that
		}
		return answer, err
	}
}

// get answers with the object of an id.
func get[P, T, B any](
	part func(*api) (P, error), find func(P, context.Context, engine.Caller, engine.ID) (T, error), encode func(T) B,
) handler {
	return on(part, func(q *request, p P) (any, error) {
		found, err := find(p, q.Context(), q.Caller, q.id)
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
		found, err := find(p, q.Context(), q.Caller, q.id, q.inner)
		if err != nil {
			return nil, err
		}
		return encode(found), nil
	})
}

// do changes the object of an id, and answers without a body.
func do[P any](part func(*api) (P, error), act func(P, context.Context, engine.Caller, engine.ID) error) handler {
	return on(part, func(q *request, p P) (any, error) { return nil, act(p, q.Context(), q.Caller, q.id) })
}

// doInner changes the object of an id in a session.
func doInner[P any](
	part func(*api) (P, error), act func(p P, ctx context.Context, c engine.Caller, session, id engine.ID) error,
) handler {
	return on(part, func(q *request, p P) (any, error) { return nil, act(p, q.Context(), q.Caller, q.id, q.inner) })
}

// list encodes a list as the only member of an answer.
func list[T, B any](name string, encode func(T) B) func([]T) map[string][]B {
	return func(all []T) map[string][]B { return map[string][]B{name: rest.Each(all, encode)} }
}

// sendStream answers with an event stream.
func sendStream[E any](q *request, events iter.Seq[E], add func([]byte, E) ([]byte, bool)) (any, error) {
	sendFrames(q, events, add)
	return rest.Answer{}, nil
}

const defaultLimit = 100

// readPage reads ?limit= and ?after=. The engine knows the largest limit.
func readPage(query url.Values) (engine.Page, error) {
	page := engine.Page{Limit: defaultLimit}
	if s := query.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return page, rest.Invalid("limit must be a whole number above 0")
		}
		page.Limit = n
	}
	if s := query.Get("after"); s != "" {
		id, err := engine.ParseID(s)
		if err != nil {
			return page, rest.Invalid("after is not an id")
		}
		page.After = id
	}
	return page, nil
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
	list, next := rest.Each(found, encode), ""
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
