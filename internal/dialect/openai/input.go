package openai

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
)

// inputReader translates the items of a conversation into messages of chat completions.
type inputReader struct {
	q        *request
	tools    *toolset
	messages []json.RawMessage
	pending  []any             // calls of the assistant that are not yet in a message
	last     string            // container of the last code that ran
	files    []string          // ids of the files that code needs
	items    []json.RawMessage // of earlier responses, then of the request
	size     int               // bytes of items
	ids      map[string]bool   // of items
	found    *keptResponse     // the last response that an item was named of
	foundID  string
}

// largestImage bounds an uploaded picture that goes into a message.
const largestImage = 20 << 20

// item is an item of the input of any type.
type item struct {
	Type        string          `json:"type"`
	Role        string          `json:"role"`
	Content     json.RawMessage `json:"content"`
	ID          string          `json:"id"`
	CallID      string          `json:"call_id"`
	Name        string          `json:"name"`
	Arguments   string          `json:"arguments"`
	Output      json.RawMessage `json:"output"`
	Code        *string         `json:"code"`
	ContainerID string          `json:"container_id"`
	Outputs     []output        `json:"outputs"`
}

// output is an output of a code_interpreter_call.
type output struct {
	Type string `json:"type"` // logs or image
	Logs string `json:"logs,omitempty"`
	URL  string `json:"url,omitempty"`
}

// read reads the input of a request.
func (in *inputReader) read(r *responseRequest) error {
	if r.Instructions != nil && *r.Instructions != "" {
		in.say("system", *r.Instructions)
	}
	if r.Previous != nil {
		before, err := in.q.kept(*r.Previous)
		if err != nil {
			return missing(err, invalid("previous_response_id", "previous_response_not_found",
				"Previous response with id '%.80s' not found.", *r.Previous))
		}
		if err := in.list("previous_response_id", before.Items); err != nil {
			return err
		}
	}
	var text string
	var items []json.RawMessage
	switch {
	case len(r.Input) > 0 && json.Unmarshal(r.Input, &text) == nil:
		items = []json.RawMessage{encode(map[string]string{"role": "user", "content": text})}
	case len(r.Input) == 0 || json.Unmarshal(r.Input, &items) != nil:
		return invalid("input", "missing_required_parameter",
			"Missing required parameter: 'input', a text or a list of items.")
	}
	return in.list("input", items)
}

// list reads items.
func (in *inputReader) list(param string, items []json.RawMessage) error {
	for i, raw := range items {
		var it item
		at := fmt.Sprintf("%s[%d]", param, i)
		if json.Unmarshal(raw, &it) != nil {
			return invalid(at, "invalid_type", "Invalid type for '%s'.", at)
		}
		if it.Type == "item_reference" || it.Type == "" && it.Role == "" && it.ID != "" {
			if in.ids[it.ID] {
				continue // a call of code is named for itself and again for its result
			}
			var err error
			if raw, err = in.referenced(at, &it); err != nil {
				return err
			}
		}
		if in.size += len(raw); in.size > maxJSON {
			return invalid(at, "invalid_value", "The conversation has more than %d MiB: leave earlier items out.", maxJSON>>20)
		}
		in.items = append(in.items, raw)
		in.ids[it.ID] = it.ID != ""
		if err := in.item(at, &it); err != nil {
			return err
		}
	}
	in.flush()
	return nil
}

// referenced replaces a reference by the item of a stored response that it names.
func (in *inputReader) referenced(param string, it *item) (json.RawMessage, error) {
	response, n, ok := itemAt(it.ID)
	nowhere := &refusal{http.StatusNotFound, problem{Type: invalidRequest, Param: param, Message: fmt.Sprintf(
		"Item with id '%.80s' not found: its response was not stored, was deleted, or has expired. Send the item itself.",
		it.ID)}}
	if !ok {
		return nil, nowhere
	}
	if response != in.foundID {
		k, err := in.q.kept(response)
		if err != nil {
			return nil, missing(err, nowhere)
		}
		in.found, in.foundID = k, response
	}
	if n >= len(in.found.Items) {
		return nil, nowhere
	}
	id := it.ID
	*it = item{}
	err := json.Unmarshal(in.found.Items[n], it)
	if it.ID != id && it.ID != "" {
		return nil, nowhere
	}
	it.ID = id
	return in.found.Items[n], err
}

