package e2b

import (
	"cmp"
	"fmt"
	"net/http"
	"time"
)

// How long a sandbox lives: what changes its end, and its end.

// life reads a time to live in seconds, of which there must be a number at least.
func life(seconds *int, least int, otherwise time.Duration) (time.Duration, error) {
	if seconds == nil {
		return otherwise, nil
	}
	if most := int(maxLife / time.Second); *seconds < least || *seconds > most {
		return 0, invalid(fmt.Sprintf("timeout must be %d to %d seconds", least, most))
	}
	return time.Duration(*seconds) * time.Second, nil
}

// connect answers with the tokens of a sandbox, and extends its life, or resumes it.
func (h *Handler) connect(w http.ResponseWriter, r *http.Request, sb *sandbox) error {
	var body lifeBody
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	left, err := life(body.Timeout, 0, 0)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if sb.resume(cmp.Or(left, usualLife)) {
		status = http.StatusCreated
	} else {
		sb.live(left, true)
	}
	h.save(r.Context(), sb)
	writeJSON(w, status, h.made(sb))
	return nil
}

func (h *Handler) delete(w http.ResponseWriter, r *http.Request, sb *sandbox) error {
	if err := h.kill(r.Context(), sb); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

type lifeBody struct {
	Timeout  *int `json:"timeout"`
	Duration *int `json:"duration"` // of refreshes
}

// usualLife is what a sandbox gets where a request names no time.
const usualLife = 15 * time.Second

// setTimeout sets the remaining time of a sandbox. Without any the sandbox ends.
func (h *Handler) setTimeout(w http.ResponseWriter, r *http.Request, sb *sandbox) error {
	var body lifeBody
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	left, err := life(body.Timeout, 0, usualLife)
	switch {
	case err != nil:
		return err
	case left == 0:
		return h.delete(w, r, sb)
	}
	sb.live(left, false)
	h.save(r.Context(), sb)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// refresh extends the remaining time of a sandbox.
func (h *Handler) refresh(w http.ResponseWriter, r *http.Request, sb *sandbox) error {
	var body lifeBody
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	left, err := life(body.Duration, 1, usualLife)
	if err != nil {
		return err
	}
	sb.live(left, true)
	h.save(r.Context(), sb)
	w.WriteHeader(http.StatusNoContent)
	return nil
}
