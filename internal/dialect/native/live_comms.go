package native

import (
	"encoding/json"
	"maps"

	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/rest"
)

// maxParent is the longest name of a request that comms answer to.
const maxParent = 100

// listComms lists the open comms of a session, which widgets are made of.
func (q *request) listComms(on live.Sessions) (any, error) {
	found, err := on.Comms(q.Context(), q.Caller, q.id, q.URL.Query().Get("target"))
	if err != nil {
		return nil, err
	}
	comms := map[string]live.Comm{} // null is no object
	maps.Copy(comms, found)
	return map[string]any{"comms": comms}, nil
}

// sendComm sends a message to a comm, and answers with the events of what comes of it.
func (q *request) sendComm(on live.Sessions) (any, error) {
	body := q.Object()
	message := live.CommMessage{Kind: body.NeedText("msg_type"), Content: readJSON(body, "content"),
		Metadata: readJSON(body, "metadata"), Buffers: body.Base64s("buffers")}
	parent := readParent(body)
	if err := body.Done(); err != nil {
		return nil, err
	}
	events, err := on.SendComm(q.Context(), q.Caller, q.id, parent, message)
	if err != nil {
		return nil, err
	}
	return sendStream(q, events, appendCellEvent)
}

// readJSON takes an object as JSON; nil: it is absent.
func readJSON(o *rest.Object, field string) json.RawMessage {
	members, ok := rest.Take[map[string]any](o, field, "an object")
	if !ok {
		return nil
	}
	text, err := json.Marshal(members)
	if err != nil {
		panic(err) // it was read from JSON
	}
	return text
}

// readParent takes what the caller calls its request, for comms to answer to.
func readParent(o *rest.Object) string {
	parent := o.Text("parent")
	if len(parent) > maxParent {
		o.Fail("parent", "has more than %d bytes", maxParent)
	}
	return parent
}