func (in *inputReader) item(param string, it *item) error {
	switch it.Type {
	case "", "message":
		in.flush()
		return in.message(param, it)
	case "function_call":
		in.pending = append(in.pending, toolCall(it.CallID, it.Name, it.Arguments))
	case "function_call_output":
		in.flush()
		content, err := in.content(param+".output", it.Output)
		if err != nil {
			return err
		}
		in.messages = append(in.messages, toolReply(it.CallID, content))
	case "code_interpreter_call":
		in.flush()
		in.last = it.ContainerID
		code := ""
		if it.Code != nil {
			code = *it.Code
		}
		name := cmp.Or(in.tools.python, "python")
		in.pending = append(in.pending, toolCall(it.ID, name, string(encode(map[string]string{"code": code}))))
		in.flush()
		in.messages = append(in.messages, toolReply(it.ID, in.earlier(it)))
	case "reasoning": // no other model can read it
	default:
		return invalid(param+".type", "unsupported_value",
			"Items of the type '%.40s' are not supported: there are message, function_call, "+
				"function_call_output, code_interpreter_call and reasoning.", it.Type)
	}
	return nil
}

// earlier returns the output of an earlier call. An item without outputs gets those of its
// cell, if the container still has the cell.
func (in *inputReader) earlier(it *item) string {
	if it.Outputs == nil {
		session, err := parseID(containerPrefix, it.ContainerID)
		if cell, known := in.q.ran.Get(it.ID); known && err == nil {
			if ran, err := in.q.Live.Cell(in.q.Context(), in.q.caller, session, cell); err == nil {
				return clip(logs(&ran))
			}
		}
		return "(the output is not known any more)"
	}
	var b strings.Builder
	for _, out := range it.Outputs {
		b.WriteString(out.Logs)
	}
	return clip(b.String())
}

// flush adds the message that makes the pending calls.
func (in *inputReader) flush() {
	if len(in.pending) > 0 {
		in.messages = append(in.messages, encode(map[string]any{"role": "assistant", "content": nil,
			"tool_calls": in.pending}))
		in.pending = nil
	}
}

func toolCall(id, name, arguments string) map[string]any {
	return map[string]any{"id": id, "type": "function", "function": map[string]string{"name": name,
		"arguments": arguments}}
}

func toolReply(id string, content any) json.RawMessage {
	return encode(map[string]any{"role": "tool", "tool_call_id": id, "content": content})
}

func (in *inputReader) say(role, text string) {
	in.messages = append(in.messages, encode(map[string]any{"role": role, "content": text}))
}

func (in *inputReader) message(param string, it *item) error {
	roles := map[string]string{"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
	role := roles[it.Role]
	if role == "" {
		return invalid(param+".role", "invalid_value",
			"Invalid value: '%.40s'. Supported values are: assistant, system, developer and user.", it.Role)
	}
	content, err := in.content(param+".content", it.Content)
	if err == nil {
		in.messages = append(in.messages, encode(map[string]any{"role": role, "content": content}))
	}
	return err
}

// content returns a text, or parts if there are pictures: many servers accept no parts.
func (in *inputReader) content(param string, raw json.RawMessage) (any, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var given []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Refusal  string `json:"refusal"`
		ImageURL string `json:"image_url"`
		FileID   string `json:"file_id"`
		Filename string `json:"filename"`
		FileData string `json:"file_data"`
		FileURL  string `json:"file_url"`
	}
	if json.Unmarshal(raw, &given) != nil {
		return nil, invalid(param, "invalid_type", "Invalid type for '%s': it is a text or a list of parts.", param)
	}
	parts, texts := []any{}, []string{}
	add := func(text string) {
		texts = append(texts, text)
		parts = append(parts, map[string]string{"type": "text", "text": text})
	}
	for i, part := range given {
		at := fmt.Sprintf("%s[%d]", param, i)
		switch part.Type {
		case "input_text", "output_text", "text":
			add(part.Text)
		case "refusal":
			add(part.Refusal)
		case "input_image":
			url, err := in.picture(at, part.ImageURL, part.FileID)
			if err != nil {
				return nil, err
			}
			parts = append(parts, map[string]any{"type": "image_url", "image_url": map[string]string{"url": url}})
		case "input_file":
			id := part.FileID
			if part.FileURL != "" {
				return nil, unsupported(at+".file_url", "Airlock fetches no files: send file_id or file_data.")
			}
			if in.tools.python == "" {
				return nil, unsupported(at, "Files are for code here: add the tool code_interpreter, or send text.")
			}
			f, err := in.file(at, id, part.Filename, part.FileData)
			if err != nil {
				return nil, err
			}
			in.files = append(in.files, filePrefix+f.ID.String())
			add("[The file " + cleanName(f.Name) + " is at " + workspace + "/" + stagedName(f) + "]")
		default:
			return nil, invalid(at+".type", "invalid_value",
				"Invalid value: '%.40s'. Supported values are: input_text, input_image and input_file.", part.Type)
		}
	}
	if len(texts) == len(parts) {
		return strings.Join(texts, "\n"), nil
	}
	return parts, nil
}

