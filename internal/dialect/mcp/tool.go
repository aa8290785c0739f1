package mcp

import (
	"bytes"
	"context"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/airlock-run/airlock/internal/engine"
)

// texts are the descriptions of the tools for a model: for each tool a text, followed by a
// line for each argument.
//
//go:embed texts
var texts embed.FS

// tool is a row of the table of tools.
type tool struct {
	name  string
	title string
	hints sdk.ToolAnnotations
	args  []argument

	view bool // a view of the host displays the result
	call func(*Server, context.Context, *call) (*sdk.CallToolResult, error)
}

// kind is the type of an argument. Some model providers accept only the plainest schemas,
// so there are three kinds and no combinations.
type kind string

const (
	text    kind = "string"
	integer kind = "integer"
	list    kind = "array"
)

// argument is an argument of a tool.
type argument struct {
	name     string
	kind     kind
	required bool
	min, max int      // of a number, or of the length of a list; both 0: any
	enum     []string // nil: any
	value    any      // default value
}

// call is a call of a tool.
type call struct {
	caller  engine.Caller
	version string               // protocol version
	images  int                  // maximum number of pictures in the answer
	links   bool                 // the answer may have links to files
	request *sdk.CallToolRequest // nil: the call asks for the state of another call
	values  map[string]any
}

func (c *call) text(name string) string { s, _ := c.values[name].(string); return s }
func (c *call) int(name string) int     { n, _ := c.values[name].(int); return n }
func (c *call) list(name string) []string {
	l, _ := c.values[name].([]string)
	return l
}

// imageArgument is the argument of run_code that is listed only for callers with images.
const imageArgument = "image"

// withImages returns the tool as a caller with these images sees it: without the argument if there
// are none.
func withImages(t *sdk.Tool, names []string) *sdk.Tool {
	schema, ok := t.InputSchema.(map[string]any)
	if !ok {
		return t
	}
	properties, _ := schema["properties"].(map[string]any)
	shown, schema, properties := *t, maps.Clone(schema), maps.Clone(properties)
	argument, _ := properties[imageArgument].(property)
	if argument.Enum = names; len(names) > 0 {
		properties[imageArgument] = argument
	} else {
		delete(properties, imageArgument)
	}
	schema["properties"] = properties
	shown.InputSchema = schema
	return &shown
}

func readText(name string) string {
	raw, err := texts.ReadFile("texts/" + name + ".md")
	if err != nil {
		panic(err) // the table of tools and the texts must match
	}
	return strings.TrimSpace(string(raw))
}

// describe returns the descriptions of a tool and of its arguments.
func describe(name string) (string, map[string]string) {
	about, rest, _ := strings.Cut(readText(name), "\n\n- ")
	docs := map[string]string{}
	for line := range strings.SplitSeq(rest, "\n") {
		if arg, doc, ok := strings.Cut(strings.TrimPrefix(line, "- "), ": "); ok {
			docs[arg] = doc
		}
	}
	return strings.TrimSpace(about), docs
}

// property is a JSON Schema.
type property struct {
	Type        kind      `json:"type"`
	Description string    `json:"description"`
	Enum        []string  `json:"enum,omitempty"`
	MinLength   int       `json:"minLength,omitempty"`
	Minimum     *int      `json:"minimum,omitempty"`
	Maximum     *int      `json:"maximum,omitempty"`
	Items       *property `json:"items,omitempty"`
	MaxItems    int       `json:"maxItems,omitempty"`
	Default     any       `json:"default,omitempty"`
}

