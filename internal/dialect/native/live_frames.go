package native

import (
	"cmp"

	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/rest"
)

// Limits of one question about a data frame.
const (
	maxFrameRows   = 1_000_000
	frameRows      = 200 // of one that names no limit
	maxFrameFields = 1 << 31
)

// readFrame answers a question about a data frame that a cell displayed.
func (q *request) readFrame(on live.Sessions) (any, error) {
	query, err := frameQuery(q.Object())
	if err != nil {
		return nil, err
	}
	query.Frame = q.PathValue("frame")
	return on.Frame(q.Context(), q.Caller, q.id, query)
}

func frameQuery(o *rest.Object) (query live.FrameQuery, err error) {
	query.Want = live.FrameWant(cmp.Or(o.Text("want"), string(live.FrameWindow)))
	switch query.Want {
	case live.FrameWindow, live.FrameText, live.FrameCSV, live.FrameStatistics:
	default:
		o.Fail("want", "must be window, text, csv or statistics")
	}
	first := int(o.UpTo("offset", 1<<53, 0))
	query.Rows = [2]int{first, first + int(o.UpTo("limit", maxFrameRows, frameRows))}
	column, columns := int(o.UpTo("column", maxFrameFields, 0)), int(o.Count("columns", maxFrameFields))
	if columns == 0 {
		columns = maxFrameFields
	}
	query.Columns = [2]int{column, column + columns}
	for _, one := range o.Objects("sort") {
		query.Sort = append(query.Sort, live.FrameSort{
			Column: int(one.UpTo("column", maxFrameFields, 0)), Descending: one.Flag("descending", false)})
		if err := one.Done(); err != nil {
			return query, err
		}
	}
	for _, one := range o.Objects("filters") {
		query.Filters = append(query.Filters, live.FrameFilter{
			Column: int(one.UpTo("column", maxFrameFields, 0)), Op: one.NeedText("op"), Value: one.Text("value")})
		if err := one.Done(); err != nil {
			return query, err
		}
	}
	query.Search = o.Text("search")
	return query, o.Done()
}
