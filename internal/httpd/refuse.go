package httpd

import (
	"encoding/json"
	"net/http"
	"time"
)

// refusal is the error body of the native API, and of every address outside the dialects.
type refusal struct {
	Error struct {
		Code      string `json:"code"`
		Message   string `json:"message"`
		RequestID string `json:"request_id"`
	} `json:"error"`
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, _ *http.Request, status int, code, message string) {
	setRefused(w, code)
	var body refusal
	body.Error.Code, body.Error.Message = code, message
	body.Error.RequestID = w.Header().Get(requestIDHeader)
	writeJSON(w, status, body)
}

// setRefused notes why a request was refused, for its count.
func setRefused(w http.ResponseWriter, reason string) {
	if v := watch(w); v != nil && v.refused == "" {
		v.refused = reason
	}
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"error":{"code":"internal","message":"internal error"}}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // fails if the client has disconnected
}

// hangUp ends the connection after the answer, for a request whose body is not read. A
// client that waits for 100 Continue sends nothing more, so the server does not wait for
// it. Other clients' bytes are drained, because closing earlier could discard the answer; see
// lingering.
func hangUp(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "close")
	if r.Header.Get("Expect") != "" {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now())
	}
}

// refuse answers with an error in the mount's format.
func (m *Mount) refuse(w http.ResponseWriter, r *http.Request, status int, code, message string) {
	setRefused(w, code)
	if m.Refuse != nil {
		m.Refuse(w, r, status, code, message)
		return
	}
	refuse(w, r, status, code, message)
}

func notFound(w http.ResponseWriter, r *http.Request) {
	refuse(w, r, http.StatusNotFound, "not_found", "nothing lives at this address")
}
