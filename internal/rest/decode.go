package rest

import (
	"encoding/base64"
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

// Object reads a request's body, which must be one JSON object. done returns the error if it is
// not.
func (q *Request) Object() *Object {
	o, err := q.readObject()
	if err != nil {
		return &Object{Failed: &err}
	}
	return o
}

func (q *Request) readObject() (*Object, error) {
	if err := wantJSON(q.Header); err != nil {
		return nil, err
	}
	if q.ContentLength > q.kit.MaxJSON {
		return nil, &http.MaxBytesError{Limit: q.kit.MaxJSON}
	}
	body, err := q.ReadBody()
	if err != nil {
		return nil, err
	}
	return ParseObject(body)
}

// ReadBody reads a body to its end.
func (q *Request) ReadBody() ([]byte, error) {
	body, err := q.kit.Bodies.ReadRequest(q.W, q.Request, q.Caller.Owner, q.kit.MaxJSON)
	switch {
	case errors.Is(err, wire.ErrBodies):
		return nil, Refuse(http.StatusTooManyRequests, string(engine.ErrBusy), "%s", wire.ErrBodies.Error())
	case err != nil:
		return nil, Broken(err, "the body did not arrive whole")
	}
	return body, nil
}

func wantJSON(h http.Header) error {
	mediaType, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	charset := strings.ToLower(params["charset"])
	if err != nil || mediaType != "application/json" || charset != "" && charset != "utf-8" {
		return Refuse(http.StatusUnsupportedMediaType, "unsupported_media_type",
			"the Content-Type must be application/json, in UTF-8")
	}
	return nil
}

// Object is a JSON object whose fields a handler takes one by one. done returns the first
// error, so that a handler reads like the list of its fields.
type Object struct {
	at      string
	Members map[string]any
	Failed  *error // shared with nested objects
}

// Fail records the error of a field, unless there is one already.
func (o *Object) Fail(field, format string, args ...any) {
	if *o.Failed == nil {
		*o.Failed = Invalid(join(o.at, field)+" "+format, args...)
	}
}

// Done returns the first error, or an error for a field that was not taken. Null counts as absent.
func (o *Object) Done() error {
	for name := range o.Members {
		o.Fail(name, "is not a field that is known here")
	}
	return *o.Failed
}

// remove removes a field and reports whether it is there.
func (o *Object) remove(field string) (any, bool) {
	v, ok := o.Members[field]
	delete(o.Members, field)
	return v, ok && v != nil
}

// Take takes a field of a type, and reports whether it is there. want names the type.
func Take[T any](o *Object, field, want string) (T, bool) {
	var zero T
	v, ok := o.remove(field)
	if !ok {
		return zero, false
	}
	value, ok := v.(T)
	if !ok {
		o.Fail(field, "must be %s, not %s", want, kindOf(v))
	}
	return value, ok
}

// Text takes a text; "": the field is absent.
func (o *Object) Text(field string) string {
	s, _ := Take[string](o, field, "a string")
	return s
}

// elements returns the elements of an array, up to one of another type.
func elements[T any](o *Object, field, plural, want string) (all []T) {
	list, _ := Take[[]any](o, field, "an array of "+plural)
	for i, v := range list {
		one, ok := v.(T)
		if !ok {
			o.Fail(index(field, i), "must be %s, not %s", want, kindOf(v))
			break
		}
		all = append(all, one)
	}
	return all
}

// NeedText takes a required text, which may be empty.
func (o *Object) NeedText(field string) string {
	s, ok := Take[string](o, field, "a string")
	if !ok {
		o.Fail(field, "is missing")
	}
	return s
}

// Flag takes true or false.
func (o *Object) Flag(field string, otherwise bool) bool {
	if b, ok := Take[bool](o, field, "true or false"); ok {
		return b
	}
	return otherwise
}

// Count takes a whole number from 1 to most; 0: the field is absent.
func (o *Object) Count(field string, most int64) int64 { return o.number(field, 1, most, 0) }

// UpTo takes a whole number from 0 to most.
func (o *Object) UpTo(field string, most, otherwise int64) int64 {
	return o.number(field, 0, most, otherwise)
}

func (o *Object) number(field string, least, most, otherwise int64) int64 {
	number, ok := Take[json.Number](o, field, "a whole number")
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseInt(string(number), 10, 64)
	if err != nil || n < least || n > most {
		o.Fail(field, "must be a whole number from %d to %d", least, most)
		return 0
	}
	return n
}

// Fraction takes a number above 0; 0: absent.
func (o *Object) Fraction(field string) float64 {
	number, ok := Take[json.Number](o, field, "a number")
	if !ok {
		return 0
	}
	f, err := number.Float64()
	if err != nil || f <= 0 {
		o.Fail(field, "must be a number above 0")
	}
	return f
}

// The upper bounds of times in a request.
const (
	maxMillis  = int64(24 * time.Hour / time.Millisecond)
	MaxSeconds = int64(365 * 24 * time.Hour / time.Second)
)

// Millis takes a duration in milliseconds; 0: the field is absent.
func (o *Object) Millis(field string) time.Duration {
	return time.Duration(o.Count(field, maxMillis)) * time.Millisecond
}

// Seconds takes a duration in seconds; 0: the field is absent.
func (o *Object) Seconds(field string) time.Duration {
	return time.Duration(o.Count(field, MaxSeconds)) * time.Second
}

// ID takes an id; the zero value: the field is absent.
func (o *Object) ID(field string) engine.ID {
	s := o.Text(field)
	if s == "" {
		return engine.ID{}
	}
	id, err := engine.ParseID(s)
	if err != nil {
		o.Fail(field, "is not an id")
	}
	return id
}

// Texts takes an array of texts.
func (o *Object) Texts(field string) []string {
	return elements[string](o, field, "strings", "a string")
}

// Base64s takes an array of bytes in base64.
func (o *Object) Base64s(field string) (all [][]byte) {
	for i, text := range o.Texts(field) {
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			o.Fail(index(field, i), "is not base64")
		}
		all = append(all, data)
	}
	return all
}

// TextMap takes an object whose members are strings.
func (o *Object) TextMap(field string) map[string]string {
	members, _ := Take[map[string]any](o, field, "an object of strings")
	texts := make(map[string]string, len(members))
	for name, v := range members {
		s, ok := v.(string)
		if !ok {
			o.Fail(join(field, name), "must be a string, not %s", kindOf(v))
		}
		texts[name] = s
	}
	return texts
}

// Object takes an object, which is empty if the field is absent. Its errors are those of o.
func (o *Object) Object(field string) *Object {
	members, _ := Take[map[string]any](o, field, "an object")
	return &Object{at: join(o.at, field), Members: members, Failed: o.Failed}
}

// Objects takes an array of objects, whose errors are those of o.
func (o *Object) Objects(field string) (all []*Object) {
	for i, members := range elements[map[string]any](o, field, "objects", "an object") {
		all = append(all, &Object{at: join(o.at, index(field, i)), Members: members, Failed: o.Failed})
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
