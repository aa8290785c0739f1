package native

import (
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

// next returns what to ask for as "after" to go on: empty at the end. A last
// page that happens to be full is followed by an empty one.
func next[T any](list []T, page engine.Page, id func(T) engine.ID) string {
	if len(list) == 0 || len(list) < page.Limit {
		return ""
	}
	return id(list[len(list)-1]).String()
}
