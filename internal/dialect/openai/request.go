package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/wire"
)

// responseRequest is a request to /responses.
type responseRequest struct {
	Model           string            `json:"model"`
	Input           json.RawMessage   `json:"input"`
	Instructions    *string           `json:"instructions"`
	Tools           []json.RawMessage `json:"tools"`
	ToolChoice      json.RawMessage   `json:"tool_choice"`
	Parallel        *bool             `json:"parallel_tool_calls"`
	Temperature     *float64          `json:"temperature"`
	TopP            *float64          `json:"top_p"`
	MaxOutputTokens *int              `json:"max_output_tokens"`
	MaxToolCalls    *int              `json:"max_tool_calls"`
	Text            json.RawMessage   `json:"text"`
	Stream          *bool             `json:"stream"`
	Include         []string          `json:"include"`
	Metadata        map[string]string `json:"metadata"`
	Reasoning       *struct {
		Effort *string `json:"effort"`
	} `json:"reasoning"`
	User     *string `json:"user"`
	Previous *string `json:"previous_response_id"`
	Store    *bool   `json:"store"`
}

// unread are parameters without a meaning here: about billing, caching, safety and the
// padding of streams.
var unread = []string{"service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention",
	"prompt_cache_options", "stream_options"}

// refused are parameters of features that Airlock does not have, with the value that
// switches the feature off.
var refused = map[string]struct{ nothing, why string }{
	"background":         {"false", "Airlock answers within the request."},
	"conversation":       {"", "Airlock keeps no conversations: send the earlier items as input."},
	"prompt":             {"", "Airlock has no stored prompts."},
	"truncation":         {`"disabled"`, "Only disabled is supported."},
	"top_logprobs":       {"0", "Airlock returns no log probabilities."},
	"context_management": {"[]", "Airlock does not compact conversations."},
	"moderation":         {"", "Airlock has no moderation."},
	"image":              {"", "Airlock makes no images."},
}

// includes are the supported values of include. The second adds nothing.
var includes = []string{"code_interpreter_call.outputs", "reasoning.encrypted_content"}

// readResponse reads and checks a request.
func (q *request) readResponse() (*responseRequest, error) {
	var given map[string]json.RawMessage
	var body json.RawMessage
	if err := q.readJSON(&body); err != nil {
		return nil, err
	}
	if json.Unmarshal(body, &given) != nil || given == nil {
		return nil, invalid("", "", "The body must be a JSON object.")
	}
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		if value := strings.TrimSpace(string(given[name])); value != "" && value != "null" &&
			value != refused[name].nothing {
			return nil, unsupported(name, "Unsupported parameter: '%s'. %s", name, refused[name].why)
		}
		delete(given, name)
	}
	for _, name := range unread {
		delete(given, name)
	}
	r := &responseRequest{}
	if err := unmarshal(body, r); err != nil {
		return nil, err
	}
	for field := range reflect.TypeFor[responseRequest]().Fields() {
		delete(given, field.Tag.Get("json"))
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		return nil, invalid(name, "unknown_parameter", "Unknown parameter: '%.80s'.", name)
	}
	if r.Model == "" {
		return nil, required("model")
	}
	return r, checkInclude(r.Include)
}

func checkInclude(list []string) error {
	for i, name := range list {
		if !slices.Contains(includes, name) {
			return invalid(fmt.Sprintf("include[%d]", i), "invalid_value",
				"Invalid value: '%.80s'. Supported values are: %s.", name, strings.Join(includes, ", "))
		}
	}
	return nil
}

// unmarshal names the field of a wrong type in its error.
func unmarshal(text []byte, into any) error {
	err := json.Unmarshal(text, into)
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return invalid(e.Field, "invalid_type", "Invalid type for '%s': a JSON %s is not expected there.", e.Field, e.Value)
	}
	if err != nil {
		return invalid("", "", "We could not parse the JSON body of your request: %v.", err)
	}
	return nil
}

// toolset holds the tools of a request and the meaning of their names.
type toolset struct {
	list      []json.RawMessage // in the format of chat completions
	functions map[string]bool   // the client's
	python    string            // name of the function that runs code; empty: none
	code      *wanted           // the container to create for code; nil: it exists
	container string            // its id
}

// takePython names the tool that runs code so that no function of the client has the name.
func (t *toolset) takePython() error {
	for _, name := range []string{"python", "code_interpreter", "run_python"} {
		if !t.functions[name] {
			t.python = name
			return nil
		}
	}
	return invalid("tools", "invalid_value",
		"The names python, code_interpreter and run_python are all taken: the tool code_interpreter needs one of them.")
}

