package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
)

// responsePrefix begins the id of a response. The id of the file that stores it follows.
const responsePrefix = "resp_"

// keptResponse is a stored response with the conversation that a later one continues.
type keptResponse struct {
	Items    []json.RawMessage `json:"items"`    // of the conversation so far, with the outputs of code
	Input    int               `json:"input"`    // number of items before the response
	Response json.RawMessage   `json:"response"` // as it was sent
	// Outputs are those of its calls of code, by their ids. Items have only what was printed: they
	// are stored again with each later response.
	Outputs map[string][]output `json:"outputs"`
}

// keep stores a response as a file of its owner, unless the client asked not to. It reports
// whether it did: a client can send the items of any response again.
func (r *response) keep(status string, whole map[string]any) bool {
	if status == "failed" || r.asked.Store != nil && !*r.asked.Store {
		return false
	}
	whole["store"] = true
	k := keptResponse{Items: r.input, Input: len(r.input), Response: encode(whole), Outputs: r.ran}
	for _, element := range r.output {
		item, _ := element.(map[string]any)
		if id, _ := item["id"].(string); item["type"] == "code_interpreter_call" {
			item = maps.Clone(item)
			item["outputs"] = slices.DeleteFunc(append([]output{}, r.ran[id]...), func(o output) bool {
				return o.Type != "logs"
			})
		}
		k.Items = append(k.Items, encode(item))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.q.Context()), endTime)
	defer cancel()
	id, err := parseID(responsePrefix, r.id)
	if err == nil {
		up := engine.Upload{ID: id, Name: "response.json", MIME: "application/json", Origin: engine.OriginResponse}
		_, err = r.q.Engine.PutFile(ctx, r.q.caller, up, bytes.NewReader(encode(k)))
	}
	if err != nil {
		r.q.Log.Warn("a response could not be kept", "error", err)
	}
	return err == nil
}

// kept returns a stored response of the caller.
func (q *request) kept(id string) (*keptResponse, error) {
	parsed, err := parseID(responsePrefix, id)
	if err != nil {
		return nil, err
	}
	k := &keptResponse{}
	_, err = q.readStored(parsed, engine.OriginResponse, "response.json", k)
	return k, err
}

// readStored decodes a file of the caller.
func (q *request) readStored(id engine.ID, origin engine.Origin, name string, into any) (engine.File, error) {
	f, content, err := q.Engine.OpenFile(q.Context(), q.caller, id)
	if err != nil {
		return f, err
	}
	defer content.Close()
	if f.Origin != origin || f.Name != name {
		return f, &engine.Error{Op: "read stored", Kind: engine.ErrNotFound, ID: id.String()}
	}
	return f, json.NewDecoder(content).Decode(into)
}

func (q *request) keptHere() (*keptResponse, error) {
	k, err := q.kept(q.PathValue("id"))
	return k, missing(err, notFound("Response with id '%.80s' not found.", q.PathValue("id")))
}

// itemID returns the id of the nth item of the conversation of a stored response.
func itemID(prefix, response string, n int) string {
	return fmt.Sprintf("%s%s_%d", prefix, strings.TrimPrefix(response, responsePrefix), n)
}

// itemAt returns the response and the place that an id of itemID has.
func itemAt(id string) (response string, n int, ok bool) {
	_, rest, _ := strings.Cut(id, "_")
	at := strings.LastIndexByte(rest, '_')
	if at < 0 {
		return "", 0, false
	}
	n, err := strconv.Atoi(rest[at+1:])
	return responsePrefix + rest[:at], n, err == nil && n >= 0
}

// getResponse is GET /responses/{id}.
func (q *request) getResponse() error {
	k, err := q.keptHere()
	if err != nil {
		return err
	}
	query := q.URL.Query()
	include := slices.Concat(query["include"], query["include[]"])
	if err := checkInclude(include); err != nil {
		return err
	}
	whole, err := k.whole(slices.Contains(include, includes[0]))
	if err != nil {
		return err
	}
	if query.Get("stream") != "true" {
		writeJSON(q.w, http.StatusOK, whole)
		return nil
	}
	skip := 0
	if text := query.Get("starting_after"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return invalid("starting_after", "invalid_type", "Invalid type for 'starting_after': it is the number of an event.")
		}
		skip = n + 1
	}
	return q.replay(k, whole, skip)
}

