package httpd

import (
	"encoding/json"
	"net/http"
	"time"
)

// refusal is the error body of the native API, which every address outside of
// a dialect uses too.
type refusal struct {
	Error struct {
		Code      string `json:"code"`
		Message   string `json:"message"`
		RequestID string `json:"request_id"`
	} `json:"error"`
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, _ *http.Request, status int, code, message string) {
	var body refusal
	body.Error.Code, body.Error.Message = code, message
	body.Error.RequestID = w.Header().Get(requestIDHeader)
	writeJSON(w, status, body)
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
	_, _ = w.Write(append(text, '\n')) // the peer may be gone, and nobody is left to tell
}

// hangUp ends the connection after the answer, for a request whose body stays
// unread. A client that waits to be asked for the body sends nothing more, so
// nothing is waited for; what another has on its way is drained, or closing
// would take the answer from it.
func hangUp(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "close")
	if r.Header.Get("Expect") != "" {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now())
	}
}

// refuse speaks the mount's own language where it has one.
func (m *Mount) refuse(w http.ResponseWriter, r *http.Request, status int, code, message string) {
	if m.Refuse != nil {
		m.Refuse(w, r, status, code, message)
		return
	}
	refuse(w, r, status, code, message)
}

func notFound(w http.ResponseWriter, r *http.Request) {
	refuse(w, r, http.StatusNotFound, "not_found", "nothing lives at this address")
}
