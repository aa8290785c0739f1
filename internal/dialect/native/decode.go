package native

import (
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

// object reads a request's body, which must be one JSON object. done returns the error if it is
// not.
func (q *request) object() *object {
	o, err := q.readObject()
	if err != nil {
		return &object{failed: &err}
	}
	return o
}

func (q *request) readObject() (*object, error) {
	if err := wantJSON(q.Header); err != nil {
		return nil, err
	}
	if q.ContentLength > q.MaxJSON {
		return nil, &http.MaxBytesError{Limit: q.MaxJSON}
	}
	body, err := q.readBody()
	if err != nil {
		return nil, err
	}
	return parseObject(body)
}

// readBody reads a body to its end.
func (q *request) readBody() ([]byte, error) {
	body, err := q.Bodies.ReadRequest(q.w, q.Request, q.caller.Owner, q.MaxJSON)
	switch {
	case errors.Is(err, wire.ErrBodies):
		return nil, refuse(http.StatusTooManyRequests, string(engine.ErrBusy), "%s", wire.ErrBodies.Error())
	case err != nil:
		return nil, broken(err, "the body did not arrive whole")
	}
	return body, nil
}

func wantJSON(h http.Header) error {
	mediaType, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	charset := strings.ToLower(params["charset"])
	if err != nil || mediaType != "application/json" || charset != "" && charset != "utf-8" {
		return refuse(http.StatusUnsupportedMediaType, "unsupported_media_type",
			"the Content-Type must be application/json, in UTF-8")
	}
	return nil
}

// object is a JSON object whose fields a handler takes one by one. done returns the first
// error, so that a handler reads like the list of its fields.
type object struct {
	at      string
	members map[string]any
	failed  *error // shared with nested objects
}

func (o *object) fail(field, format string, args ...any) {
	if *o.failed == nil {
		*o.failed = invalid(join(o.at, field)+" "+format, args...)
	}
}

// done returns the first error, or an error for a field that was not taken. Null counts as absent.
func (o *object) done() error {
	for name := range o.members {
		o.fail(name, "is not a field that is known here")
	}
	return *o.failed
}

// take removes a field and reports whether it is there.
func (o *object) take(field string) (any, bool) {
	v, ok := o.members[field]
	delete(o.members, field)
	return v, ok && v != nil
}

func take[T any](o *object, field, want string) (T, bool) {
	var zero T
	v, ok := o.take(field)
	if !ok {
		return zero, false
	}
	value, ok := v.(T)
	if !ok {
		o.fail(field, "must be %s, not %s", want, kindOf(v))
	}
	return value, ok
}

func (o *object) text(field string) string {
	s, _ := take[string](o, field, "a string")
	return s
}

// elements returns the elements of an array, up to one of another type.
func elements[T any](o *object, field, plural, want string) (all []T) {
	list, _ := take[[]any](o, field, "an array of "+plural)
	for i, v := range list {
		one, ok := v.(T)
		if !ok {
			o.fail(index(field, i), "must be %s, not %s", want, kindOf(v))
			break
		}
		all = append(all, one)
	}
	return all
}

// needText takes a required text, which may be empty.
func (o *object) needText(field string) string {
	s, ok := take[string](o, field, "a string")
	if !ok {
		o.fail(field, "is missing")
	}
	return s
}

func (o *object) flag(field string, otherwise bool) bool {
	if b, ok := take[bool](o, field, "true or false"); ok {
		return b
	}
	return otherwise
}

// count takes a whole number from 1 to most; 0: the field is absent.
func (o *object) count(field string, most int64) int64 { return o.number(field, 1, most, 0) }

// upTo takes a whole number from 0 to most.
func (o *object) upTo(field string, most, otherwise int64) int64 {
	return o.number(field, 0, most, otherwise)
}

func (o *object) number(field string, least, most, otherwise int64) int64 {
	number, ok := take[json.Number](o, field, "a whole number")
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseInt(string(number), 10, 64)
	if err != nil || n < least || n > most {
		o.fail(field, "must be a whole number from %d to %d", least, most)
		return 0
	}
	return n
}

// fraction takes a number above 0; 0: absent.
func (o *object) fraction(field string) float64 {
	number, ok := take[json.Number](o, field, "a number")
	if !ok {
		return 0
	}
	f, err := number.Float64()
	if err != nil || f <= 0 {
		o.fail(field, "must be a number above 0")
	}
	return f
}

// The upper bounds of times in a request.
const (
	maxMillis  = int64(24 * time.Hour / time.Millisecond)
	maxSeconds = int64(365 * 24 * time.Hour / time.Second)
)

func (o *object) millis(field string) time.Duration {
	return time.Duration(o.count(field, maxMillis)) * time.Millisecond
}

func (o *object) seconds(field string) time.Duration {
	return time.Duration(o.count(field, maxSeconds)) * time.Second
}

func (o *object) id(field string) engine.ID {
	s := o.text(field)
	if s == "" {
		return engine.ID{}
	}
	id, err := engine.ParseID(s)
	if err != nil {
		o.fail(field, "is not an id")
	}
	return id
}

func (o *object) texts(field string) []string {
	return elements[string](o, field, "strings", "a string")
}

// textMap takes an object whose members are strings.
func (o *object) textMap(field string) map[string]string {
	members, _ := take[map[string]any](o, field, "an object of strings")
	texts := make(map[string]string, len(members))
	for name, v := range members {
		s, ok := v.(string)
		if !ok {
			o.fail(join(field, name), "must be a string, not %s", kindOf(v))
		}
		texts[name] = s
	}
	return texts
}

func (o *object) object(field string) *object {
	members, _ := take[map[string]any](o, field, "an object")
	return &object{at: join(o.at, field), members: members, failed: o.failed}
}

func (o *object) objects(field string) (all []*object) {
	for i, members := range elements[map[string]any](o, field, "objects", "an object") {
		all = append(all, &object{at: join(o.at, index(field, i)), members: members, failed: o.failed})
	}
	return all
}

func kindOf(v any) string {
	switch v.(type) {
	case string:
		return "a string"
	case json.Number:
		return "a number"
	case bool:
		return "true or false"
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	}
	return "null"
}