// whole returns the response, with the outputs of its code if asked to.
func (k *keptResponse) whole(outputs bool) (map[string]json.RawMessage, error) {
	var whole map[string]json.RawMessage
	var items []map[string]json.RawMessage
	err := json.Unmarshal(k.Response, &whole)
	if err == nil {
		err = json.Unmarshal(whole["output"], &items)
	}
	if err != nil || !outputs {
		return whole, err
	}
	for _, item := range items {
		var id string
		_ = json.Unmarshal(item["id"], &id) // every item has one
		if ran, ok := k.Outputs[id]; ok {
			item["outputs"] = encode(ran)
		}
	}
	whole["output"] = encode(items)
	return whole, nil
}

// replay sends a stored response as the events of a stream, without the first of them.
func (q *request) replay(k *keptResponse, whole map[string]json.RawMessage, skip int) error {
	var stored struct {
		ID     string
		Status string
		Output []struct {
			item
			Status  string
			Content []struct {
				Text, Refusal string
				Annotations   []map[string]any
			} `json:"content"`
		}
	}
	if err := json.Unmarshal(encode(whole), &stored); err != nil {
		return err
	}
	r := &response{q: q, asked: &responseRequest{}, turn: &turn{box: &box{}}, id: stored.ID, events: &events{}, skip: skip,
		input: k.Items[:k.Input], ran: map[string][]output{}}
	before := maps.Clone(whole)
	before["status"], before["output"], before["usage"] = encode("in_progress"), encode([]any{}), encode(nil)
	r.events.sendHeaders(q.w)
	r.send("created", map[string]any{"response": before})
	r.send("in_progress", map[string]any{"response": before})
	for _, it := range stored.Output {
		c := &call{ID: it.CallID, Name: it.Name}
		switch it.Type {
		case "message":
			for _, part := range it.Content {
				if part.Refusal != "" {
					r.refusalDelta(part.Refusal)
				} else {
					r.textDelta(part.Text)
				}
				r.endText(part.Annotations)
			}
		case "function_call":
			c.State.kind = ofClient
			c.Arguments.WriteString(it.Arguments)
			r.callDelta(c, it.Arguments)
			r.functionDone(c, it.Status)
		case "code_interpreter_call":
			if it.Outputs != nil {
				r.asked.Include = includes
			}
			c.State.kind = runsCode
			r.turn.box.id, _ = parseID(containerPrefix, it.ContainerID) // as it was sent
			r.callDelta(c, "")
			if it.Status != "incomplete" {
				r.codeReady(c, *it.Code)
			}
			r.codeDone(c, *it.Code, &ran{status: it.Status, outputs: it.Outputs})
		}
	}
	r.send(stored.Status, map[string]any{"response": whole})
	r.events.end("")
	return nil
}

// listInput lists the input of a response with the earlier items of its conversation. It
// completes short forms of messages as OpenAI does.
func (q *request) listInput() (any, error) {
	k, err := q.keptHere()
	if err != nil {
		return nil, err
	}
	all := make([]map[string]any, 0, k.Input)
	for i, raw := range k.Items[:k.Input] {
		var item map[string]any
		if err := json.Unmarshal(raw, &item); err != nil {
			return nil, err
		}
		if text, ok := item["content"].(string); ok {
			kind := "input_text"
			if item["role"] == "assistant" {
				kind = "output_text"
			}
			item["content"] = []any{map[string]any{"type": kind, "text": text}}
		}
		if item["id"] == nil {
			item["id"] = itemID("msg_", q.PathValue("id"), i)
		}
		if item["type"] == nil {
			item["type"] = "message"
		}
		if item["status"] == nil {
			item["status"] = "completed"
		}
		all = append(all, item)
	}
	slices.Reverse(all)
	return q.list(all, 100, 20)
}

// cancelResponse refuses: there are no responses in the background.
func (q *request) cancelResponse() (any, error) {
	if _, err := q.keptHere(); err != nil {
		return nil, err
	}
	return nil, invalid("", "", "Cannot cancel a synchronous response.")
}

func (q *request) deleteResponse() (any, error) {
	if _, err := q.keptHere(); err != nil {
		return nil, err
	}
	id, _ := parseID(responsePrefix, q.PathValue("id")) // it was read before
	err := q.Engine.DeleteFile(q.Context(), q.caller, id)
	return deletedBody(q.PathValue("id"), "response"),
		missing(err, notFound("Response with id '%.80s' not found.", q.PathValue("id")))
}
