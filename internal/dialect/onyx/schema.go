package onyx

import (
	"errors"
	"math"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/airlock-run/airlock/internal/wire"
)

// maxJSON limits a JSON body. Code may have 16 MiB and stdin 10, and escaping can double that.
const maxJSON = 50 << 20

// problem is an entry of the list that answers an invalid body.
type problem struct {
	Type  string
	Loc   []any // "body", then names and indexes
	Msg   string
	Input value
	Ctx   string // JSON; empty: none
}

// problems is the list in an answer to an invalid body. It has all errors in the order of
// the fields.
type problems []problem

// MarshalJSON writes the keys in the order of the original.
func (p problems) MarshalJSON() ([]byte, error) {
	b := []byte{'['}
	for i, one := range p {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(append(b, `{"type":`...), one.Type)
		b = append(b, `,"loc":[`...)
		for j, step := range one.Loc {
			if j > 0 {
				b = append(b, ',')
			}
			switch step := step.(type) {
			case string:
				b = appendString(b, step)
			case int:
				b = strconv.AppendInt(b, int64(step), 10)
			}
		}
		b = appendString(append(b, `],"msg":`...), one.Msg)
		b = one.Input.append(append(b, `,"input":`...))
		if one.Ctx != "" {
			b = append(append(b, `,"ctx":`...), one.Ctx...)
		}
		b = append(b, '}')
	}
	return append(b, ']'), nil
}

const bodyLoc = "body"

const notAnObject = "Input should be a valid dictionary or object to extract fields from"

// readBody reads a request's body, which must be a JSON object.
func (a *api) readBody(w http.ResponseWriter, r *http.Request) (*fields, error) {
	if r.ContentLength > maxJSON {
		return nil, &http.MaxBytesError{Limit: maxJSON}
	}
	body, err := a.Bodies.ReadRequest(w, r, a.Caller(r).Owner, maxJSON)
	switch {
	case wire.IsTooLarge(err), errors.Is(err, wire.ErrBodies):
		return nil, err
	case err != nil:
		return nil, errUnreadable
	case len(body) == 0:
		return nil, wrong(problem{Type: "missing", Loc: []any{bodyLoc}, Msg: "Field required"})
	}
	if !isJSON(r.Header.Get("Content-Type")) {
		return nil, wrong(problem{
			Type: "model_attributes_type", Loc: []any{bodyLoc}, Msg: notAnObject,
			Input: value{kind: isString, text: string(body)},
		})
	}
	v, err := parseDocument(body)
	if broken, ok := errors.AsType[*syntaxError](err); ok {
		return nil, wrong(problem{
			Type: "json_invalid", Loc: []any{bodyLoc, broken.at}, Msg: "JSON decode error",
			Input: value{kind: isObject}, Ctx: `{"error":` + string(appendString(nil, broken.text)) + "}",
		})
	}
	switch {
	case err != nil:
		return nil, err
	case v.kind == isNull:
		return nil, wrong(problem{Type: "missing", Loc: []any{bodyLoc}, Msg: "Field required"})
	case v.kind != isObject:
		return nil, wrong(problem{Type: "model_attributes_type", Loc: []any{bodyLoc}, Msg: notAnObject, Input: v})
	}
	return &fields{object: &v, at: []any{bodyLoc}, found: &problems{}}, nil
}

func isJSON(contentType string) bool {
	mediaType, _, err := mime.ParseMediaType(contentType)
	subtype, application := strings.CutPrefix(mediaType, "application/")
	return err == nil && application && (subtype == "json" || strings.HasSuffix(subtype, "+json"))
}

func wrong(p ...problem) error {
	return &wire.Refusal{Status: http.StatusUnprocessableEntity, Detail: problems(p)}
}

// fields is an object whose fields are taken one after the other. Problems are collected, so that a
// handler reads like the list of its fields.
type fields struct {
	object *value
	at     []any
	found  *problems // shared with nested objects
}

