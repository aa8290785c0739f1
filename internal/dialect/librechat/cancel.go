package librechat

import (
	"encoding/json"
	"io"
	"net/http"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/toolcall"
)

// requestHeader names a request, so that another one can cancel it.
const requestHeader = "X-Librechat-Code-Request-Id"

const maxRequestID = 128

// enter notes a request for as long as it is answered. The one that it returns is to be
// used in its place, and leave to be called with the program that waits afterwards, or nil.
func (a *api) enter(r *http.Request, caller engine.Caller) (_ *http.Request, leave func(*toolcall.Program), _ error) {
	id := r.Header.Get(requestHeader)
	if len(id) > maxRequestID {
		return nil, nil, bad("%s is too long", requestHeader)
	}
	ctx, leave, err := a.programs.Enter(r.Context(), caller.Owner, id)
	if err != nil {
		return nil, nil, err
	}
	return r.WithContext(ctx), leave, nil
}

func (a *api) cancelProgrammatic(w http.ResponseWriter, r *http.Request) error {
	caller, err := a.caller(r)
	if err != nil {
		return err
	}
	var body struct {
		ID string `json:"request_id"`
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, maxStranger))
	if err != nil || json.Unmarshal(text, &body) != nil || body.ID == "" || len(body.ID) > maxRequestID {
		return bad("request_id is invalid")
	}
	stopped, err := a.programs.Cancel(body.ID, caller.Owner)
	if err != nil {
		return err
	}
	type reply struct {
		Status string `json:"status"`
	}
	if stopped {
		writeJSON(w, http.StatusAccepted, reply{"cancellation_requested"})
		return nil
	}
	writeJSON(w, http.StatusOK, reply{"already_completed"})
	return nil
}
