package mcp

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/airlock-run/airlock/internal/engine"
)

// ticketTime is how long a ticket is valid.
const ticketTime = 10 * time.Minute

// tickets are one-time secrets.
type tickets[T any] struct {
	mu   sync.Mutex
	open map[string]ticket[T]
}

type ticket[T any] struct {
	owner engine.Owner
	about T
	until time.Time
}

// maxTickets limits the tickets of an owner. A new one replaces the oldest.
const maxTickets = 100

func (t *tickets[T]) put(owner engine.Owner, about T) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		t.open = map[string]ticket[T]{}
	}
	n, oldest := 0, ""
	for secret, other := range t.open {
		if time.Now().After(other.until) {
			delete(t.open, secret)
		} else if other.owner == owner {
			n++
			if oldest == "" || other.until.Before(t.open[oldest].until) {
				oldest = secret
			}
		}
	}
	if n >= maxTickets {
		delete(t.open, oldest)
	}
	secret := rand.Text() + rand.Text() // 256 bits: for an upload it is all that is asked for
	t.open[secret] = ticket[T]{owner, about, time.Now().Add(ticketTime)}
	return secret
}

// redeem uses up a ticket and returns its subject.
func (t *tickets[T]) redeem(secret string) (is ticket[T], ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	is, ok = t.open[secret]
	delete(t.open, secret)
	return is, ok && time.Now().Before(is.until)
}

// upload is the subject of a ticket for a file.
type upload struct {
	caller  engine.Caller
	session engine.ID
	path    string
}

func (s *Server) uploadLink(ctx context.Context, c *call) (*sdk.CallToolResult, error) {
	name, err := c.path()
	if err != nil {
		return nil, err
	}
	session, err := s.work(ctx, c)
	if err != nil {
		return nil, err
	}
	token := s.uploads.put(c.caller.Owner, upload{caller: c.caller, session: session, path: name})
	base := s.PublicURL
	if extra := c.request.Extra; base == "" && extra != nil {
		base = extra.Header.Get(baseHeader)
	}
	return answer(fmt.Sprintf(
		"Send the file within 10 minutes, once:\ncurl -fsS -T FILE %s/mcp/upload/%s\nsession %s then has it as %s.",
		base, token, sessionPrefix+session.String(), engine.ShownName(name))), nil
}

// Uploads serves the addresses from upload_link. The addresses are secrets, so it is
// mounted for all callers.
func (s *Server) Uploads(limit int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPut {
			w.Header().Set("Allow", http.MethodPut)
			http.Error(w, "this address takes PUT", http.StatusMethodNotAllowed)
			return
		}
		ticket, ok := s.uploads.redeem(strings.TrimPrefix(r.URL.Path, "/"))
		to := ticket.about
		if !ok {
			http.Error(w, "this address is used up, expired, or never was", http.StatusNotFound)
			return
		}
		entry, err := s.write(r.Context(), to.caller, to.session, to.path, http.MaxBytesReader(w, r.Body, limit))
		if err != nil {
			text, _ := errorOf(err)
			http.Error(w, "the file was not stored: "+text, http.StatusUnprocessableEntity)
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "stored %d bytes\n", entry.Size)
	})
}
