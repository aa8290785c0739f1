package e2b

import (
	"context"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// Sandboxes of a node that has ended go on at the node that is asked for them next, with their files.

// scans are the looks for sandboxes of other nodes. Requests for sandboxes need no key, so that they are few whatever
// is asked.
type scans struct {
	mu   sync.Mutex
	last time.Time // when the last one began
}

// scanEvery is the least time between two looks.
const scanEvery = 500 * time.Millisecond

// find returns a sandbox; nil: there is none, or another node has it, which is recorded in the context's Redirect.
func (h *Handler) find(ctx context.Context, id string) *sandbox {
	sb := h.sandboxes.find(id)
	if sb != nil || !h.inCluster() || len(id) != sandboxIDLength {
		return sb
	}
	if epoch := engine.EpochOf(id); epoch == 0 || epoch == h.Self() {
		return nil
	}
	h.adopt(ctx, true, func(r *record) bool { return r.ID == id })
	return h.sandboxes.find(id)
}

func (h *Handler) inCluster() bool { return h.Store != nil && h.Self != nil && h.Self() != 0 }

// adopt continues with the wanted sandboxes of nodes that have ended. If it may not wait, it does nothing soon after
// the last time.
func (h *Handler) adopt(ctx context.Context, wait bool, wanted func(*record) bool) {
	asked := time.Now()
	h.scans.mu.Lock()
	defer h.scans.mu.Unlock()
	left := scanEvery - asked.Sub(h.scans.last)
	if left > 0 && !wait {
		return
	}
	select {
	case <-time.After(left):
	case <-ctx.Done():
		return
	}
	h.scans.last = time.Now()
	sessions, err := h.Store.SessionsOfOthers(ctx, engine.OriginE2B)
	if err != nil {
		h.Log.Error("sandboxes of other nodes are not known", "err", err)
		return
	}
	for _, session := range sessions {
		r := recordOf(session)
		if r == nil || !wanted(r) || h.sandboxes.find(r.ID) != nil {
			continue
		}
		if session, err = h.Store.Claim(ctx, session); err == nil {
			h.Log.Info("a sandbox goes on here: the node that had it has ended", "session", session.ID)
			h.resume(ctx, session, r)
		}
	}
}
