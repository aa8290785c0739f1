package librechat

import (
	"net/http"
	"time"

	"github.com/airlock-run/airlock/internal/wire"
)

// pulse is how often an answer that takes long gets a space. Old clients, and
// some proxies, hang up on a connection that is silent for five seconds.
const pulse = 3 * time.Second

// longAnswer is the answer to a request that may take minutes. JSON may begin
// with white space, so while there is nothing to say it says that. From the
// first space on the status is 200, whatever happens.
type longAnswer struct {
	w       http.ResponseWriter
	started bool
}

func newLongAnswer(w http.ResponseWriter) *longAnswer { return &longAnswer{w: w} }

func (a *longAnswer) begun() bool { return a.started }

// beat sends a space.
func (a *longAnswer) beat() {
	if !a.started {
		a.started = true
		a.w.Header().Set("Content-Type", "application/json; charset=utf-8")
		a.w.Header().Set("X-Accel-Buffering", "no") // nginx
		a.w.WriteHeader(http.StatusOK)
	}
	_, _ = a.w.Write([]byte(" ")) // a client that left ends the request's context
	_ = http.NewResponseController(a.w).Flush()
}

// finish sends the body.
func (a *longAnswer) finish(body any) error {
	if !a.started {
		writeJSON(a.w, http.StatusOK, body)
		return nil
	}
	_, _ = a.w.Write(wire.Encode(body)) // the peer may be gone
	return nil
}

// await waits for a result and keeps the client waiting too.
func await[T any](a *longAnswer, get func() (T, error)) (result T, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		result, err = get()
	}()
	tick := time.NewTicker(pulse)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return result, err
		case <-tick.C:
			a.beat()
		}
	}
}
