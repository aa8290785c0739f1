package native

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/airlock-run/airlock/internal/engine"
)

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

// listPage answers with a page of a list, and with what to ask for as "after" to go
// on: empty at the end. A last page that happens to be full is followed by an empty
// one.
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

// pageBody has a list under its name, and then what to go on with.
type pageBody struct {
	name string
	list any
	next string
}

func (p pageBody) MarshalJSON() ([]byte, error) {
	list, err := json.Marshal(p.list)
	return fmt.Appendf(nil, `{%q:%s,"next":%q}`, p.name, list, p.next), err
}
