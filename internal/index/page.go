package index

import (
	"context"
	"errors"
	"math"

	"github.com/airlock-run/airlock/internal/engine"
)

// place is where a page of a list begins: after the item with this time and
// id, in descending order.
type place struct {
	created int64
	id      engine.ID
	limit   int
}

// findPlace turns the id of the last item of a page into the place after it;
// text looks up when an item was made, by its id and owner. An item that has
// expired still marks its place.
func findPlace(ctx context.Context, c *conn, text string, owner engine.Owner, page engine.Page) (place, error) {
	p := place{created: math.MaxInt64, id: page.After, limit: page.Limit}
	if p.limit <= 0 {
		p.limit = 100
	}
	if page.After.IsZero() {
		return p, nil
	}
	err := c.row(ctx, []any{&p.created}, text, page.After[:], owner)
	if errors.Is(err, engine.ErrNotFound) {
		err = &engine.Error{Op: "find page", Kind: engine.ErrNotFound, ID: page.After.String(),
			Hint: "The item after which the page should begin is gone: list from the start."}
	}
	return p, err
}