// readTools reads tools of the Responses API or, with chat, those of chat completions.
func readTools(list []json.RawMessage, chat bool) (*toolset, error) {
	t := &toolset{functions: map[string]bool{}}
	interpreters := 0
	for i, raw := range list {
		var tool struct {
			Type        string                `json:"type"`
			Name        string                `json:"name"`
			Description *string               `json:"description"`
			Parameters  json.RawMessage       `json:"parameters"`
			Strict      *bool                 `json:"strict"`
			Container   json.RawMessage       `json:"container"`
			Function    struct{ Name string } `json:"function"` // of chat completions
		}
		param := fmt.Sprintf("tools[%d]", i)
		if err := json.Unmarshal(raw, &tool); err != nil {
			return nil, invalid(param, "invalid_type", "Invalid type for '%s'.", param)
		}
		switch {
		case tool.Type == "code_interpreter":
			if interpreters++; interpreters > 1 {
				return nil, invalid(param, "invalid_value", "There may be one tool code_interpreter.")
			}
			if err := t.readContainer(param+".container", tool.Container); err != nil {
				return nil, err
			}
		case chat:
			t.functions[tool.Function.Name] = true
			t.list = append(t.list, raw)
		case tool.Type == "function":
			if tool.Name == "" {
				return nil, required(param + ".name")
			}
			function := map[string]any{"name": tool.Name}
			set(function, "description", tool.Description)
			set(function, "strict", tool.Strict)
			if present(tool.Parameters) {
				function["parameters"] = tool.Parameters
			}
			t.functions[tool.Name] = true
			t.list = append(t.list, encode(map[string]any{"type": "function", "function": function}))
		case tool.Type == "":
			return nil, required(param + ".type")
		default:
			return nil, invalid(param+".type", "unsupported_value",
				"Tool '%.40s' is not supported: Airlock has code_interpreter and function.", tool.Type)
		}
	}
	if interpreters > 0 {
		return t, t.takePython()
	}
	return t, nil
}

func (t *toolset) readContainer(param string, raw json.RawMessage) error {
	if !present(raw) {
		return required(param)
	}
	if json.Unmarshal(raw, &t.container) == nil && t.container != "" {
		return nil
	}
	var auto struct {
		Type string `json:"type"`
		wanted
	}
	if err := json.Unmarshal(raw, &auto); err != nil || auto.Type != "auto" {
		return invalid(param, "invalid_value",
			"Invalid value for '%s': it is the id of a container, or {\"type\":\"auto\"}.", param)
	}
	t.code = &auto.wanted
	t.code.Name = "auto"
	return nil
}

// choice returns a tool_choice for chat completions. forced reports whether the model must
// call a tool, which applies to its first answer only.
func (t *toolset) choice(raw json.RawMessage) (choice any, forced bool, err error) {
	if !present(raw) {
		return nil, false, nil
	}
	var word string
	if json.Unmarshal(raw, &word) == nil {
		switch word {
		case "auto", "none":
			return word, false, nil
		case "required":
			return word, true, nil
		}
	}
	var named struct{ Type, Name string }
	_ = json.Unmarshal(raw, &named)
	switch {
	case named.Type == "function" && t.functions[named.Name]:
	case named.Type == "code_interpreter" && t.python != "":
		named.Name = t.python
	default:
		return nil, false, invalid("tool_choice", "invalid_value",
			"Invalid value for 'tool_choice': it is auto, none, required, or names one of the tools.")
	}
	return map[string]any{"type": "function", "function": map[string]string{"name": named.Name}}, true, nil
}

// format returns text.format for chat completions.
func format(text json.RawMessage) (any, error) {
	var given struct {
		Format *struct {
			Type        string          `json:"type"`
			Name        string          `json:"name"`
			Description *string         `json:"description,omitempty"`
			Schema      json.RawMessage `json:"schema"`
			Strict      *bool           `json:"strict,omitempty"`
		} `json:"format"`
	}
	if len(text) == 0 {
		return nil, nil //nolint:nilnil // none is asked for
	}
	if err := unmarshal(text, &given); err != nil {
		return nil, err
	}
	switch f := given.Format; {
	case f == nil, f.Type == "text":
		return nil, nil //nolint:nilnil // none is asked for
	case f.Type == "json_object":
		return map[string]string{"type": f.Type}, nil
	case f.Type == "json_schema":
		schema := map[string]any{"name": f.Name, "schema": f.Schema}
		set(schema, "description", f.Description)
		set(schema, "strict", f.Strict)
		return map[string]any{"type": f.Type, "json_schema": schema}, nil
	}
	return nil, invalid("text.format.type", "invalid_value",
		"Invalid value for 'text.format.type': there are text, json_object and json_schema.")
}

// params returns the parameters of the chat completion that a request asks for.
func (r *responseRequest) params(t *toolset) (params map[string]any, forced bool, err error) {
	params = map[string]any{"model": r.Model}
	set(params, "temperature", r.Temperature)
	set(params, "top_p", r.TopP)
	set(params, "max_tokens", r.MaxOutputTokens)
	set(params, "user", r.User)
	if len(t.list) > 0 {
		set(params, "parallel_tool_calls", r.Parallel)
	}
	if r.Reasoning != nil {
		set(params, "reasoning_effort", r.Reasoning.Effort)
	}
	shape, err := format(r.Text)
	if err != nil {
		return nil, false, err
	}
	if shape != nil {
		params["response_format"] = shape
	}
	choice, forced, err := t.choice(r.ToolChoice)
	if choice != nil {
		params["tool_choice"] = choice
	}
	return params, forced, err
}

// set sets a field if its value is given.
func set[T any](fields map[string]any, name string, value *T) {
	if value != nil {
		fields[name] = *value
	}
}

// present reports whether raw is neither empty nor null.
func present(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

func encode(v any) json.RawMessage { return wire.Encode(v) }