// definition returns the tool's definition for clients.
func (t *tool) definition() *sdk.Tool {
	about, docs := describe(t.name)
	properties := map[string]any{}
	required := []string{}
	for _, a := range t.args {
		p := property{Type: a.kind, Description: docs[a.name], Enum: a.enum, Default: a.value}
		switch {
		case a.kind == list:
			p.Items, p.MaxItems = &property{Type: text, Description: "one of them"}, a.max
		case a.kind == integer:
			p.Minimum = &a.min
			if a.max != 0 {
				p.Maximum = &a.max
			}
		case a.required && a.min > 0:
			p.MinLength = a.min
		}
		properties[a.name] = p
		if a.required {
			required = append(required, a.name)
		}
	}
	hints := t.hints
	if hints.DestructiveHint == nil && !hints.ReadOnlyHint {
		hints.DestructiveHint = new(false)
	}
	if hints.OpenWorldHint == nil { // explicit, because hosts ask the person otherwise
		hints.OpenWorldHint = new(false)
	}
	var meta sdk.Meta
	if t.view {
		meta = sdk.Meta{"ui": map[string]any{"resourceUri": viewURI}}
	}
	return &sdk.Tool{
		Meta: meta, Name: t.name, Title: t.title, Description: about, Annotations: &hints,
		InputSchema: map[string]any{
			"type": "object", "properties": properties, "required": required, "additionalProperties": false,
		},
	}
}

// read decodes the arguments of a call. Null counts as absent: strict function calling sends it for
// each optional argument.
func (t *tool) read(raw json.RawMessage) (map[string]any, error) {
	given := map[string]json.RawMessage{}
	if len(bytes.TrimSpace(raw)) > 0 {
		if !utf8.Valid(raw) {
			return nil, fmt.Errorf("arguments: text in UTF-8 is needed")
		}
		if err := json.Unmarshal(raw, &given); err != nil {
			return nil, fmt.Errorf("arguments: an object is needed")
		}
	}
	values := map[string]any{}
	for _, a := range t.args {
		value, ok := given[a.name]
		delete(given, a.name)
		if !ok || string(bytes.TrimSpace(value)) == "null" {
			if a.required {
				return nil, fmt.Errorf("%s: it is required", a.name)
			}
			values[a.name] = a.value
			continue
		}
		v, err := a.read(value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.name, err)
		}
		values[a.name] = v
	}
	for name := range given {
		var names []string
		for _, a := range t.args {
			names = append(names, a.name)
		}
		return nil, fmt.Errorf("%.40s: there is no such argument. There are: %s", name, strings.Join(names, ", "))
	}
	return values, nil
}

func (a *argument) read(raw json.RawMessage) (any, error) {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, err
	}
	switch a.kind {
	case integer:
		n, ok := v.(float64)
		if !ok || n != math.Trunc(n) || math.Abs(n) > 1<<53 {
			return nil, fmt.Errorf("an integer is needed, got %s", typeOf(v))
		}
		if int(n) < a.min || a.max != 0 && int(n) > a.max {
			if a.max == 0 {
				return nil, fmt.Errorf("at least %d is needed, got %d", a.min, int(n))
			}
			return nil, fmt.Errorf("a number from %d to %d is needed, got %d", a.min, a.max, int(n))
		}
		return int(n), nil
	case list:
		items, ok := v.([]any)
		if !ok {
			return nil, fmt.Errorf("a list of strings is needed, got %s", typeOf(v))
		}
		if a.max != 0 && len(items) > a.max {
			return nil, fmt.Errorf("at most %d are allowed, got %d", a.max, len(items))
		}
		found := make([]string, len(items))
		for i, item := range items {
			if found[i], ok = item.(string); !ok {
				return nil, fmt.Errorf("a list of strings is needed, with %s in it", typeOf(item))
			}
		}
		return found, nil
	}
	s, ok := v.(string)
	switch {
	case !ok:
		return nil, fmt.Errorf("a string is needed, got %s", typeOf(v))
	case len(s) < a.min:
		return nil, fmt.Errorf("it must not be empty")
	case a.enum != nil && !slices.Contains(a.enum, s):
		return nil, fmt.Errorf("%.40q is not one of %s", s, strings.Join(a.enum, ", "))
	}
	return s, nil
}

func typeOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "true or false"
	case float64:
		return "a number"
	case string:
		return "a string"
	case []any:
		return "a list"
	}
	return "an object"
}

// content decodes the text of an argument, in base64 if the argument encoding says so.
func (c *call) content(name string) ([]byte, error) {
	if c.text("encoding") != "base64" {
		return []byte(c.text(name)), nil
	}
	b, err := base64.StdEncoding.DecodeString(c.text(name))
	if err != nil {
		return nil, fmt.Errorf("%s: it is not base64", name)
	}
	return b, nil
}
