package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// SetMember sets a member of a JSON object or of a nested one, and indents the text. The
// other members keep their order and their values.
func SetMember(object []byte, path []string, value any) ([]byte, error) {
	if object = bytes.TrimSpace(object); len(object) == 0 {
		object = []byte("{}")
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