// picture returns the URL of a picture: a data URL if it was uploaded.
func (in *inputReader) picture(param, url, id string) (string, error) {
	if url != "" || id == "" {
		if !strings.HasPrefix(url, "data:image/") && !strings.HasPrefix(url, "https://") && !strings.HasPrefix(url,
			"http://") {
			return "", invalid(param+".image_url", "invalid_value",
				"Invalid value for '%s.image_url': it is a URL or a data URL of a picture.", param)
		}
		return url, nil
	}
	f, err := in.q.known(id)
	if err != nil {
		return "", err
	}
	if !strings.HasPrefix(f.MIME, "image/") || f.Size > largestImage {
		return "", invalid(param+".file_id", "invalid_value", "The file '%.80s' is no picture of at most %d MiB.", id,
			largestImage>>20)
	}
	_, content, err := in.q.Engine.OpenFile(in.q.Context(), in.q.caller, f.ID)
	if err != nil {
		return "", missing(err, noFile(id))
	}
	defer content.Close()
	data, err := io.ReadAll(content)
	return "data:" + f.MIME + ";base64," + base64.StdEncoding.EncodeToString(data), err
}

// file returns an upload, or stores the data that was sent.
func (in *inputReader) file(param, id, name, data string) (engine.File, error) {
	if id != "" {
		return in.q.known(id)
	}
	if head, rest, ok := strings.Cut(data, ";base64,"); ok && strings.HasPrefix(head, "data:") {
		data = rest
	}
	if data == "" {
		return engine.File{}, invalid(param, "missing_required_parameter",
			"Missing required parameter: '%s.file_id' or '%s.file_data'.", param, param)
	}
	up := engine.Upload{Name: cleanName(name), Origin: engine.OriginOpenAI, Max: in.q.MaxUpload, TTL: mostMinutes * 60e9}
	f, err := in.q.Engine.PutFile(in.q.Context(), in.q.caller, up, base64.NewDecoder(base64.StdEncoding,
		strings.NewReader(data)))
	if err != nil && engine.KindOf(err) == engine.ErrInvalid {
		err = invalid(param+".file_data", "invalid_value", "Invalid value for '%s.file_data': it is no base64.", param)
	}
	return f, err
}

// container returns where code runs: in the named container, in that of earlier code of the
// conversation, or in a new one that is created when needed.
func (in *inputReader) container() (*box, error) {
	b, named := &box{q: in.q}, in.tools.code == nil
	if in.tools.python == "" {
		return b, nil
	}
	id, wanted := in.tools.container, in.files
	if !named {
		id, wanted = in.last, slices.Concat(in.tools.code.FileIDs, in.files)
	}
	wanted = unique(wanted)
	if id != "" {
		s, files, err := in.q.container(id)
		switch {
		case err == nil:
			b.id, b.files = s.ID, files
		case named:
			return nil, err
		}
	}
	if b.id.IsZero() {
		var err error
		in.tools.code.FileIDs = wanted
		b.make, err = in.q.session(in.tools.code)
		for _, f := range b.make.Files {
			b.files = append(b.files, insideFile{at: f.Path})
		}
		return b, err
	}
	for _, id := range wanted {
		f, err := in.q.known(id)
		if err != nil {
			return nil, err
		}
		if at := stagedName(f); !slices.ContainsFunc(b.files, func(g insideFile) bool { return g.at == at }) {
			if _, err := in.q.stage(b.id, id); err != nil {
				return nil, err
			}
			b.files = append(b.files, insideFile{at: at})
		}
	}
	return b, nil
}

func unique(list []string) (once []string) {
	for _, s := range list {
		if !slices.Contains(once, s) {
			once = append(once, s)
		}
	}
	return once
}
