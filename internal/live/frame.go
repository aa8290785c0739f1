package live

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/airlock-run/airlock/internal/engine"
)

// FrameQuery is a question about a data frame that a cell displayed. The rows of a view are those that pass all
// filters and have all words of the search, in the order of Sort.
type FrameQuery struct {
	Frame   string        `json:"frame"` // its name in TableForm
	Want    FrameWant     `json:"want"`
	Rows    [2]int        `json:"rows"`    // of the view: the first, and the one after the last
	Columns [2]int        `json:"columns"` // of its fields, which begin with its index
	Sort    []FrameSort   `json:"sort,omitempty"`
	Filters []FrameFilter `json:"filters,omitempty"`
	Search  string        `json:"search,omitempty"`
}

// FrameWant says what a FrameQuery asks for.
type FrameWant string

// What can be asked of a data frame.
const (
	FrameWindow     FrameWant = "window"     // values, column by column, shortened where they are long
	FrameText       FrameWant = "text"       // whole values, as lines with tabs
	FrameCSV        FrameWant = "csv"        // whole rows
	FrameStatistics FrameWant = "statistics" // of the first of the columns
)

// FrameSort orders rows by a field.
type FrameSort struct {
	Column     int  `json:"column"`
	Descending bool `json:"descending"`
}

// FrameFilter keeps the rows whose value of a field compares like this: =, !=, <, <=, >, >=, contains, excludes,
// missing or present.
type FrameFilter struct {
	Column int    `json:"column"`
	Op     string `json:"op"`
	Value  string `json:"value"`
}

// FrameAnswer is the answer to a FrameQuery. The last fields depend on Want. It is as untrusted as the program.
type FrameAnswer struct {
	Rows    int  `json:"rows"`  // of the view
	Total   int  `json:"total"` // of the frame
	Columns int  `json:"columns"`
	Index   int  `json:"index"`   // how many fields are its index
	Changed bool `json:"changed"` // it has another size than when it was displayed

	From       int             `json:"from"`                 // the first row of Data
	Fields     json.RawMessage `json:"fields,omitempty"`     // of the columns: name, type, ...
	Data       json.RawMessage `json:"data,omitempty"`       // of FrameWindow; it may have fewer rows than were asked for
	Text       *string         `json:"text,omitempty"`       // of FrameText and FrameCSV
	Next       int             `json:"next,omitempty"`       // the row after the last one of FrameCSV
	Statistics json.RawMessage `json:"statistics,omitempty"` // of FrameStatistics
}

// Frame answers a question about a data frame that a cell displayed. It waits for the cells before it. The
// interpreter keeps the last frames: ErrConflict says that it has this one no longer, and never starts a new one.
func (s *Service) Frame(
	ctx context.Context, caller engine.Caller, session engine.ID, q FrameQuery,
) (a FrameAnswer, err error) {
	at, err := s.find(ctx, caller, session)
	if err != nil {
		return a, err
	}
	at.mu.Lock()
	running := at.interpreter != nil && at.interpreter.ending == ""
	at.mu.Unlock()
	if !running || at.settings.Language != "python" {
		return a, frameGone("its interpreter has ended")
	}
	var answer struct {
		FrameAnswer
		Problem string `json:"problem"`
		Gone    bool   `json:"gone"`
	}
	text := struct {
		Do string `json:"do"`
		FrameQuery
	}{frameOrder, q}
	if err := at.query(ctx, &order{do: frameOrder, text: text, reply: make(chan reply, 1)}, &answer); err != nil {
		return a, err
	}
	switch {
	case answer.Gone:
		return a, frameGone(answer.Problem)
	case answer.Problem != "":
		return a, &engine.Error{Op: frameOrder, Kind: engine.ErrInvalid, ID: "frame:", Err: errors.New(answer.Problem)}
	}
	return answer.FrameAnswer, nil
}

const frameOrder = "frame"

func frameGone(why string) error {
	return &engine.Error{Op: frameOrder, Kind: engine.ErrConflict, Err: errors.New(why),
		Hint: "This data frame cannot be read: " + why + ". Run its cell again to have all of its rows."}
}
