package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
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
}

// keep stores a response as a file of its owner, unless the client asked not to. It reports
// whether it did: a client can send the items of any response again.
func (r *response) keep(status string, whole map[string]any) bool {
	if status == "failed" || r.asked.Store != nil && !*r.asked.Store {
		return false
	}
	whole["store"] = true
	k := keptResponse{Items: r.input, Input: len(r.input), Response: encode(whole)}
	for _, element := range r.output {
		item, _ := element.(map[string]any)
		if id, _ := item["id"].(string); item["type"] == "code_interpreter_call" {
			item = maps.Clone(item)
			item["outputs"] = append([]output{}, r.logs[id]...)
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

func (q *request) getResponse() (any, error) {
	k, err := q.keptHere()
	if err != nil {
		return nil, err
	}
	return k.Response, nil
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
			item["id"] = fmt.Sprintf("msg_%s_%d", strings.TrimPrefix(q.PathValue("id"), responsePrefix), i)
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