// done returns all problems, or nil.
func (f *fields) done() error {
	if len(*f.found) > 0 {
		return wrong(*f.found...)
	}
	return nil
}

func (f *fields) fail(name, kind, msg, ctx string, input value) {
	loc := append(append([]any{}, f.at...), name)
	*f.found = append(*f.found, problem{kind, loc, msg, input, ctx})
}

// text takes a required string.
func (f *fields) text(name string) string {
	v, ok := f.object.member(name)
	if !ok {
		f.fail(name, "missing", "Field required", "", *f.object)
		return ""
	}
	return f.string(name, v)
}

func (f *fields) string(name string, v *value) string {
	if v.kind != isString {
		f.fail(name, "string_type", "Input should be a valid string", "", *v)
		return ""
	}
	return v.text
}

// optionalText takes a string that may be null or absent.
func (f *fields) optionalText(name string) *string {
	v, ok := f.object.member(name)
	if !ok || v.kind == isNull {
		return nil
	}
	return new(f.string(name, v))
}

// whole takes a whole number from 1 to most. A number that overflows int64 counts as the largest.
func (f *fields) whole(name string, otherwise, most int64) int64 {
	v, ok := f.object.member(name)
	if !ok {
		return otherwise
	}
	if v.kind != isInt {
		f.fail(name, "int_type", "Input should be a valid integer", "", *v)
		return otherwise
	}
	n, err := strconv.ParseInt(v.text, 10, 64)
	if err != nil {
		n = math.MaxInt64
		if strings.HasPrefix(v.text, "-") {
			n = math.MinInt64
		}
	}
	switch {
	case n < 1:
		f.fail(name, "greater_than_equal", "Input should be greater than or equal to 1", `{"ge":1}`, *v)
	case n > most:
		limit := strconv.FormatInt(most, 10)
		f.fail(name, "less_than_equal", "Input should be less than or equal to "+limit, `{"le":`+limit+`}`, *v)
	}
	return n
}

// flag takes a value that can be parsed as a boolean.
func (f *fields) flag(name string, otherwise bool) bool {
	v, ok := f.object.member(name)
	if !ok {
		return otherwise
	}
	word := strings.ToLower(v.text)
	switch v.kind {
	case isBool, isInt, isString:
	case isFloat:
		n, err := strconv.ParseFloat(v.text, 64)
		if err != nil || n != math.Trunc(n) || math.IsInf(n, 0) {
			f.fail(name, "bool_type", "Input should be a valid boolean", "", *v)
			return otherwise
		}
		word = strconv.FormatFloat(n, 'f', 0, 64)
	default:
		f.fail(name, "bool_type", "Input should be a valid boolean", "", *v)
		return otherwise
	}
	switch word {
	case "1", "true", "t", "yes", "y", "on":
		return true
	case "0", "-0", "false", "f", "no", "n", "off":
		return false
	}
	f.fail(name, "bool_parsing", "Input should be a valid boolean, unable to interpret input", "", *v)
	return otherwise
}

// fileRef names a stored file and its path for the program.
type fileRef struct{ path, id string }

// files takes the list of files to stage.
func (f *fields) files() []fileRef {
	const name = "files"
	v, ok := f.object.member(name)
	if !ok {
		return nil
	}
	if v.kind != isList {
		f.fail(name, "list_type", "Input should be a valid list", "", *v)
		return nil
	}
	refs := make([]fileRef, 0, len(v.list))
	for i := range v.list {
		at := append(append([]any{}, f.at...), name, i)
		if v.list[i].kind != isObject {
			*f.found = append(*f.found, problem{"model_attributes_type", at, notAnObject, v.list[i], ""})
			continue
		}
		one := &fields{object: &v.list[i], at: at, found: f.found}
		refs = append(refs, fileRef{path: one.text("path"), id: one.text("file_id")})
	}
	return refs
}
