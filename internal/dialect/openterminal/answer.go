package openterminal

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

// statuses is the table from engine errors to HTTP statuses.
var statuses = wire.Statuses(map[engine.Kind]int{
	engine.ErrNoLanguage: http.StatusServiceUnavailable,
})

// problem is an entry of FastAPI's list of validation errors.
type problem struct {
	Type  string         `json:"type"`
	Loc   []any          `json:"loc"`
	Msg   string         `json:"msg"`
	Input any            `json:"input"`
	Ctx   map[string]any `json:"ctx,omitempty"`
}

func wrong(kind, in string, name any, message string, input any) error {
	return unprocessable(problem{Type: kind, Loc: []any{in, name}, Msg: message, Input: input})
}

// outside returns the error of a number that is beyond a bound.
func outside(kind, name, words, sign string, bound float64, input string) error {
	return unprocessable(problem{kind, []any{"query", name}, fmt.Sprintf("Input should be %s %v", words, bound), input,
		map[string]any{sign: bound}})
}

func unprocessable(p problem) error {
	return &wire.Refusal{Status: http.StatusUnprocessableEntity, Detail: []problem{p}}
}

// refuseRequest answers with an error from the front door.
func refuseRequest(w http.ResponseWriter, _ *http.Request, status int, _, message string) {
	if status == http.StatusUnauthorized {
		message = "Invalid API key"
	}
	writeJSON(w, status, map[string]any{"detail": message})
}

func (a *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	status, detail := http.StatusInternalServerError, any("Internal Server Error")
	refused, ours := errors.AsType[*wire.Refusal](err)
	e, known := errors.AsType[*engine.Error](err)
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		status, detail = http.StatusRequestEntityTooLarge, fmt.Sprintf("The body is too large: at most %d bytes are taken.",
			large.Limit)
	} else if ours {
		status, detail = refused.Status, refused.Detail
	} else if s := statuses[engine.KindOf(err)]; s != 0 {
		status, detail = s, http.StatusText(s)
		if known {
			unnamed := *e // fields and objects have other names here
			unnamed.ID = ""
			detail = wire.Sentence(&unnamed)
		}
	}
	if status == http.StatusInternalServerError && r.Context().Err() == nil {
		a.Log.ErrorContext(r.Context(), "request failed", "request_id", w.Header().Get("X-Request-Id"), "err", err)
	}
	if known && e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(max(int(e.RetryAfter.Seconds()), 1)))
	}
	member := "detail"
	if strings.HasPrefix(r.URL.Path, "/api/terminals") && !strings.HasPrefix(r.URL.Path, "/api/terminals/user/") {
		member = "error"
	}
	writeJSON(w, status, map[string]any{member: detail})
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	wire.Write(w, status, "application/json", wire.EncodePlain(body)) // a model may get the text unchanged
}

// decode reads a JSON body with required members.
func (q *request) decode(into any, required ...string) error {
	text, err := q.Bodies.ReadRequest(q.w, q.Request, q.caller.Owner, maxJSON)
	if err != nil {
		return err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		var at int64
		if e, ok := errors.AsType[*json.SyntaxError](err); ok {
			at = e.Offset
		}
		return wrong("json_invalid", "body", at, "JSON decode error: "+err.Error(), map[string]any{})
	}
	for _, name := range required {
		if raw, ok := members[name]; !ok || string(raw) == "null" {
			return wrong("missing", "body", name, "Field required", map[string]any{})
		}
	}
	if err := json.Unmarshal(text, into); err != nil {
		field := ""
		if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			field = strings.ToLower(e.Field)
		}
		return wrong("type_error", "body", field, "Input has the wrong type: "+err.Error(), nil)
	}
	return nil
}

// wrongQuery reports a parameter. The first one is the request's problem.
func (q *request) wrongQuery(kind, name, message string) {
	q.problem = cmp.Or(q.problem, wrong(kind, "query", name, message, q.query.Get(name)))
}

// number reads a parameter within bounds. otherwise is the default.
func (q *request) number(name string, least, most, otherwise float64) float64 {
	text := q.query.Get(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || math.IsNaN(n):
		q.wrongQuery("float_parsing", name, "Input should be a valid number, unable to parse string as a number")
	case n < least:
		q.problem = cmp.Or(q.problem, outside("greater_than_equal", name, "greater than or equal to", "ge", least, text))
	case n > most:
		q.problem = cmp.Or(q.problem, outside("less_than_equal", name, "less than or equal to", "le", most, text))
	}
	return n
}

// whole is number for whole numbers.
func (q *request) whole(name string, least, most, otherwise int) int {
	if text := q.query.Get(name); text != "" {
		if _, err := strconv.ParseInt(text, 10, 64); err != nil {
			q.wrongQuery("int_parsing", name, "Input should be a valid integer, unable to parse string as an integer")
		}
	}
	return int(q.number(name, float64(least), float64(most), float64(otherwise)))
}

// flag reads a boolean parameter.
func (q *request) flag(name string, otherwise bool) bool {
	switch q.query.Get(name) {
	case "":
		return otherwise
	case "true", "True", "1", "on", "yes":
		return true
	case "false", "False", "0", "off", "no":
	default:
		q.wrongQuery("bool_parsing", name, "Input should be a valid boolean, unable to interpret input")
	}
	return false
}
