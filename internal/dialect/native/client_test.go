package native

import (
	"encoding"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/client"
)

// TestClientTypes checks that an answer and the client's type for it have the same
// fields, of the same kinds of JSON.
func TestClientTypes(t *testing.T) {
	for _, pair := range [][2]any{
		{runBody{}, client.Run{}}, {fileBody{}, client.File{}},
		{sessionBody{}, client.Session{}}, {liveBody{}, client.LiveState{}}, {sessionFileBody{}, client.SessionFile{}},
		{limitsBody{}, client.Limits{}}, {cellBody{}, client.Cell{}},

		{processBody{}, client.Process{}}, {treeProcessBody{}, client.TreeProcess{}}, {entryBody{}, client.LiveEntry{}},
		{contactBody{}, client.Contact{}},
	} {
		if diff := cmp.Diff(fieldsOf(pair[0]), fieldsOf(pair[1])); diff != "" {
			t.Errorf("%T is not %T: (-server +client)\n%s", pair[0], pair[1], diff)
		}
	}
}

// fieldsOf returns the kinds of JSON of a struct's fields by name.
func fieldsOf(body any) map[string]string {
	fields := map[string]string{}
	for _, f := range reflect.VisibleFields(reflect.TypeOf(body)) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			fields[name] = jsonKind(f.Type)
		}
	}
	return fields
}

func jsonKind(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return "string"
	}
	switch t.Kind() {
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "array"
	case reflect.Struct, reflect.Map:
		return "object"
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	}
	return "number"
}
