package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tailscale/hujson"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// SetMember sets a member of a JSON object or of a nested one, and indents the text. The
// other members keep their order and their values. A document with comments or trailing commas keeps
// every byte of the rest.
func SetMember(object []byte, path []string, value any) ([]byte, error) {
	if object = bytes.TrimSpace(object); len(object) == 0 {
		object = []byte("{}")
	}
	if !json.Valid(object) {
		return setCommented(object, path, value)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(object, &members); err != nil || members == nil {
		return nil, fmt.Errorf("it is not plain JSON: %w", errors.Join(errors.New("an object is expected"), err))
	}
	for i := 1; i < len(path); i++ {
		found := gjson.GetBytes(object, strings.Join(path[:i], "."))
		if found.Exists() && found.Type != gjson.Null && !found.IsObject() {
			return nil, fmt.Errorf("%s is not an object", path[i-1])
		}
	}
	text, err := sjson.SetBytes(object, strings.Join(path, "."), value)
	if err != nil {
		return nil, err
	}
	var shown bytes.Buffer
	err = json.Indent(&shown, append(text, '\n'), "", "  ")
	return shown.Bytes(), err
}

// setCommented is SetMember for JSON with comments.
func setCommented(document []byte, path []string, value any) ([]byte, error) {
	parsed, err := hujson.Parse(document)
	if err != nil {
		return nil, fmt.Errorf("it is not JSON, with or without comments: %w", err)
	}
	at := &parsed
	for depth, key := range path {
		object, ok := at.Value.(*hujson.Object)
		if !ok {
			return nil, fmt.Errorf("the value that is to have %s is not an object", key)
		}
		if at = valueOf(object, key); at == nil {
			at = addMember(object, key, depth+1)
		}
	}
	indent := strings.Repeat("  ", len(path))
	text, err := json.MarshalIndent(value, indent, "  ")
	if err != nil {
		return nil, err
	}
	set, err := hujson.Parse(text)
	if err != nil {
		return nil, err
	}
	at.Value = set.Value
	return append(bytes.TrimRight(parsed.Pack(), "\n"), '\n'), nil
}

// valueOf returns the value of a member, the last one of several, as readers of JSON take it; nil for none.
func valueOf(object *hujson.Object, key string) (found *hujson.Value) {
	for i, m := range object.Members {
		if name, ok := m.Name.Value.(hujson.Literal); ok && name.String() == key {
			found = &object.Members[i].Value
		}
	}
	return found
}

// addMember adds a member with an empty object, on a line of its own. A comment behind the former last
// member stays there.
func addMember(object *hujson.Object, key string, depth int) *hujson.Value {
	line := hujson.Extra("\n" + strings.Repeat("  ", depth))
	closing := "\n" + strings.Repeat("  ", depth-1)
	before := hujson.Extra(strings.TrimRight(string(object.AfterExtra), " \t\r\n"))
	object.Members = append(object.Members, hujson.ObjectMember{
		Name:  hujson.Value{BeforeExtra: append(before, line...), Value: hujson.String(key)},
		Value: hujson.Value{BeforeExtra: hujson.Extra(" "), Value: &hujson.Object{}},
	})
	object.AfterExtra = hujson.Extra(closing)
	return &object.Members[len(object.Members)-1].Value
}
